"""Detection of stages that stand still although records wait."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STALLED_S = 60.0
"""Limit with records waiting and no batch in flight, in seconds; only a rebalance of many workers takes as long."""
BUSY_S = 3600.0
"""Limit with a batch in flight, in seconds: 32 events may cause thousands of calls of a language model."""


class Progress:
    """Progress of one stage: batches in flight, and when the last one ended."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._started: list[float] = []
        self._has_backlog = False

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a batch as in flight until the end of the block; several may be in flight at a time."""
        started = self._clock()
        self._started.append(started)
        try:
            yield
        finally:
            self._started.remove(started)
            self._since = self._clock()

    def seen(self, *, backlog: bool) -> None:
        """Record whether records wait; an idle stage without a backlog is not stalled."""
        self._has_backlog = backlog
        if not backlog and not self._started:
            self._since = self._clock()

    @property
    def idle_s(self) -> float:
        """Age of the oldest batch in flight, in seconds; without one, the time that records have waited; else 0."""
        if self._started:
            return self._clock() - self._started[0]
        return self._clock() - self._since if self._has_backlog else 0.0

    @property
    def stalled(self) -> bool:
        """Whether the oldest batch in flight exceeds `BUSY_S` or, without one, records have waited over `STALLED_S`."""
        if self._started:
            return self._clock() - self._started[0] > BUSY_S
        return self._clock() - self._since > STALLED_S
