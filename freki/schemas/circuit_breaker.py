"""Circuit breaker: no calls to a service that is down; the one mechanism that infra and streams share."""

from collections.abc import Callable

from freki.schemas.backoff import backoff


class CircuitBreaker:
    """State of one service: closed, open after failures in a row, then half open for one trial call."""

    def __init__(self, clock_s: Callable[[], float], *, failures: int, rest_s: float, longest_rest_s: float) -> None:
        """Open after `failures` in a row for `rest_s`; each further rest is twice as long, at most `longest_rest_s`."""
        self._clock_s = clock_s
        self._limit = failures
        self._first_rest_s = rest_s
        self._longest_rest_s = longest_rest_s
        self._failures = 0
        self._rest_s = 0.0
        self._is_trying = False
        self.until_s = 0.0
        """End of the current rest, by the clock."""
        self.reason = ""
        """Reason of the last failure."""

    @property
    def is_open(self) -> bool:
        """Whether the service counts as down."""
        return self._failures >= self._limit

    def allows(self) -> bool:
        """Return whether a call may begin. The outcome of each call that begins must be reported."""
        if not self.is_open:
            return True
        if self._clock_s() < self.until_s:
            return False
        # The caller makes the trial; if its outcome is never reported, there is another trial after another rest.
        self.until_s, self._is_trying = self._clock_s() + self._rest_s, True
        return True

    def succeeded(self) -> None:
        """Report a call that succeeded."""
        self._failures, self._is_trying = 0, False

    def failed(self, reason: str, *, wait_s: float = 0.0, opens: bool = False, longest_rest_s: float = 0.0) -> float:
        """Report a call that failed; return the rest that begins now, in seconds, 0 for none.

        wait_s: rest that the service asks for. opens: open at once. longest_rest_s: a limit for this failure alone.
        """
        if self.is_open and not self._is_trying:
            return 0.0  # the call began before the rest
        self._is_trying = False
        self._failures = max(self._failures + 1, self._limit if opens else 0)
        self.reason = reason
        if not self.is_open:
            return 0.0
        longest_s = longest_rest_s or self._longest_rest_s
        rest_s = backoff(self._failures - self._limit + 1, first=self._first_rest_s, longest=longest_s)
        self._rest_s = max(rest_s, min(longest_s, wait_s))
        self.until_s = self._clock_s() + self._rest_s
        return self._rest_s
