"""How many of a query's words its hits have, and whether they can have them: texts in other languages share few."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from freki.operators.analyse_text import compound_terms, plain_terms, term_places
from freki.operators.detect_language import UNDETERMINED
from freki.streams.retrieve.candidates import LoadedChunk
from freki.streams.retrieve.parsed_query import ParsedQuery

MAX_READ = 8
"""Hits whose words are compared: a usual answer."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class TermCoverage(NamedTuple):
    """What hits have of the words of a query."""

    share: float
    """Largest share of the words that one hit has, 0..1."""
    is_any: bool
    """Has a hit any word, or a part of one?"""


def coverage(query: ParsedQuery, hits: Sequence[LoadedChunk], text: str | None = None) -> TermCoverage:
    """Return what the best hits have of the query's words, or those of a part of it, in any inflection.

    A word counts if one of its terms is among those of the row: `Kündigung` also in `Kündigungsfrist`; a compound only
    if all of its parts are, `Biersteuer` not in `Kaffeesteuer`; a date only if the row has that day. Stop words do not
    count.
    """
    text, language = query.text if text is None else text, query.analysis.language
    places = term_places(text, language=language)
    words = [_word(text[place.start : place.end], place.terms, language) for place in places]
    if not words:
        return TermCoverage(0.0, is_any=False)
    have = [frozenset(each.row.lexical.split()) for each in hits[:MAX_READ]]
    return TermCoverage(
        max((sum(word.is_in(terms) for word in words) / len(words) for terms in have), default=0.0),
        is_any=any(not terms.isdisjoint(word.terms | word.parts) for word in words for terms in have),
    )


def days_of(terms: str) -> set[str]:
    """Return the term of the day of a date: its month and year are those of other days too."""
    return set(filter(_DAY.fullmatch, terms.split()))


def is_across(query: ParsedQuery, hit: LoadedChunk, *, covered: TermCoverage) -> bool:
    """Return whether a hit is in another language than the query.

    Few words may be of any language: then it is another one if no hit has one of them.
    """
    asked, written = query.analysis.language, hit.row.language
    return not covered.is_any if UNDETERMINED in (asked, written) else asked != written


class _Word(NamedTuple):
    """A word of a query, as rows may have it."""

    terms: AbstractSet[str]
    """One of them is enough."""
    parts: AbstractSet[str]
    """All of them are needed; empty if it is no compound."""

    def is_in(self, row: AbstractSet[str]) -> bool:
        return not row.isdisjoint(self.terms) or (bool(self.parts) and self.parts <= row)


def _word(text: str, terms: str, language: str) -> _Word:
    parts = compound_terms(text, language)
    whole = [term for term in terms.split() if term not in parts]
    # Rows that were analysed for a baseline hold words as they are.
    return _Word(days_of(terms) or {*whole, *plain_terms(text, language=UNDETERMINED).split()}, set(parts))
