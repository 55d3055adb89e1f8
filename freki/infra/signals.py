"""Work that goes on until a signal ends it."""

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any


async def run_until_stopped(
    work: Coroutine[Any, Any, None], signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> None:
    """Run what has no end of its own until a signal, which cancels it; raise what else ends it. Main thread only."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
    for number in signals:
        loop.add_signal_handler(number, task.cancel)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        for number in signals:
            loop.remove_signal_handler(number)
    if not task.cancelled():
        task.result()
