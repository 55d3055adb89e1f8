"""Ends of commands, also of those with background tasks and threads that cannot be ended."""

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import structlog
import typer

R = TypeVar("R")

LIMIT_S = 5.0
"""Time for background tasks and threads to end once they are cancelled, in seconds."""
TAKE_NOTE_S = 1.0
"""Time for the event loop to take note of Ctrl-C, in seconds: it cannot while a command reads files."""

_log = structlog.get_logger(__name__)
_abandoned = threading.Event()
"""Set while background tasks or threads are waited for, and for ever if they do not end."""


def run(work: Coroutine[Any, Any, R]) -> R:
    """Run a command as `asyncio.run` does, which waits without end for tasks that do not end when they are cancelled.

    Clients of Kafka have such tasks while no broker answers, and no thread ends before its call returns. They are
    abandoned; `exit_if_abandoned` ends the process.
    """
    runner = asyncio.Runner()
    threads = ThreadPoolExecutor(thread_name_prefix="freki-call")
    try:
        runner.get_loop().set_default_executor(threads)
        return runner.run(_interruptible(work))
    finally:
        # At once: another Ctrl-C while it is waited for ends the process without.
        _abandoned.set()
        left = runner.run(_cancel_others())
        if left:
            _log.warning("background tasks do not end; the process ends without them", tasks=sorted(map(str, left)))
        elif not _have_ended(threads):
            _log.warning("calls in threads do not end; the process ends without them")
        else:
            runner.close()
            _abandoned.clear()


async def _interruptible(work: Coroutine[Any, Any, R]) -> R:
    """Await a command; Ctrl-C also ends it where it computes or reads for long without giving the event loop a turn.

    There asyncio raises at the second Ctrl-C, so this one is followed by another if the loop does not take note of it.
    """
    cancels, main, loop = signal.getsignal(signal.SIGINT), threading.main_thread(), asyncio.get_running_loop()
    if threading.current_thread() is not main or not callable(cancels) or cancels is signal.default_int_handler:
        return await work

    def interrupt(number: int, frame: FrameType | None) -> None:
        again = threading.Timer(TAKE_NOTE_S, lambda: signal.pthread_kill(main.ident or 0, signal.SIGINT))
        again.daemon = True
        again.start()
        loop.call_soon_threadsafe(again.cancel)
        cancels(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        return await work
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, cancels)


def _have_ended(threads: ThreadPoolExecutor) -> bool:
    """End threads, and return whether all have ended in time."""
    waiting = threading.Thread(target=lambda: threads.shutdown(cancel_futures=True), daemon=True)
    waiting.start()
    waiting.join(LIMIT_S)
    return not waiting.is_alive()


@contextmanager
def exit_if_abandoned() -> Iterator[None]:
    """End the process with a command whose tasks were abandoned: threads that go on would keep it."""
    code = 1
    try:
        yield
        code = 0
    except typer.Exit as end:
        code = end.exit_code
        raise
    except Exception:
        if _abandoned.is_set():
            traceback.print_exc()
        raise
    finally:
        if _abandoned.is_set():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


async def _cancel_others() -> set[asyncio.Task[Any]]:
    """Cancel all other tasks, and return those that go on."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return (await asyncio.wait(others, timeout=LIMIT_S))[1] if others else set()
