"""Circuit breaker: stop calling services that are down."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from freki.schemas import Timestamp
from freki.schemas.backoff import backoff

FAILURES = 3
"""Failures in a row after which a service counts as down."""
REST_MS = 5_000
"""First rest of a service that is down, in ms. Then one trial call is made; if it fails, the rest doubles."""
LONGEST_REST_MS = 120_000


@dataclass(slots=True)
class _ServiceState:
    failures: int = 0
    rest_ms: int = 0
    trying: bool = False
    """Is a trial call in flight?"""
    until: Timestamp = Timestamp(0)  # noqa: RUF009 - a number
    reason: str = ""


class Breaker:
    """State of each service in this process: closed, open after failures in a row, then half open for one trial call.

    A service may set the rest itself.
    """

    def __init__(self, now: Callable[[], Timestamp]) -> None:
        self._now = now
        self._records: dict[str, _ServiceState] = {}

    def refusal(self, service: str) -> str:
        """Return why no call may begin, or an empty string. The outcome of each call that begins must be reported."""
        if not self.is_open(service):
            return ""
        record, now = self._records[service], self._now()
        if now < record.until:
            until = datetime.fromtimestamp(record.until / 1000, UTC)
            return f"left alone until {until:%H:%M:%S} UTC: {record.reason}"
        # The caller makes the trial; if its outcome is never reported, there is another trial after another rest.
        record.until, record.trying = Timestamp(now + record.rest_ms), True
        return ""

    def is_open(self, service: str) -> bool:
        """Return whether a service counts as down."""
        record = self._records.get(service)
        return record is not None and record.failures >= FAILURES

    def succeeded(self, service: str) -> None:
        """Report a call that succeeded."""
        self._records.pop(service, None)

    def failed(self, service: str, reason: str, *, wait_s: float = 0.0, longest_rest_ms: int = LONGEST_REST_MS) -> None:
        """Report a call that failed.

        reason: part of refusals until the service is back. wait_s: rest that the service asks for, at once.
        """
        record = self._records.setdefault(service, _ServiceState())
        if record.failures >= FAILURES and not record.trying:
            return  # the call began before the rest
        record.trying = False
        record.failures = max(record.failures + 1, FAILURES if wait_s else 0)
        record.reason = reason
        if record.failures >= FAILURES:
            rest_ms = int(backoff(record.failures - FAILURES + 1, first=REST_MS, longest=longest_rest_ms))
            record.rest_ms = max(rest_ms, min(longest_rest_ms, int(1000 * min(wait_s, LONGEST_REST_MS))))
            record.until = Timestamp(self._now() + record.rest_ms)
