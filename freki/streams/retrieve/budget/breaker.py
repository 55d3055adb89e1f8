"""Remembers what is down, so that no query waits for it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from freki.schemas import Timestamp
from freki.schemas.backoff import backoff

FAILURES = 3
"""In a row, before something counts as down."""
REST_MS = 5_000
"""How long it is left alone then. After that one call tries whether it is back, and if not the rest is doubled."""
LONGEST_REST_MS = 120_000


@dataclass(slots=True)
class _Record:
    failures: int = 0
    rest_ms: int = 0
    trying: bool = False
    """Is a call under way that tells whether the service is back?"""
    until: Timestamp = Timestamp(0)  # noqa: RUF009 - a number
    reason: str = ""


class Breaker:
    """One record a service; in this process only, and by the clock that is given.

    Closed until calls failed in a row, then open, then half open: one call may begin, and the others wait for it.
    A service may say itself for how long it wants to be left alone.
    """

    def __init__(self, now: Callable[[], Timestamp]) -> None:
        self._now = now
        self._records: dict[str, _Record] = {}

    def refusal(self, service: str) -> str:
        """Say why no call may begin; empty where one may. Each call that may must be told of in the end."""
        if not self.is_open(service):
            return ""
        record, now = self._records[service], self._now()
        if now < record.until:
            until = datetime.fromtimestamp(record.until / 1000, UTC)
            return f"left alone until {until:%H:%M:%S} UTC: {record.reason}"
        # Whoever asks now tries; should it never be told of, the next one tries after another rest.
        record.until, record.trying = Timestamp(now + record.rest_ms), True
        return ""

    def is_open(self, service: str) -> bool:
        """Tell whether it counts as down."""
        record = self._records.get(service)
        return record is not None and record.failures >= FAILURES

    def succeeded(self, service: str) -> None:
        """Begin anew."""
        self._records.pop(service, None)

    def failed(self, service: str, reason: str, *, wait_s: float = 0.0, longest_rest_ms: int = LONGEST_REST_MS) -> None:
        """Count a failure.

        reason: told to all who ask until it is back. wait_s: for how long the service wants to be left alone, at once.
        """
        record = self._records.setdefault(service, _Record())
        if record.failures >= FAILURES and not record.trying:
            return  # it began before the rest, and says nothing new
        record.trying = False
        record.failures = max(record.failures + 1, FAILURES if wait_s else 0)
        record.reason = reason
        if record.failures >= FAILURES:
            rest_ms = int(backoff(record.failures - FAILURES + 1, first=REST_MS, longest=longest_rest_ms))
            record.rest_ms = max(rest_ms, min(longest_rest_ms, int(1000 * min(wait_s, LONGEST_REST_MS))))
            record.until = Timestamp(self._now() + record.rest_ms)
