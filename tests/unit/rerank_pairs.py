"""Pairs of which only the texts matter."""

from collections.abc import Iterable

from freki.schemas.index import RerankPair


def paired(texts: Iterable[tuple[str, str]]) -> list[RerankPair]:
    """Make pairs of (query, text)."""
    return [pair(query, text) for query, text in texts]


def pair(query: str, text: str, *, heading: str = "") -> RerankPair:
    """Make one pair."""
    return RerankPair(query=query, heading=heading, text=text)
