"""Calls to the outside world within the time that queries have left."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from freki.schemas import NoticeKind, Timestamp
from freki.streams.retrieval.estimates import Estimates
from freki.streams.retrieval.trail import Trail

T = TypeVar("T")

LEAST_RESERVE_S = 0.01
"""For leaving, where nothing is known yet of how long that takes."""
LEAST_STEP_S = 0.01
"""Below this, a step that only improves the answer is not begun."""
LOOKING_UP = ("embed", "search.dense", "fuse", "manifest", "load")
"""What every query needs first, as far as one step waits for another."""
FINISHING = ("diversify", "locate", "assemble", "send")
"""What every query needs at last."""


class Attempts:
    """Steps fail open on `failures` and where time is over: the results say so, and the query goes on without."""

    def __init__(
        self, *, failures: tuple[type[Exception], ...], now: Callable[[], Timestamp], estimates: Estimates
    ) -> None:
        self._failures: tuple[type[Exception], ...] = (*failures, TimeoutError)
        self._now = now
        self._estimates = estimates

    async def __call__(self, trails: Sequence[Trail], stage: str, call: Awaitable[T]) -> T | None:
        """Await within the time that is left; on failure say so in the results and give None."""
        if not trails:
            return await call
        # A step that others wait for too may take what the most patient one has.
        remaining_s = max(map(self.remaining_s, trails))
        try:
            async with asyncio.timeout(max(remaining_s, LEAST_RESERVE_S)):
                return await call
        except self._failures as error:
            reason = "no answer within the deadline" if isinstance(error, TimeoutError) else str(error)
            for trail in trails:
                trail.notice(stage, NoticeKind.DEGRADED, f"{stage} failed: {reason}")
            return None

    @property
    def now_s(self) -> float:
        """Seconds by the clock of deadlines."""
        return self._now() / 1000

    def remaining_s(self, trail: Trail) -> float:
        """Seconds until the query's answer must leave."""
        return trail.remaining_s(self._now())

    def spare_s(self, trail: Trail, *, before: Sequence[str]) -> float:
        """Seconds that the query has left for something else than these steps, which come after it."""
        return self.remaining_s(trail) - max(LEAST_RESERVE_S, self._estimates.careful_s(*before))
