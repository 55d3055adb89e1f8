"""Interface of all systems."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.peers.job import Document
from bench.peers.models import Models
from freki.schemas.names import record

CANDIDATES = 24
"""Number of reranked hits of hybrid search; Freki's default is 16."""
HITS = 20
"""Number of hits of a query, reranked or not: enough to cover ten documents."""
_OVERLAP = 0.1
"""Overlap of chunks, as a share of a chunk."""
DENSE_INDEX: dict[str, Any] = {"index_type": "AUTOINDEX", "metric_type": "COSINE", "params": {}}
LEXICAL_INDEX: dict[str, Any] = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25", "params": {}}
"""BM25 index as in Freki. The integrations default to AUTOINDEX, which the local store rejects."""

Row = tuple[str, ...]
"""Document and text of a chunk in the store."""


@record
class Hit:
    """Found chunk."""

    document_id: str
    text: str


@record
class Leftovers:
    """Differences between the store and the live revisions."""

    rows: int
    left: int
    """Number of rows of no live revision."""
    missing: int
    """Number of live chunks without a row."""


@record
class Place:
    """Resources of a system."""

    models: Models
    store_uri: str
    directory: Path
    chunk_tokens: int
    """Target mean length of chunks, in tokens."""

    def splitting(self, *, filled: float) -> tuple[int, int]:
        """Return size and overlap in tokens for a splitter whose chunks fill this share of the size on average."""
        size = round(self.chunk_tokens / filled)
        return size, round(size * _OVERLAP)


class System(Protocol):
    """Framework with its index."""

    @property
    def embedded(self) -> int:
        """Number of document texts embedded so far."""

    def ingest(self, documents: Sequence[Document]) -> None:
        """Index documents for the first time; return once they can be found."""

    def update(self, changed: Sequence[Document], gone: Sequence[str], current: Sequence[Document]) -> None:
        """Apply changes; `current` has all documents live afterwards, for systems that need them."""

    def within(self, question: str, document_id: str) -> list[str]:
        """Search one document, as far as the system can, and return the texts found."""

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the store with the live revisions."""


class SearchingSystem(System, Protocol):
    """Framework that also answers queries."""

    @property
    def ways(self) -> tuple[str, ...]:
        """Names of the search methods."""

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Return the best hits, best first."""


def compared(found: Iterable[Row], expected: Iterable[Row]) -> Leftovers:
    """Compare rows. Equal chunks of a document may share a row; a chunk has at most one row per occurrence."""
    stored, live = Counter(found), Counter(expected)
    return Leftovers(rows=stored.total(), left=(stored - live).total(), missing=len(live.keys() - stored.keys()))
