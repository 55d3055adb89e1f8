"""Ends of commands, also of those with background tasks that cannot be ended."""

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog
import typer

R = TypeVar("R")

LIMIT_S = 5.0
"""Time for background tasks to end once they are cancelled, in seconds."""

_log = structlog.get_logger(__name__)
_abandoned: set[asyncio.Task[Any]] = set()


def run(work: Coroutine[Any, Any, R]) -> R:
    """Run a command as `asyncio.run` does, which waits without end for tasks that do not end when they are cancelled.

    Clients of Kafka have such tasks while no broker answers. They are abandoned; `exit_if_abandoned` ends the process.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        left = runner.run(_cancel_others())
        if left:
            _log.warning("background tasks do not end; the process ends without them", tasks=sorted(map(str, left)))
            _abandoned.update(left)
        else:
            runner.close()


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
        if _abandoned:
            traceback.print_exc()
        raise
    finally:
        if _abandoned:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


async def _cancel_others() -> set[asyncio.Task[Any]]:
    """Cancel all other tasks, and return those that go on."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return (await asyncio.wait(others, timeout=LIMIT_S))[1] if others else set()
