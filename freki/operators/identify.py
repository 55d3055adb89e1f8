"""Keys of documents on topics, and ids of documents and chunks in the store."""

import json
from collections.abc import Sequence
from hashlib import blake2b

from freki.schemas import ChunkId, ChunkKind, DocumentId, RootId, TenantId
from freki.schemas.names import record_key

__all__ = ["chunk_id", "chunk_id_of_kind", "chunk_id_within", "record_key", "root_id"]


def root_id(tenant: TenantId, document_id: DocumentId) -> RootId:
    """Return the key of a document in the store: 128 bits as 32 hexadecimal digits."""
    return RootId(_digest("freki-root", [tenant, document_id]))


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
    return ChunkId(_digest("freki-chunk", [tenant, document_id, level, list(heading_path), text, occurrence]))


def chunk_id_within(chunk: ChunkId, window: str) -> ChunkId:
    """Return the id of a chunk whose vector depends on the text around it: 128 bits as 32 hexadecimal digits."""
    return ChunkId(_digest("freki-window", [chunk, window]))


def chunk_id_of_kind(chunk: ChunkId, kind: ChunkKind) -> ChunkId:
    """Return the id of a chunk whose vector is made by a model for its kind: 128 bits as 32 hexadecimal digits."""
    return ChunkId(_digest("freki-kind", [chunk, kind.value]))


def _digest(purpose: str, parts: list[object]) -> str:
    # JSON delimits the parts, and its ASCII form can encode every character.
    return blake2b(json.dumps(parts).encode("ascii"), digest_size=16, person=purpose.encode("ascii")).hexdigest()
