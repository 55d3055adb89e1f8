"""Keys of documents on topics, and ids of documents and chunks in the store."""

from collections.abc import Sequence

from freki.schemas import ChunkId, ChunkKind, DocumentId, TenantId
from freki.schemas.names import digest_of, record_key, root_id

__all__ = ["chunk_id", "chunk_id_of_kind", "chunk_id_within", "record_key", "root_id"]


def chunk_id(
    tenant: TenantId,
    document_id: DocumentId,
    *,
    level: int,
    heading_path: Sequence[str],
    text: str,
    occurrence: int,
) -> ChunkId:
    """Return the id of a chunk, a hash of all arguments: 128 bits as 32 hexadecimal digits.

    occurrence: 0-based, among the chunks of a revision that are equal in all other parts.
    """
    return ChunkId(digest_of("freki-chunk", [tenant, document_id, level, list(heading_path), text, occurrence]))


def chunk_id_within(chunk: ChunkId, window: str, *, start: int | None = None) -> ChunkId:
    """Return the id of a chunk whose vector depends on the text around it: 128 bits as 32 hexadecimal digits.

    start: place of the chunk in a window that holds its text several times; None: it holds it once.
    """
    place = [] if start is None else [start]
    return ChunkId(digest_of("freki-window", [chunk, window, *place]))


def chunk_id_of_kind(chunk: ChunkId, kind: ChunkKind) -> ChunkId:
    """Return the id of a chunk whose vector is made by a model for its kind: 128 bits as 32 hexadecimal digits."""
    return ChunkId(digest_of("freki-kind", [chunk, kind.value]))
