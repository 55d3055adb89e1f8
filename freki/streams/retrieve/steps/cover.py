"""How many of a query's words its hits have, and whether they can have them: texts in other languages share few."""

from collections.abc import Sequence

from freki.operators.analyse_text import plain_terms, term_places
from freki.operators.detect_language import UNDETERMINED
from freki.streams.retrieve.candidates import LoadedChunk
from freki.streams.retrieve.parsed_query import ParsedQuery

MAX_READ = 8
"""Hits whose words are compared: a usual answer."""


def covered_share(query: ParsedQuery, hits: Sequence[LoadedChunk]) -> float:
    """Return the largest share of the query's words that one of its best hits has, in any inflection, 0..1.

    A word counts if one of its terms is among those of the row: `Kündigung` also in `Kündigungsfrist`. Stop words do
    not count.
    """
    places = term_places(query.text, language=query.analysis.language)
    # Rows that were analysed for a baseline hold words as they are.
    words = [{*place.terms.split(), *_plain(query.text[place.start : place.end])} for place in places]
    if not words:
        return 0.0
    have = (frozenset(each.row.lexical.split()) for each in hits[:MAX_READ])
    return max((sum(not terms.isdisjoint(word) for word in words) / len(words) for terms in have), default=0.0)


def is_across(query: ParsedQuery, hit: LoadedChunk, *, covered: float) -> bool:
    """Return whether a hit is in another language than the query; covered: see `covered_share`.

    Few words may be of any language: then it is another one if no hit has one of them.
    """
    asked, written = query.analysis.language, hit.row.language
    return covered == 0 if UNDETERMINED in (asked, written) else asked != written


def _plain(word: str) -> list[str]:
    return plain_terms(word, language=UNDETERMINED).split()
