"""Ends of tasks."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all have ended. Raises none of their errors."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run clean-up to its end also if this task is cancelled meanwhile, and raise that afterwards. Raises its error."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    task.result()


async def ends_within(limit_s: float, work: Coroutine[Any, Any, object]) -> bool:
    """Run a piece of work for at most so many seconds; return whether it came to its end. Raises its error.

    For clean-up: in a task that is being cancelled, the limits of `asyncio.timeout` count as a cancellation up to
    Python 3.11.2, which is that of Debian 12.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
    finally:
        if not task.done():
            await cancel_and_wait([task])
    if done:
        task.result()
    return bool(done)
