"""Age of content, where its time is known."""

from freki.schemas import Timestamp
from freki.schemas.names import is_known

UNKNOWN_AGE = -1
"""Age of content whose time is unknown."""


def age_ms(occurred_at: Timestamp, now: Timestamp) -> int:
    """Return the age in milliseconds, at least 0; `UNKNOWN_AGE` if the time is unknown."""
    return max(0, now - occurred_at) if is_known(occurred_at) else UNKNOWN_AGE
