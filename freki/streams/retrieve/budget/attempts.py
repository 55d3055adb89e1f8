"""Calls of stores, models and services within the time that queries have left."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import structlog

from freki.schemas import NoticeKind, Timestamp
from freki.schemas.errors import InfraError, Misconfigured, Unavailable
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.budget.breaker import LONGEST_REST_MS, Breaker
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.parsed_query import ParsedQuery

_log = structlog.get_logger(__name__)

T = TypeVar("T")

MIN_RESERVE_S = 0.01
"""Minimum reserve for sending the answer, in seconds, before its duration is known."""
MIN_STEP_S = 0.01
"""Minimum time, in seconds, to begin a step that only improves the answer."""
SEARCHING = ("search.dense", "fuse", "match", "manifest", "load")
"""From the vector of a query to its candidates, as far as one step waits for another."""
LOOKING_UP = ("embed", *SEARCHING)
"""First steps of every query, as far as one waits for another."""
LEAVING = ("assemble", "send")
"""Steps of every answer, even of one that lacks everything else."""
RECHECK = "recheck"
"""The step that looks, last of all, whether the documents of hits still stand: without it no hit may be shown."""
SHOWING = ("manifest", *LEAVING)
"""Steps of every answer with hits, once all is read; looking at roots takes no longer then than before."""
FINISHING = ("diversify", "locate", *SHOWING)
"""Last steps of every query."""
STEP_REST_MS = 2_000
"""Maximum rest, in ms, of a service without a substitute, such as the store: answers without it are poor."""
SHARE = 0.5
"""Share of the time left that a step may take without which there is an answer."""
PATIENCE_S = 1.0
"""Time without an answer, in seconds, after which a service counts as down, and not as slow."""


class StepFailed(Exception):
    """A step cannot do its work. The message says why; it is shown to others than the sender of the query, too."""


class NotInTime(Exception):
    """A step had too little time to tell whether its service is down, or slow. The message says so, to all."""


_OUTAGES = (Unavailable, Misconfigured, StepFailed)
"""Failures of a service that is down, not of a request that it cannot answer."""


class Alternatives:
    """Calls that run at once, of which one is enough for an answer."""

    def __init__(self) -> None:
        self._running: list[asyncio.Timeout] = []
        self._has_answer = False

    @contextmanager
    def running(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Count a call as one of these; limit: its time."""
        self._running.append(limit)
        if self._has_answer:
            _shorten(limit)
        try:
            yield
        finally:
            self._running.remove(limit)

    def answered(self) -> None:
        """Leave the others SHARE of their time: one of these calls has an answer."""
        self._has_answer = True
        for limit in self._running:
            _shorten(limit)


def _shorten(limit: asyncio.Timeout) -> None:
    now_s, ends_s = asyncio.get_running_loop().time(), limit.when()
    if ends_s is not None and not limit.expired():
        limit.reschedule(now_s + SHARE * (ends_s - now_s))


class Attempts:
    """Runs calls that may fail: steps fail open, with a notice, when a call fails or the time to leave has come.

    The message of a failure goes to the log only: it may name hosts, or quote other queries; notices have its `gist`.
    """

    def __init__(
        self,
        *,
        now: Callable[[], Timestamp],
        clock_s: Callable[[], float],
        estimates: Estimates,
        in_flight: InFlight,
        meters: Meters,
    ) -> None:
        """Create it; now: clock of deadlines; clock_s: monotonic clock of durations."""
        self._now = now
        self._estimates = estimates
        self._in_flight = in_flight
        self._meters = meters
        self._breaker = Breaker(now, clock_s)

    async def __call__(
        self,
        queries: Sequence[ParsedQuery],
        step: str,
        call: Awaitable[T],
        *,
        service: str | None = None,
        share: float = 1.0,
        fresh_s: float = 0.0,
        alternatives: Alternatives | None = None,
    ) -> T | None:
        """Await a call within the time that is left; on failure add a notice to the queries and return None.

        service: name of the service that is called, if there are others for this step. No call begins while the
        service is down. share: share of that time which the call may take, where later steps can do without it.
        fresh_s: seconds in which the answer can leave without a second look at roots, for which no time is kept then.
        alternatives: calls of which one is enough, this one among them.
        """
        if not queries:
            return await call
        longest_rest_ms = LONGEST_REST_MS if service else STEP_REST_MS
        service = service or step
        if refusal := self._breaker.refusal(service):
            if asyncio.iscoroutine(call):
                call.close()
            self._meters.count_skipped_call(service)
            _add_notices(queries, step, f"{service} was skipped: {refusal}")
            return None
        # A call for several queries may take the time that the query with the latest deadline has.
        if step == RECHECK:
            fresh_s = math.inf
        limit_s = max(share * max(self._longest_s(query, fresh_s) for query in queries), MIN_RESERVE_S)
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limit_s) as limit:
                with (alternatives or Alternatives()).running(limit):
                    result = await call
        except (InfraError, StepFailed, NotInTime, TimeoutError) as error:
            reason = _reason_of(error)
            waited_s = asyncio.get_running_loop().time() - began_s
            traces = [query.trace_id for query in queries]
            _log.warning("a step failed", stage=step, service=service, error=repr(error), trace_ids=traces)
            if isinstance(error, _OUTAGES) or (isinstance(error, TimeoutError) and waited_s >= PATIENCE_S):
                wait_s = getattr(error, "wait_s", 0.0)
                self._breaker.failed(service, reason, wait_s=wait_s, longest_rest_ms=longest_rest_ms)
            self._meters.set_circuit_open(service, resting=self._breaker.is_open(service))
            _add_notices(queries, step, f"{service} failed: {reason}")
            return None
        self._breaker.succeeded(service)
        self._meters.set_circuit_open(service, resting=False)
        return result

    def close(self) -> None:
        """End: a service that is down is no longer told of, since nobody here will find it up again."""
        for service in self._breaker.open_services:
            self._meters.set_circuit_open(service, resting=False)

    @property
    def now_s(self) -> float:
        """Time of the clock of deadlines, in seconds."""
        return self._now() / 1000

    def remaining_s(self, query: ParsedQuery) -> float:
        """Return the seconds until the answer must leave."""
        return query.remaining_s(self._now())

    def spare_s(self, query: ParsedQuery, *, before: Sequence[str]) -> float:
        """Return the seconds left to a query, less the time for the given later steps and for answers due before."""
        own_s = max(MIN_RESERVE_S, self._estimates.careful_s(*before))
        return self.remaining_s(query) - own_s - self._in_flight.before_own(query) * self._estimates.typical_s(*LEAVING)

    def _longest_s(self, query: ParsedQuery, fresh_s: float) -> float:
        """Return the seconds that a call may take so that the answer can be shown."""
        return max(self.spare_s(query, before=SHOWING), min(self.spare_s(query, before=LEAVING), fresh_s))


def _reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer within the deadline"
    return str(error) if isinstance(error, StepFailed | NotInTime) else getattr(error, "gist", "it failed")


def _add_notices(queries: Sequence[ParsedQuery], step: str, message: str) -> None:
    for query in queries:
        query.log.notice(step, NoticeKind.DEGRADED, message)
