"""Circuit breakers of the services that retrieval calls."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from freki.schemas import Timestamp
from freki.schemas.circuit_breaker import CircuitBreaker

FAILURES = 3
"""Failures in a row after which a service counts as down."""
REST_MS = 5_000
"""First rest of a service that is down, in ms. Then one trial call is made; if it fails, the rest doubles."""
LONGEST_REST_MS = 120_000


class Breaker:
    """One circuit breaker for each service that has failed. A service may set the rest itself."""

    def __init__(self, now: Callable[[], Timestamp], clock_s: Callable[[], float]) -> None:
        """Create them; now: clock of the times that are told; clock_s: monotonic clock of rests."""
        self._now = now
        self._clock_s = clock_s
        self._services: dict[str, CircuitBreaker] = {}

    def refusal(self, service: str) -> str:
        """Return why no call may begin, or an empty string. The outcome of each call that begins must be reported."""
        breaker = self._services.get(service)
        if breaker is None or breaker.allows():
            return ""
        left_s = breaker.until_s - self._clock_s()
        until = datetime.fromtimestamp(self._now() / 1000 + left_s, UTC)
        return f"left alone until {until:%H:%M:%S} UTC: {breaker.reason}"

    @property
    def open_services(self) -> Collection[str]:
        """Names of the services that count as down."""
        return [service for service, breaker in self._services.items() if breaker.is_open]

    def is_open(self, service: str) -> bool:
        """Return whether a service counts as down."""
        breaker = self._services.get(service)
        return breaker is not None and breaker.is_open

    def succeeded(self, service: str) -> None:
        """Report a call that succeeded."""
        self._services.pop(service, None)

    def failed(self, service: str, reason: str, *, wait_s: float = 0.0, longest_rest_ms: int = LONGEST_REST_MS) -> None:
        """Report a call that failed.

        reason: part of refusals until the service is back. wait_s: rest that the service asks for, at once.
        """
        breaker = self._services.get(service)
        if breaker is None:
            breaker = self._services[service] = CircuitBreaker(
                self._clock_s,
                failures=FAILURES,
                rest_s=REST_MS / 1000,
                longest_rest_s=LONGEST_REST_MS / 1000,
            )
        breaker.failed(reason, wait_s=wait_s, opens=wait_s > 0, longest_rest_s=longest_rest_ms / 1000)
