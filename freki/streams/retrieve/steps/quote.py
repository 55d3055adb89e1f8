"""Quotes from a hit what shows why it was found."""

from freki.operators.analyse_text import query_terms, term_places
from freki.operators.excerpt import Match, excerpt
from freki.schemas import RequestKind, Snippet
from freki.schemas.index import IndexedChunk
from freki.streams.retrieve.query_state import QueryState

_QUOTED = frozenset({RequestKind.KEYWORD_SEARCH, RequestKind.SEMANTIC_SEARCH})


def quote(state: QueryState, row: IndexedChunk) -> tuple[Snippet, ...]:
    """Give snippets where the kind of request has them."""
    if state.query.kind not in _QUOTED:
        return ()
    asked = frozenset(query_terms(state.query_variants[0].text, language=state.analysis.language).split())
    matches = [
        Match(place.start, place.end, shared)
        for place in term_places(row.text, language=row.language)
        if (shared := asked.intersection(place.terms.split()))
    ]
    return excerpt(row.text, matches)
