"""Quote the parts of a hit that show why it was found."""

from freki.operators.analyse_text import query_terms, term_places
from freki.operators.excerpt import Match, excerpt
from freki.schemas import RequestKind, Snippet
from freki.streams.retrieve.parsed_query import ParsedQuery

_QUOTED = frozenset({RequestKind.KEYWORD_SEARCH, RequestKind.SEMANTIC_SEARCH})


def quote(query: ParsedQuery, text: str, *, language: str) -> tuple[Snippet, ...]:
    """Return snippets around the terms of the query, for kinds of requests that have snippets."""
    if query.query.kind not in _QUOTED:
        return ()
    return excerpt(text, matches(query, text, language=language))


def matches(query: ParsedQuery, text: str, *, language: str) -> list[Match]:
    """Return where a text has terms of the query, in reading order."""
    asked = frozenset(query_terms(query.text, language=query.analysis.language).split())
    return [
        Match(place.start, place.end, shared)
        for place in term_places(text, language=language)
        if (shared := asked.intersection(place.terms.split()))
    ]
