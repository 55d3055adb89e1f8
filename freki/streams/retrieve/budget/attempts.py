"""Calls to the outside world within the time that queries have left."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from freki.schemas import NoticeKind, Timestamp
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.budget.breaker import LONGEST_REST_MS, Breaker
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.query_state import QueryState

_log = structlog.get_logger(__name__)

T = TypeVar("T")

LEAST_RESERVE_S = 0.01
"""For leaving, where nothing is known yet of how long that takes."""
LEAST_STEP_S = 0.01
"""Below this, a step that only improves the answer is not begun."""
LOOKING_UP = ("embed", "search.dense", "fuse", "manifest", "load")
"""What every query needs first, as far as one step waits for another."""
LEAVING = ("assemble", "send")
"""What even an answer that lacks everything else needs."""
FINISHING = ("diversify", "locate", *LEAVING)
"""What every query needs at last."""
STEP_REST_MS = 2_000
"""Longest rest of what nothing stands in for, such as the store: answers without it are poor."""
PATIENCE_S = 1.0
"""A service that does not answer for so long is down; one that was given less time may only be slow."""


class StepFailed(Exception):
    """A step cannot do what it is for; the message says why, also to others than the one whose query it was."""


class Attempts:
    """Steps fail open on `failures` and where time to leave has come: results say so, and the query goes on without.

    outages: of the failures, those that tell of a service that is down, not of a request that it cannot answer. What a
    failure itself says goes to the log only: it may name hosts, or quote what others asked; results tell its `gist`.
    """

    def __init__(
        self,
        *,
        failures: tuple[type[Exception], ...],
        outages: tuple[type[Exception], ...],
        now: Callable[[], Timestamp],
        estimates: Estimates,
        in_flight: InFlight,
        meters: Meters,
    ) -> None:
        self._failures: tuple[type[Exception], ...] = (*failures, StepFailed, TimeoutError)
        self._outages: tuple[type[Exception], ...] = (*outages, StepFailed)
        self._now = now
        self._estimates = estimates
        self._in_flight = in_flight
        self._meters = meters
        self._breaker = Breaker(now)

    async def __call__(
        self, states: Sequence[QueryState], stage: str, call: Awaitable[T], *, service: str | None = None
    ) -> T | None:
        """Await within the time that is left; on failure say so in the results and give None.

        service: who is called, where others could be called instead. Where it is down, the call does not begin.
        """
        if not states:
            return await call
        longest_rest_ms = LONGEST_REST_MS if service else STEP_REST_MS
        service = service or stage
        if refusal := self._breaker.refusal(service):
            if asyncio.iscoroutine(call):
                call.close()
            self._meters.left_out(service)
            _tell(states, stage, f"{service} was skipped: {refusal}")
            return None
        # A step that others wait for too may take what the most patient one has.
        limit_s = max(*(self.spare_s(state, before=LEAVING) for state in states), LEAST_RESERVE_S)
        try:
            async with asyncio.timeout(limit_s):
                result = await call
        except self._failures as error:
            reason = _told(error)
            traces = [state.trace_id for state in states]
            _log.warning("a step failed", stage=stage, service=service, error=repr(error), trace_ids=traces)
            if isinstance(error, self._outages) or (isinstance(error, TimeoutError) and limit_s >= PATIENCE_S):
                wait_s = getattr(error, "wait_s", 0.0)
                self._breaker.failed(service, reason, wait_s=wait_s, longest_rest_ms=longest_rest_ms)
            self._meters.rests(service, resting=self._breaker.is_open(service))
            _tell(states, stage, f"{service} failed: {reason}")
            return None
        self._breaker.succeeded(service)
        self._meters.rests(service, resting=False)
        return result

    @property
    def now_s(self) -> float:
        """Seconds by the clock of deadlines."""
        return self._now() / 1000

    def remaining_s(self, state: QueryState) -> float:
        """Seconds until the query's answer must leave."""
        return state.remaining_s(self._now())

    def spare_s(self, state: QueryState, *, before: Sequence[str]) -> float:
        """Seconds that the query has left for something else than these steps, which come after it, and for others."""
        own_s = max(LEAST_RESERVE_S, self._estimates.careful_s(*before))
        return self.remaining_s(state) - own_s - self._in_flight.before_own(state) * self._estimates.typical_s(*LEAVING)


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer within the deadline"
    return str(error) if isinstance(error, StepFailed) else getattr(error, "gist", "it failed")


def _tell(states: Sequence[QueryState], stage: str, message: str) -> None:
    for state in states:
        state.notice(stage, NoticeKind.DEGRADED, message)
