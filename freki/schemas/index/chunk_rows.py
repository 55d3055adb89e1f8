"""Chunk rows, and the parts of them that are read alone."""

from collections.abc import Mapping

from freki.schemas.index.keys import RowId
from freki.schemas.names import ChunkId, ChunkKind, DocumentId, RootId, TenantId, record


@record
class IndexedChunk:
    """A chunk row: what depends on the chunk's content. Its vector travels beside it."""

    row_id: RowId
    chunk_id: ChunkId
    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    level: int
    kind: ChunkKind
    language: str
    heading_path: tuple[str, ...]
    text: str
    context: str
    lexical: str
    """The analysed terms of context and text, separated by spaces, which BM25 counts."""
    tokens: int
    name: str
    media_type: str
    principals: tuple[str, ...]
    attributes: Mapping[str, str]
    version: int
    """Of the revision that wrote the row, as `edition`; later ones may keep it."""
    edition: int
    embedder: str
    """Fingerprint of the model that made the vector."""
    metadata_hash: str
    """Fingerprint of the fields that can change while the content stays: who may read it, attributes, analyser."""
    context_key: str = ""
    """As that of the contextual chunk."""


@record
class StoredRow:
    """As much of a chunk row as tells whether it, or its vector, can be used again."""

    row_id: RowId
    chunk_id: ChunkId
    kind: ChunkKind
    embedder: str
    metadata_hash: str
    context_key: str = ""


@record
class RowHead:
    """A chunk row and who wrote it."""

    row_id: RowId
    version: int
    edition: int


@record
class Passage:
    """As much of a chunk row as is shown around a hit, and the words that situate it."""

    text: str
    heading_path: tuple[str, ...] = ()
    context: str = ""
    context_key: str = ""

    @property
    def heading(self) -> str:
        """The innermost one above it; empty where there is none."""
        return self.heading_path[-1] if self.heading_path else ""
