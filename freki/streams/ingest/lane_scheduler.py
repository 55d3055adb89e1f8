"""Scheduling of the lanes of a process, which share a model."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from freki.streams.deliver.lanes import Lane

MAX_PASSED = 4
"""Slices of more urgent lanes that a waiting lane lets pass, so that it gets a fifth of the work."""


class LaneScheduler:
    """Turns at the model: small slices at once, of large ones one at a time, the most urgent waiting lane next.

    A model works for all that run by turns, batch by batch, so that a small slice is soon done beside a large one.
    """

    def __init__(self, *, small: int) -> None:
        """Create; small: maximum tokens of a slice that waits for no other."""
        self._small = small
        self._waiting: Counter[Lane] = Counter()
        self._passed: Counter[Lane] = Counter()
        self._is_taken = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def turn(self, lane: Lane, tokens: int) -> AsyncIterator[None]:
        """Hold the turn of a lane, to embed so many tokens, until the end of the block; without starvation."""
        if tokens <= self._small:
            yield
            return
        self._waiting[lane] += 1
        try:
            while self._is_taken or self._next() is not lane:
                await self._changed.wait()
            self._is_taken = True
        finally:
            self._waiting[lane] -= 1
            self._notify()
        try:
            yield
        finally:
            self._is_taken = False
            self._passed[lane] = 0
            self._passed.update(other for other in Lane if self._waiting[other] and other is not lane)
            self._notify()

    def _next(self) -> Lane | None:
        waiting = [lane for lane in Lane if self._waiting[lane]]
        passed_over = [lane for lane in waiting if self._passed[lane] >= MAX_PASSED]
        return next(iter(passed_over or waiting), None)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
