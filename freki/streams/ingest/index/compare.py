"""Comparison of a revision's chunks with the rows of the store."""

from collections.abc import Callable, Mapping, Sequence

from freki.schemas import ChunkId, ContextualChunk
from freki.schemas.index import RowId, StoredRow
from freki.streams.ingest.index.pieces import Piece, Slice


def compare(
    piece: Piece,
    stored: Mapping[ChunkId, Sequence[StoredRow]],
    named: Mapping[ChunkId, RowId],
    *,
    fits: Callable[[StoredRow, ContextualChunk], bool],
) -> Slice:
    """Divide the chunks of a piece into those that reuse a row, copy a vector, or must be embedded.

    stored: all rows of each chunk; named: the row that the base refers to. Only those are reused: others may be deleted
    at any time. fits: whether the vector of a row is that of a chunk.
    """
    found = Slice([piece])
    for chunk in piece.chunks:
        chunk_id, kind = chunk.chunk.chunk_id, chunk.chunk.kind
        fitting = [row for row in stored.get(chunk_id, ()) if fits(row, chunk)]
        kept = named.get(chunk_id)
        if any(row.row_id == kept and (row.metadata_hash, row.kind) == (piece.metadata_hash, kind) for row in fitting):
            found.reused[chunk_id] = named[chunk_id]
        elif fitting:
            found.to_copy[chunk_id] = (piece, chunk)
            found.sources[chunk_id] = next((row.row_id for row in fitting if row.row_id == kept), fitting[0].row_id)
        else:
            found.to_embed[chunk_id] = (piece, chunk)
    return found
