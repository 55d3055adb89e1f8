"""Chunk rows, and projections of them."""

from collections.abc import Mapping

from freki.schemas.index.keys import RowId
from freki.schemas.names import ChunkId, ChunkKind, DocumentId, RootId, TenantId, record


@record
class ChunkContent:
    """The columns of a chunk row that ranking and answers read."""

    level: int
    kind: ChunkKind
    language: str
    heading_path: tuple[str, ...]
    text: str
    context: str
    context_key: str = ""
    """Context key of the contextual chunk."""
    lexical: str
    """Analysed terms of context and text for BM25, separated by spaces."""
    tokens: int


@record
class IndexedChunk(ChunkContent):
    """A chunk row without its vector: everything that depends on the content of the chunk."""

    row_id: RowId
    chunk_id: ChunkId
    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    name: str
    media_type: str
    principals: tuple[str, ...]
    attributes: Mapping[str, str]
    version: int
    """Version of the revision that wrote the row, as `edition`; later revisions may reuse it."""
    edition: int
    embedder: str
    """Fingerprint of the model that made the vector."""
    metadata_hash: str
    """Hash of the fields that can change without the content: readers, attributes, analyser."""
    match_code: str = ""
    """Code of the token vectors, see `operators.late_interaction`; empty for an embedder without any."""


@record
class StoredRow:
    """The columns of a chunk row that decide whether it, or its vector, can be reused."""

    row_id: RowId
    chunk_id: ChunkId
    kind: ChunkKind
    embedder: str
    metadata_hash: str
    context_key: str = ""


@record
class RowHead:
    """The key of a chunk row, and the revision that wrote it."""

    row_id: RowId
    version: int
    edition: int


@record
class Passage:
    """The columns of a chunk row that are shown around a hit, with its context."""

    text: str
    heading_path: tuple[str, ...] = ()
    context: str = ""
    context_key: str = ""

    @property
    def heading(self) -> str:
        """Innermost heading; empty where there is none."""
        return self.heading_path[-1] if self.heading_path else ""
