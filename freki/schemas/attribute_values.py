"""What texts say as numbers and as times: attributes are texts, and conditions compare them by what they say."""

import re
from datetime import UTC, date, datetime, timedelta

from freki.schemas.names import record

_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_ISO = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}(?P<second>:[0-9]{2}(?P<part>\.[0-9]{1,6})?)?)"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_GERMAN = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@record
class TimeSpan:
    """The time that a text names: a day, a minute, a second or less. Half-open, milliseconds since 1970 (UTC)."""

    start: int
    end: int


def number_of(text: str) -> float | None:
    """Return the number that a text is: digits, a decimal point, a sign, such as `-12.5`; None if it is none."""
    return float(text) if _NUMBER.fullmatch(text) else None


def time_of(text: str) -> TimeSpan | None:
    """Return the time that a text names, or None.

    Days are `2026-01-31` and `31.01.2026`; times `2026-01-31T10:30`, with seconds and an offset such as `Z` or `+01:00`
    where known. Without an offset a time is in UTC.
    """
    try:
        if german := _GERMAN.fullmatch(text):
            day, month, year = map(int, german.groups())
            return _day(date(year, month, day))
        if iso := _ISO.fullmatch(text):
            return _day(date.fromisoformat(text)) if iso["time"] is None else _moment(iso)
    except (ValueError, OverflowError):
        # No calendar has it, such as 2026-02-30.
        return None
    return None


def _day(day: date) -> TimeSpan:
    start = _milliseconds(datetime(day.year, day.month, day.day, tzinfo=UTC))
    return TimeSpan(start=start, end=start + 86_400_000)


def _moment(found: re.Match[str]) -> TimeSpan:
    said = datetime.fromisoformat(f"{found['day']}T{found['time']}{found['zone'] or 'Z'}")
    start = _milliseconds(said)
    if found["part"]:
        return TimeSpan(start=start, end=start + 1)
    return TimeSpan(start=start, end=start + (1_000 if found["second"] else 60_000))


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND
