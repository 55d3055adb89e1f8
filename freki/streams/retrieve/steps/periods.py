"""Days, months, years and spans of time that texts name, in any notation."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from freki.operators.analyse_text import TermPlace, term_places
from freki.schemas.short_dates import with_full_years

_TO = r"(?:-|–|—|bis(?:\s+(?:zum|einschließlich))?|to|until|till|through)"
_GAP = re.compile(rf"\s*{_TO}\s*")
_BETWEEN = re.compile(r"\s+(?:und|and)\s+")
_AND_BEFORE = re.compile(r"\b(?i:zwischen|between)\s+(?:de[mr]\s+)?$")
_OPEN = re.compile(r"\b(?i:seit|ab|since|from|as of)\s+(?:dem\s+)?$")
_DATED = re.compile(r"\b(?i:vom|of|dated)\s+$")
_MOST_BEFORE = 24
"""Characters before a date that are read."""
_MONTH = r"[^\W\d_]{3,9}\.?"
# `1.1.-31.12.2023`, `1. bis 15. Mai 2023`, `1 April to 15 May 2023`; `April 1 to May 15, 2023`.
_YEAR_LAST = re.compile(
    rf"(?<![\w.,/-])(?P<day>\d{{1,2}}\.?)(?:\s?(?P<first>\d{{1,2}}\.|{_MONTH}))??(?P<to>\s?{_TO}\s?)"
    rf"(?P<end>\d{{1,2}}\.?\s?(?P<last>\d{{1,2}}\.|{_MONTH})\s?(?P<year>\d{{4}}))(?!\w)"
)
_MONTH_FIRST = re.compile(
    rf"\b(?P<start>{_MONTH}\s\d{{1,2}})(?P<to>\s?{_TO}\s?)(?P<end>{_MONTH}\s\d{{1,2}},?\s(?P<year>\d{{4}}))(?!\w)"
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MONTH_TERM = re.compile(r"\d{4}-\d\d")
_YEAR = re.compile(r"[12]\d{3}")
_OF_YEAR = re.compile(r"(?:0?[1-9]|1[0-2])/([12]\d{3})")
_SEASON = re.compile(r"([12]\d{3})/(\d\d|\d{4})")
_NEVER = "9999-12-31"
_DATE_END = re.compile(r"[12]\d{3}|\d{1,2}\.\s?\d{1,2}\.\s?\d\d\b")
_MOST_BEHIND = 24
_LONGEST_SPAN = 48
"""Maximum characters from the beginning of a span to the end of its first year."""


class Period(NamedTuple):
    """A day, a month, a year, or a span of time."""

    first: str
    last: str
    """Days in ISO notation, both included; months end with the 31st."""
    text: str
    """As named, with years in full."""
    is_span: bool = False
    """Has it a beginning and an end of its own: `1.1. bis 31.12.2023`, `1999–2005`, `2023/24`?"""
    is_open: bool = False
    """Is it a beginning without an end, as in `seit 2013`?"""
    is_dated: bool = False
    """Is it the date of something, as in `Urteil vom 3.10.1990`?"""

    @property
    def is_day(self) -> bool:
        """Is it a single day?"""
        return self.first == self.last

    @property
    def has_days(self) -> bool:
        """Is it a day, or a span from a day to a day?"""
        return self.is_day or (self.is_span and not (self.first.endswith("-01-01") and self.last.endswith("-12-31")))

    def of_years(self) -> "Period":
        """Return its whole years unless it has days: months are told in many ways."""
        if self.has_days:
            return self
        return self._replace(first=f"{self.first[:4]}-01-01", last=f"{self.last[:4]}-12-31")

    def is_in(self, other: "Period") -> bool:
        """Return whether a text that names the other one tells of this.

        A day is in no month or year, but in a span unless it is the date of something.
        """
        last = _NEVER if other.is_open else other.last
        meets = self.first <= last and other.first <= self.last
        if not self.is_day:
            return meets
        return self[:2] == other[:2] or (meets and (other.is_span or other.is_open) and not self.is_dated)


def periods(text: str, *, language: str) -> list[Period]:
    """Return the periods that a text names, in its order."""
    full = _MONTH_FIRST.sub(r"\g<start>, \g<year>\g<to>\g<end>", _YEAR_LAST.sub(_with_year, with_full_years(text)))
    found: list[Period] = []
    start = end = 0
    for place, period in _periods(full, language):
        before = full[max(0, place.start - _MOST_BEFORE) : place.start]
        if found and not found[-1].is_span and _is_gap(full, start, end, place.start):
            found[-1] = Period(found[-1].first, period.last, full[start : place.end], is_span=True)
        else:
            start = place.start
            is_open, is_dated = _OPEN.search(before) is not None, _DATED.search(before) is not None
            found.append(period._replace(is_open=is_open, is_dated=is_dated))
        end = place.end
    return found


def lacking(asked: Sequence[Period], texts: Iterable[str], *, language: str) -> list[Period]:
    """Return those of the periods of which no text tells."""
    parts = [part for text in texts for part in _dated_parts(text)] if asked else []
    have = {period for part in parts for period in periods(part, language=language)}
    return [each for each in asked if not any(map(each.is_in, have))]


def _dated_parts(text: str) -> Iterator[str]:
    """Yield the parts of a text that may name periods: to read all of its words takes ten times as long."""
    start = end = 0
    for found in _DATE_END.finditer(text):
        begin = max(0, found.start() - _LONGEST_SPAN)
        if begin > end:
            yield text[start:end]
            start = begin
        end = found.end() + _MOST_BEHIND
    yield text[start:end]


def _with_year(found: re.Match[str]) -> str:
    """Write the year of the last day of a span, and its month if it has none, at the first day."""
    month = found["first"] or found["last"]
    blank = "" if month[0].isdigit() else " "
    return f"{found['day']}{blank}{month}{blank}{found['year']}{found['to']}{found['end']}"


def _is_gap(text: str, begin: int, end: int, start: int) -> bool:
    """Return whether a span is what stands from the begin of a period to the start of the next: `1999 bis 2005`."""
    gap, before = text[end:start], text[max(0, begin - _MOST_BEFORE) : begin]
    return _GAP.fullmatch(gap) is not None or (
        _BETWEEN.fullmatch(gap) is not None and _AND_BEFORE.search(before) is not None
    )


def _periods(text: str, language: str) -> Iterator[tuple[TermPlace, Period]]:
    for place in term_places(text, language=language):
        written = text[place.start : place.end].rstrip("T")
        if (span := _span(written, place.terms.split())) is not None:
            first, last, is_span = span
            yield place, Period(first, last, written, is_span)


def _span(written: str, terms: Sequence[str]) -> tuple[str, str, bool] | None:
    if day := next(filter(_DAY.fullmatch, terms), None):
        return day, day, False
    if month := next(filter(_MONTH_TERM.fullmatch, terms), None):
        return f"{month}-01", f"{month}-31", False
    if _YEAR.fullmatch(written):
        return f"{written}-01-01", f"{written}-12-31", False
    if in_year := _OF_YEAR.fullmatch(written):
        month = written.partition("/")[0].zfill(2)
        return f"{in_year[1]}-{month}-01", f"{in_year[1]}-{month}-31", False
    if (season := _SEASON.fullmatch(written)) and (int(season[1]) + 1) % 100 == int(season[2]) % 100:
        return f"{season[1]}-01-01", f"{int(season[1]) + 1}-12-31", True
    return None
