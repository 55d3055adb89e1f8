"""Age of content, where its time is known."""

from freki.schemas import Timestamp

FIRST_YEAR_MS = 31_536_000_000
"""1971-01-01. Smaller numbers are no times: 0, a counter of a producer, files of an archive without dates."""
UNKNOWN_AGE = -1
"""Age of content whose time is unknown."""


def is_known(occurred_at: Timestamp) -> bool:
    """Return whether a number is a time of a source."""
    return occurred_at >= FIRST_YEAR_MS


def age_ms(occurred_at: Timestamp, now: Timestamp) -> int:
    """Return the age in milliseconds, at least 0; `UNKNOWN_AGE` if the time is unknown."""
    return max(0, now - occurred_at) if is_known(occurred_at) else UNKNOWN_AGE
