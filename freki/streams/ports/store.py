"""Protocols of the store of one generation."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

from freki.schemas import ChunkId, RootId, TenantId
from freki.schemas.arrays import Floats
from freki.schemas.index import (
    Candidate,
    ChunkContent,
    CommitId,
    GenerationEntry,
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


class ReadableRows(Protocol):
    """What answers read of chunk rows of one generation. A row is written once, under a unique key, and never changed.

    Missing rows are absent.
    """

    async def contents(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[ChunkContent, Floats]]:
        """Return what ranking and answers read of rows, with their vectors, shape (dim,)."""

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Return the texts of rows with headings and contexts."""

    async def match_codes(self, row_ids: Sequence[RowId]) -> Mapping[RowId, str]:
        """Return what late interaction compares, see `operators.late_interaction`; empty without token vectors."""


class ChunkRows(ReadableRows, Protocol):
    """Chunk rows of one generation, as they are written, read and deleted."""

    async def stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[StoredRow]]:
        """Return all rows of chunks, by any writer; chunks without rows are absent."""

    async def fetch(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
        """Return rows with their vectors, shape (dim,); missing rows are absent."""

    async def insert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write rows with keys that no row has, as those of a new attempt. vectors: (rows, dim)."""

    async def rows_of(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[RowHead]]:
        """Return every chunk row of documents, live or not."""

    async def delete(self, row_ids: Sequence[RowId]) -> None:
        """Delete rows; ignore missing ones."""


class Roots(Protocol):
    """Roots and manifests of one generation. They are added and removed, never changed.

    Reads are strongly consistent: they see all completed writes.
    """

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Return the standing root of each document (`schemas.index.standing`), including deleted ones."""

    async def commits(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[Root]]:
        """Return all roots of documents, including superseded ones."""

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        """Return manifest pages; missing ones are absent."""

    async def naming(
        self, root_ids: Sequence[RootId], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[PageId, Mapping[ChunkId, Place]]:
        """Return what the manifest pages name that name any of these chunks, of documents, of any revision."""

    async def page_heads(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[PageHead]]:
        """Return all manifest pages of documents, whether a root refers to them or not.

        A mark that was written after its page was deleted is returned as an unchecked page without rows.
        """

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they have no effect until a root refers to them."""

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Mark pages as checked: a root may refer to them."""

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots, which makes each revision visible atomically. Watermarks never decrease."""

    async def discard(self, pages: Sequence[PageId], commits: Sequence[CommitId] = ()) -> None:
        """Delete pages and roots; ignore missing ones."""


class Store(ChunkRows, Roots, Protocol):
    """Rows, manifests and roots of one generation."""


class ChunkSearch(Protocol):
    """Search for chunk rows that a scope may see; one ranking per query, best first, ties by chunk id.

    bypass_cache: whether rankings that are kept are passed over, because documents changed after one was made.
    """

    async def dense(
        self, vectors: Floats, scopes: Sequence[Scope], *, limit: int, strong: bool, bypass_cache: bool = False
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, dim)."""

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool, bypass_cache: bool = False
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms; an empty text has no results."""

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Return those of the wanted chunks that a scope may see, with their root; one list and one scope per query."""

    async def watermarks(self) -> Sequence[Watermark]:
        """Return the watermark of each partition."""


class GenerationLog(Protocol):
    """The log of generations, one for the whole store."""

    async def entries(self) -> Sequence[GenerationEntry]:
        """Return all entries, unordered."""

    async def append(self, entry: GenerationEntry) -> None:
        """Add an entry."""


class IndexedDocuments(Protocol):
    """Look-up of documents by id and by source."""

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Return the standing root of each document, including deleted ones."""

    async def roots_from(self, source_uris: Collection[str]) -> Sequence[Root]:
        """Return the standing roots of live documents with one of these sources, of any tenant.

        Raises Rejected for an address that `Path.as_uri` would not return.
        """


class WholeIndex(Protocol):
    """Iteration over a whole index."""

    def all_roots(
        self, after: RootId | None = None, *, tenant: TenantId | None = None, prefix: str = ""
    ) -> AsyncIterator[Root]:
        """Yield the standing root of every document, in ascending order of root ids.

        after: only those above it; tenant, prefix: only of a tenant, and whose id begins with the prefix.
        """

    def all_rows(self) -> AsyncIterator[Sequence[tuple[RootId, RowHead]]]:
        """Yield every chunk row, in pages."""


class DocumentIndex(Store, WholeIndex, Protocol):
    """An index whose documents can be listed and shown."""


class PortableIndex(DocumentIndex, Protocol):
    """An index that can be exported and imported."""

    async def watermarks(self) -> Sequence[Watermark]:
        """Return the watermark of each partition."""
