"""Variants of a query, their rankings, and the fusion of these."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from freki.schemas import ChunkId, RootId, Widening
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, ChunkContent, Root, RowId
from freki.schemas.names import record
from freki.streams.retrieve.parsed_query import EmbeddedQuery


@record
class QueryVariant:
    """One text to search for: the query itself, or the query in other words."""

    text: str
    terms: str
    """Terms for BM25; empty: not searched by BM25."""
    kind: Widening | None = None
    """Null: the query itself."""
    weight: float = 1.0
    """Weight in the fusion: 1 for the query itself, less for all others."""
    embeds: bool = True
    """Is it searched by its vector?"""
    vector: Floats | None = None


@record
class SearchedVariant:
    """A variant and its rankings."""

    variant: QueryVariant
    dense: Sequence[Candidate] | None
    """Null: not searched, or the search failed."""
    lexical: Sequence[Candidate] | None


class Ranked(NamedTuple):
    """A chunk in the fused ranking, with the score of each retriever; it may no longer be live."""

    chunk_id: ChunkId
    row_id: RowId
    root_id: RootId
    fused: float
    dense: float | None
    lexical: float | None
    variant: int
    """Index of the first variant that found it."""
    version: int = 0
    """Version of the revision that wrote the row, as `edition`."""
    edition: int = 0
    matched: float | None = None
    """Probability by late interaction; null: not matched."""


@record
class SearchResult:
    """Rankings of all variants of a query, and their fusion."""

    variants: Sequence[SearchedVariant]
    """The query itself first."""
    ranked: Sequence[Ranked] = ()
    alpha: float | None = None
    """Weight of dense search in the fusion; null: no weighted fusion."""
    roots: Mapping[RootId, Root] = field(default_factory=dict)
    """Documents that were looked up."""
    loaded: Mapping[ChunkId, tuple[ChunkContent, Floats]] = field(default_factory=dict)
    """Rows that were read."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of the variants."""
        return tuple(each.variant.text for each in self.variants)

    @property
    def dense(self) -> list[Sequence[Candidate]]:
        """Rankings of dense search, in the order of the variants."""
        return [each.dense for each in self.variants if each.dense is not None]

    @property
    def lexical(self) -> list[Sequence[Candidate]]:
        """Rankings of BM25, in the order of the variants."""
        return [each.lexical for each in self.variants if each.lexical is not None]

    @property
    def is_answered(self) -> bool:
        """Did one of the searches answer, perhaps with nothing?"""
        return bool(self.dense or self.lexical)


def variant_of(query: EmbeddedQuery) -> QueryVariant:
    """Return the variant that is the query itself."""
    return QueryVariant(text=query.text, terms=query.analysis.lexical, embeds=query.is_embedded, vector=query.vector)
