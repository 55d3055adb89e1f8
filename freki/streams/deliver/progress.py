"""Detection of stages that stand still although records wait."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from freki.schemas.stalling import MAX_BATCH_S

STALLED_S = 60.0
"""Limit with records waiting and no batch in flight, in seconds; only a rebalance of many workers takes as long."""
_LOOK_S = 15.0
"""Longest time from one look at a stage to the next, in seconds: 2 between two, and 10 for the broker to answer."""


class AwakeClock:
    """Monotonic clock that leaves out most of the time in which the process stood still.

    A process that is suspended, as in a paused container or on a machine that moves, finishes nothing; records that
    came meanwhile do not mean that it has stalled. Read at each look at the stage: a longer gap counts as `_LOOK_S`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a clock that begins at 0."""
        self._clock = clock
        self._read_at = clock()
        self._awake_s = 0.0

    def __call__(self) -> float:
        """Return the time, in seconds."""
        now = self._clock()
        self._awake_s += min(now - self._read_at, _LOOK_S)
        self._read_at = now
        return self._awake_s


class Progress:
    """Progress of one stage: batches in flight, and when the last one ended."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Begin without a batch; clock: by default an `AwakeClock`."""
        self._clock = clock = clock or AwakeClock()
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
        now = self._clock()
        self._has_backlog = backlog
        if not backlog and not self._started:
            self._since = now

    @property
    def idle_s(self) -> float:
        """Age of the oldest batch in flight, in seconds; without one, the time that records have waited; else 0."""
        if self._started:
            return self._clock() - self._started[0]
        return self._clock() - self._since if self._has_backlog else 0.0

    @property
    def stalled(self) -> bool:
        """Whether the oldest batch in flight exceeds `MAX_BATCH_S` or, without one, the wait of records `STALLED_S`."""
        if self._started:
            return self._clock() - self._started[0] > MAX_BATCH_S
        return self._clock() - self._since > STALLED_S
