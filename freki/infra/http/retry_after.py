"""When a server wants to be asked again."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(header: str) -> float | None:
    """Read a Retry-After header, seconds or a date; None for anything else."""
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
