"""What every system can do, however it does it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.peers.job import Document
from bench.peers.models import Models
from freki.schemas.names import record

CANDIDATES = 24
"""How many hits of hybrid search are reranked; Freki's default is 16."""
HITS = 20
"""How many hits a question gets, reranked or not: enough that ten documents are among them."""
_OVERLAP = 0.1
"""Share of a chunk."""
DENSE_INDEX: dict[str, Any] = {"index_type": "AUTOINDEX", "metric_type": "COSINE", "params": {}}
LEXICAL_INDEX: dict[str, Any] = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25", "params": {}}
"""As in Freki. The integrations would take AUTOINDEX for BM25 too, which the local store refuses."""

Row = tuple[str, ...]
"""Document and text of a chunk in the store."""


@record
class Hit:
    """A chunk that was found."""

    document_id: str
    text: str


@record
class Leftovers:
    """How the store differs from the live revisions."""

    rows: int
    left: int
    """Rows that belong to no live revision."""
    missing: int
    """Chunks of live revisions without a row."""


@record
class Place:
    """What a system works with."""

    models: Models
    store_uri: str
    directory: Path
    chunk_tokens: int
    """How long chunks shall be on average."""

    def splitting(self, *, filled: float) -> tuple[int, int]:
        """Give size and overlap in tokens for a splitter whose chunks fill such a share of the size on average."""
        size = round(self.chunk_tokens / filled)
        return size, round(size * _OVERLAP)


class System(Protocol):
    """A framework with its index."""

    @property
    def embedded(self) -> int:
        """How many texts of documents were embedded so far."""

    def ingest(self, documents: Sequence[Document]) -> None:
        """Index documents for the first time; return when they can be found."""

    def update(self, changed: Sequence[Document], gone: Sequence[str], current: Sequence[Document]) -> None:
        """Take in changes; `current` is all that is live afterwards, for systems that want to see it."""

    def within(self, question: str, document_id: str) -> list[str]:
        """Search one document, as far as the system can, and give the texts found."""

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the store with what is live."""


class SearchingSystem(System, Protocol):
    """A framework that answers questions too."""

    @property
    def ways(self) -> tuple[str, ...]:
        """Ways to search, by name."""

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Give the best hits, best first."""


def compared(found: Iterable[Row], expected: Iterable[Row]) -> Leftovers:
    """Compare rows. Equal chunks of a document may share a row, but no chunk may have more rows than it occurs."""
    stored, live = Counter(found), Counter(expected)
    return Leftovers(rows=stored.total(), left=(stored - live).total(), missing=len(live.keys() - stored.keys()))
