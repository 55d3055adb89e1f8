"""Comparison of a revision's chunks with the rows of the store."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from freki.schemas import ChunkId, ContextualChunk
from freki.schemas.index import RowId, StoredRow
from freki.streams.ingest.index.pieces import Piece, Slice

Fits = Callable[[StoredRow, ContextualChunk], bool]
"""Whether the vector of a row is that of a chunk: same embedder and context key."""
MOST_CHANGED = 0.5
"""Maximum share of changed chunks for which a revision keeps rows of its base."""


def keeps_rows(
    chunks: Iterable[ContextualChunk],
    stored: Mapping[ChunkId, Sequence[StoredRow]],
    named: Mapping[ChunkId, RowId],
    *,
    fits: Fits,
) -> bool:
    """Return whether at most half of the chunks changed since the base; named: the row of each chunk in the base."""
    every = list(chunks)
    same = sum(
        any(row.row_id == named.get(each.chunk.chunk_id) and fits(row, each) for row in stored[each.chunk.chunk_id])
        for each in every
        if each.chunk.chunk_id in stored
    )
    return len(every) - same <= MOST_CHANGED * len(every)


def compare(
    piece: Piece,
    stored: Mapping[ChunkId, Sequence[StoredRow]],
    named: Mapping[ChunkId, RowId],
    *,
    fits: Fits,
    keeps: bool = True,
) -> Slice:
    """Divide the chunks of a piece into those that reuse a row, copy a vector, or must be embedded.

    stored: all rows of each chunk; named: the row that the base refers to. Only those are reused: others may be deleted
    at any time. keeps: whether rows of the base may be reused; if not, all rows are rewritten. A vector is copied
    from the row that the base names, as long as it keeps rows; from any other row only if that has the same context,
    letter for letter: rules that are not the same may give equal keys to other contexts.
    """
    found = Slice([piece])
    for chunk in piece.chunks:
        chunk_id, kind = chunk.chunk.chunk_id, chunk.chunk.kind
        fitting = [row for row in stored.get(chunk_id, ()) if fits(row, chunk)]
        kept = named.get(chunk_id)
        if keeps and any(
            row.row_id == kept and (row.metadata_hash, row.kind) == (piece.metadata_hash, kind) for row in fitting
        ):
            found.reused[chunk_id] = named[chunk_id]
        elif fitting:
            found.to_copy[chunk_id] = (piece, chunk)
            source = next((row.row_id for row in fitting if row.row_id == kept), fitting[0].row_id)
            found.sources[chunk_id] = source
            if not (keeps and source == kept):
                found.exact.add(chunk_id)
        else:
            found.to_embed[chunk_id] = (piece, chunk)
    return found
