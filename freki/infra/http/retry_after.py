"""The Retry-After header of a response."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(header: str) -> float | None:
    """Return the wait in seconds that a Retry-After header asks for; None where it is neither seconds nor a date."""
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
