"""The store of one generation, as stages see it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from freki.schemas import ChunkId, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import (
    Candidate,
    CommitId,
    IndexedChunk,
    ManifestPage,
    PageHead,
    PageId,
    Passage,
    Place,
    Root,
    RowHead,
    RowId,
    Scope,
    StoredRow,
    Watermark,
)


class ChunkRows(Protocol):
    """The chunk rows of one generation. A row is written once, under a key of its own, and never changed."""

    async def stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[StoredRow]]:
        """Find the rows of chunks, by whomever they were written; chunks without rows are absent."""

    async def fetch(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
        """Read rows with their vectors, shape (dim,); absent ones are absent."""

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Read texts with their headings and contexts."""

    async def upsert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write rows; the same ones again change nothing. vectors: (rows, dim)."""

    async def rows_of(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[RowHead]]:
        """List every chunk row of documents, live or not, however many."""

    async def delete(self, row_ids: Sequence[RowId]) -> None:
        """Remove rows; absent ones are fine."""


class Roots(Protocol):
    """The roots and manifests of one generation. All are only ever added and removed, never changed.

    All reads see what was written before.
    """

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Read the root of each document that counts (`schemas.index.standing`), also deleted ones."""

    async def commits(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[Root]]:
        """Read all roots of documents, also those that do not count any more."""

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        """Read manifest pages; missing ones are missing."""

    async def places(
        self, roots: Sequence[Root], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[RootId, Mapping[ChunkId, Place]]:
        """Tell which of these chunks the manifests of these roots name, on which page, and by which row."""

    async def page_heads(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[PageHead]]:
        """List all manifest pages of documents, whether a root names them or not."""

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they count for nothing until a root names them."""

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Note of pages that a root may name them."""

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots: from here readers see their revisions, each as a whole. Watermarks never fall back."""

    async def discard(self, pages: Sequence[PageId], commits: Sequence[CommitId] = ()) -> None:
        """Remove pages and roots; absent ones are fine."""


class Store(ChunkRows, Roots, Protocol):
    """Rows, manifests and roots of one generation."""


class ChunkSearch(Protocol):
    """Finds chunk rows that a scope may see; one ranking a query, best first, ties by chunk id."""

    async def dense(
        self, vectors: Floats, scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, dim)."""

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms; an empty text finds nothing."""

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Tell which of the wanted chunks a scope may see, each list in its own; no others are there."""

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""


class WholeIndex(Protocol):
    """The whole of an index."""

    def all_roots(self) -> AsyncIterator[Root]:
        """Read the root of every document that counts."""

    def all_rows(self) -> AsyncIterator[Sequence[tuple[RootId, RowHead]]]:
        """List every chunk row, in pages."""
