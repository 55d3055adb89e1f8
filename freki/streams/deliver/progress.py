"""Tells a stage that stands still from one that works or has nothing to do."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STALLED_S = 60.0
"""Limit with records waiting and no batch in flight, in seconds. Only a rebalance of many workers takes so long."""
BUSY_S = 3600.0
"""Limit with a batch in flight, in seconds: 32 events may mean thousands of calls of a language model."""


class Progress:
    """Tells a stage that stands still from one that works or has nothing to do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._begun: list[float] = []
        self._waits = False

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Take a batch; others may be at hand at the same time."""
        begun = self._clock()
        self._begun.append(begun)
        try:
            yield
        finally:
            self._begun.remove(begun)
            self._since = self._clock()

    def seen(self, *, backlog: bool) -> None:
        """Note whether records wait: without any, standing still is fine."""
        self._waits = backlog
        if not backlog and not self._begun:
            self._since = self._clock()

    @property
    def idle_s(self) -> float:
        """Seconds that the oldest batch is at hand; where there is none, that records have waited; else 0."""
        if self._begun:
            return self._clock() - self._begun[0]
        return self._clock() - self._since if self._waits else 0.0

    @property
    def stalled(self) -> bool:
        """Has nothing happened for too long, although something waits?"""
        if self._begun:
            return self._clock() - self._begun[0] > BUSY_S
        return self._clock() - self._since > STALLED_S
