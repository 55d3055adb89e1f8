"""Times that documents state of themselves, in one form that can be compared."""

import re
from datetime import UTC, datetime

_PDF = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([Zz])|([+-])(\d\d)'?(\d\d)?'?)?.*", re.ASCII)
_YEAR, _MONTH, _DAY = "%Y", "%Y-%m", "%Y-%m-%d"


def stated_time(text: str) -> str:
    """Return a time of a PDF or Office file as ISO 8601, such as `2026-01-31T09:30:00Z`; empty where it is none.

    Times with a zone become UTC; those without keep none. A date, month or year alone stays one.
    """
    text = text.strip()
    if text.startswith("D:") or (text[:8].isdecimal() and len(text) != len("2026")):
        return _of_pdf(text)
    if re.fullmatch(r"\d{4}(-\d\d){0,2}", text):
        form = {4: _YEAR, 7: _MONTH}.get(len(text), _DAY)
        return text if _parsed(text, form) else ""
    try:
        return _shown(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return ""


def _of_pdf(text: str) -> str:
    found = _PDF.fullmatch(text)
    if not found:
        return ""
    year, month, day, hour, minute, second, utc, sign, hours, minutes = found.groups()
    if hour is None:
        return stated_time("-".join(part for part in (year, month, day) if part))
    zone = "+00:00" if utc else f"{sign}{hours}:{minutes or '00'}" if sign else ""
    return stated_time(f"{year}-{month}-{day}T{hour}:{minute or '00'}:{second or '00'}{zone}")


def _shown(moment: datetime) -> str:
    if moment.tzinfo is None:
        return moment.isoformat(timespec="seconds")
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - a date has no zone
    except ValueError:
        return None
