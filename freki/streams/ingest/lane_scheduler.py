"""Scheduling of the lanes of a process, which share a model and write the same documents."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from freki.streams.deliver.lanes import Lane

MAX_PASSED = 4
"""Slices of more urgent lanes that a waiting lane lets pass, so that it gets a fifth of the work."""


class LaneScheduler:
    """Mutual exclusion of lanes: the most urgent waiting lane works next, without starvation."""

    def __init__(self) -> None:
        self._waiting: Counter[Lane] = Counter()
        self._passed: Counter[Lane] = Counter()
        self._is_taken = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def turn(self, lane: Lane) -> AsyncIterator[None]:
        """Hold the turn of a lane until the end of the block."""
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
            self._count(lane)
            self._notify()

    def should_yield(self, lane: Lane) -> bool:
        """Return whether a lane that has finished a slice, and has more, should yield its turn to another lane."""
        if self._next(lane) is lane:
            self._count(lane)
        return self._next(lane) is not lane

    def _count(self, lane: Lane) -> None:
        """Count a slice of a lane as passed by each waiting lane."""
        self._passed[lane] = 0
        self._passed.update(other for other in Lane if self._waiting[other] and other is not lane)

    def _next(self, also: Lane | None = None) -> Lane | None:
        waiting = [lane for lane in Lane if self._waiting[lane] or lane is also]
        passed_over = [lane for lane in waiting if self._passed[lane] >= MAX_PASSED]
        return next(iter(passed_over or waiting), None)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
