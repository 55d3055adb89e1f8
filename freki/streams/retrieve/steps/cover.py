"""How many of a query's words its hits have, and whether they can have them: texts in other languages share few."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from freki.operators.analyse_text import compound_terms, plain_terms, term_places
from freki.operators.detect_language import UNDETERMINED
from freki.streams.retrieve.candidates import LoadedChunk
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.steps.proper_names import proper_names

MAX_READ = 8
"""Hits whose words are compared: a usual answer."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class TermCoverage(NamedTuple):
    """What hits have of the words of a query."""

    share: float
    """Largest share of the words that one hit has, 0..1; hits that have names alone do not count."""
    is_any: bool
    """Has a hit any word, or a part of one?"""


def coverage(query: ParsedQuery, hits: Sequence[LoadedChunk], text: str | None = None) -> TermCoverage:
    """Return what the best hits have of the query's words, or those of a part of it, in any inflection.

    A word counts if one of its terms is among those of the row: `Kündigung` also in `Kündigungsfrist`; a compound only
    if all of its parts are, `Biersteuer` not in `Kaffeesteuer`; a date only if the row has that day. Stop words do not
    count. Nor does a hit that has nothing but names of a query that says more: each page of a CV has those of `Welche
    Religion hat Aylin Demirel?`.
    """
    text, language = query.text if text is None else text, query.analysis.language
    places = list(term_places(text, language=language))
    spelt = [text[place.start : place.end] for place in places]
    words = [_word(each, place.terms, language) for each, place in zip(spelt, places, strict=True)]
    if not words:
        return TermCoverage(0.0, is_any=False)
    names = frozenset(proper_names(query))
    saying = [word for word, each in zip(words, spelt, strict=True) if each not in names] or words
    have = [frozenset(each.row.lexical.split()) for each in hits[:MAX_READ]]
    shares = (
        sum(word.is_in(terms) for word in words) / len(words)
        for terms in have
        if any(word.is_in(terms) for word in saying)
    )
    return TermCoverage(
        max(shares, default=0.0),
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
