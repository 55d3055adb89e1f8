"""Texts with their terms, for the check of what a language model says against what it was given."""

from freki.operators.analyse_text import term_places
from freki.operators.support import Statement, clauses_of


def statement(text: str, language: str) -> Statement:
    """Return a text with its terms, as the check compares them."""
    parts = clauses_of(text)
    return Statement(
        text=text, places=_places(text, language), clauses=tuple((part, _places(part, language)) for part in parts)
    )


def _places(text: str, language: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(place.terms.split()) for place in term_places(text, language=language))
