"""The Retry-After header of a response."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(header: str) -> float | None:
    """Return the wait in seconds that a Retry-After header asks for; None where it is neither seconds nor a date."""
    if header.strip().isdecimal():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        # The last one for offsets and seconds that no integer of C holds.
        return None
    # RFC 9110, 5.6.7: the form of asctime has no zone, and is UTC.
    until = until.replace(tzinfo=UTC) if until.tzinfo is None else until
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
