"""Times in the terminal."""

from datetime import UTC, datetime

NO_TIME = "–"
_FIRST_MS, _LAST_MS = 631_152_000_000, 253_402_214_400_000
"""1990 to 9999. What is outside is no time: producers without one give a counter."""


def time_of(milliseconds: int) -> str:
    """Return a time as local date and time with the offset of the zone; a dash where it is none.

    The offset, because one night of a year has the same hour twice.
    """
    if not _FIRST_MS <= milliseconds < _LAST_MS:
        return NO_TIME
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S %z}"


def utc_of(milliseconds: int) -> str | None:
    """Return a time as date and minute, UTC; None where it is none."""
    if not _FIRST_MS <= milliseconds < _LAST_MS:
        return None
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%MZ}"
