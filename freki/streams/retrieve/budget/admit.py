"""Admit queries that there is time for."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from freki.schemas import ContextQuery, Timestamp
from freki.streams.retrieve.budget.attempts import FINISHING, LEAVING
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.budget.load import Load

BACK_OFF = 2.0
"""Factor on the duration of a lookup that was given up, which takes longer than it was waited for (RFC 6298, 5.5)."""


class AdmissionControl:
    """Refuses queries at once under overload, so that not all of them are late."""

    def __init__(
        self,
        *,
        deadline_ms: int,
        estimates: Estimates,
        in_flight: InFlight,
        now: Callable[[], Timestamp],
        clock_s: Callable[[], float],
    ) -> None:
        """Create one; now: clock of deadlines; clock_s: monotonic clock of durations."""
        self.deadline_ms = deadline_ms
        """Of queries that name none."""
        self._estimates = estimates
        self._in_flight = in_flight
        self._now = now
        self._clock_s = clock_s
        self._load = Load()
        self._at_once = 0

    def refusals(self, queries: Sequence[ContextQuery]) -> list[str | None]:
        """Return for each query, in the order of arrival, why there is no time to answer it, or None."""
        at_once, now_s = self._at_once, self._now() / 1000
        finishing_s, leaving_s = self._estimates.likely_s(*FINISHING), self._estimates.typical_s(*LEAVING)
        due: list[float] = []
        reasons: list[str | None] = []
        for query in queries:
            deadline_ms = self.deadline_ms if query.deadline_ms is None else query.deadline_ms
            # A sender whose clock is ahead gains no time.
            due_s = min(query.asked_at / 1000, now_s) + deadline_ms / 1000
            expected_s = (
                self._load.expected_s(at_once + 1) + finishing_s + self._in_flight.before(due_s, due) * leaving_s
            )
            # A single query is always admitted: a worker that was slow once must learn that it is fast again.
            if due_s - now_s > (expected_s if at_once else 0):
                at_once += 1
                due.append(due_s)
                reasons.append(None)
            else:
                reasons.append(_refusal(1000 * (due_s - now_s), 1000 * expected_s, at_once))
        return reasons

    @contextmanager
    def counted(self, queries: int) -> Iterator[None]:
        """Learn how long a lookup of so many queries takes, also if it is given up."""
        self._at_once += queries
        at_once, started_s = self._at_once, self._clock_s()
        patience = 1.0
        try:
            yield
        except asyncio.CancelledError:
            patience = BACK_OFF
            raise
        finally:
            self._at_once -= queries
            self._load.learn(at_once, patience * (self._clock_s() - started_s))


def _refusal(left_ms: float, expected_ms: float, at_once: int) -> str:
    over = f"its time had been over for {-left_ms:.0f} ms, by its asked_at,"
    left = f"{left_ms:.0f} ms were left" if left_ms > 0 else over
    return (
        f"{left} when it was read, and answers take about {expected_ms:.0f} ms with {at_once} others at hand: "
        "ask again, allow more time with deadline_ms, or run more workers"
    )
