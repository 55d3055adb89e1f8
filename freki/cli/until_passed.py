"""Wait until the stages that fill an index have passed on what waits for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import random

from freki.cli.context import errors
from freki.cli.show import show_error
from freki.schemas.backoff import backoff
from freki.schemas.errors import Unavailable
from freki.streams.wire.generations import Waiting

STAGES = ("chunk", "contextualise", "embed")
"""Stages that fill an index."""
CHECK_INTERVAL_S = 1.0
"""Interval of looks, in seconds."""
LONGEST_INTERVAL_S = 30.0
"""Longest wait between looks while broker or store do not answer, in seconds."""


async def until_passed(
    look: Callable[[], Awaitable[Waiting]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return once all that waited for an index at the beginning has passed the stages that fill it.

    look: tells what waits. An outage of broker or store is reported, and outlasted, as workers outlast it.
    """
    failures = passed = 0
    since_s = clock()
    while True:
        asked_s = clock()
        try:
            waiting = await look()
        except Unavailable as error:
            failures += 1
            wait_s = backoff(failures, first=CHECK_INTERVAL_S, longest=LONGEST_INTERVAL_S, jitter=random())  # noqa: S311 - jitter
            show_error(errors, f"{error}; looking again in {wait_s:.0f} s")
            await sleep(wait_s)
            continue
        failures = 0
        # Under a stream of changes something always waits: once all of it is younger, each stage has passed on what was
        # there before, and the next one has that before it.
        if waiting.oldest_s < asked_s - since_s:
            passed, since_s = passed + 1, clock()
        if not waiting.records or passed == len(STAGES):
            return
        await sleep(CHECK_INTERVAL_S)
