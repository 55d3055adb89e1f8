"""Which of a query's words and dates its hits have, and whether they can have them: other languages share few words."""

import re
from collections.abc import Iterable, Iterator, Sequence

from freki.operators.analyse_text import TermPlace, plain_terms, term_places
from freki.operators.detect_language import UNDETERMINED
from freki.schemas.short_dates import with_full_years
from freki.streams.retrieve.candidates import LoadedChunk
from freki.streams.retrieve.parsed_query import ParsedQuery

MAX_READ = 8
"""Hits whose words are compared: a usual answer."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def covered_share(query: ParsedQuery, hits: Sequence[LoadedChunk]) -> float:
    """Return the largest share of the query's words that one of its best hits has, in any inflection, 0..1.

    A word counts if one of its terms is among those of the row: `Kündigung` also in `Kündigungsfrist`; a date only if
    the row has that day. Stop words do not count.
    """
    places = term_places(query.text, language=query.analysis.language)
    words = [_of_day(place.terms) or {*place.terms.split(), *_plain(query, place)} for place in places]
    if not words:
        return 0.0
    have = (frozenset(each.row.lexical.split()) for each in hits[:MAX_READ])
    return max((sum(not terms.isdisjoint(word) for word in words) / len(words) for terms in have), default=0.0)


def absent_days(query: ParsedQuery, texts: Iterable[str]) -> list[str]:
    """Return the days that the query names, with years in full, and that no text has in any notation."""
    asked = dict(_days(query.text, query.analysis.language))
    found = {day for text in texts for day, _ in _days(text, query.analysis.language)} if asked else set()
    return [written for day, written in asked.items() if day not in found]


def is_across(query: ParsedQuery, hit: LoadedChunk, *, covered: float) -> bool:
    """Return whether a hit is in another language than the query; covered: see `covered_share`.

    Few words may be of any language: then it is another one if no hit has one of them.
    """
    asked, written = query.analysis.language, hit.row.language
    return covered == 0 if UNDETERMINED in (asked, written) else asked != written


def _days(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the days of a text as terms, and as it has them."""
    full = with_full_years(text)
    for place in term_places(full, language=language):
        yield from ((day, full[place.start : place.end]) for day in _of_day(place.terms))


def _of_day(terms: str) -> set[str]:
    """Return the term of the day of a date: its month and year are those of other days too."""
    return set(filter(_DAY.fullmatch, terms.split()))


def _plain(query: ParsedQuery, place: TermPlace) -> list[str]:
    """Return a word as rows hold it that were analysed for a baseline."""
    return plain_terms(query.text[place.start : place.end], language=UNDETERMINED).split()
