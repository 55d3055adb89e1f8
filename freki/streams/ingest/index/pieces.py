"""Units of indexing: pieces of consecutive parts of a revision, and slices of pieces with a maximum of tokens."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

from freki.operators.breadcrumb import with_context
from freki.operators.identify import root_id
from freki.operators.metadata_hash import metadata_hash
from freki.schemas import ChunkId, ContextualChunk, ContextualChunkBatch, Revision, RootId
from freki.schemas.index import RowId
from freki.streams.ingest.late_chunking import Embeddable


class MissingPartsError(Exception):
    """The last part of a revision arrived, but earlier parts are not in the store."""


class ReceivedPart(NamedTuple):
    """One part of a revision, with the partition that it was read from."""

    batch: ContextualChunkBatch
    partition: int
    edition: int = 0
    """That a request to reindex the version asks for; 0 without a request."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive parts of one revision that arrived together."""

    root_id: RootId
    revision: Revision
    parts: tuple[ContextualChunkBatch, ...]
    partition: int
    metadata_hash: str
    edition: int = 0

    @property
    def complete(self) -> bool:
        """Whether the piece ends the revision."""
        last = self.parts[-1]
        return last.part == last.parts - 1

    @property
    def chunks(self) -> Iterator[ContextualChunk]:
        """All chunks, in reading order."""
        return (chunk for part in self.parts for chunk in part.chunks)

    def is_continued_by(self, batch: ContextualChunkBatch, edition: int) -> bool:
        """Return whether a part of an edition follows the last one of the piece."""
        same = (self.revision, self.edition) == (batch.revision, edition)
        return same and self.parts[-1].part + 1 == batch.part

    @property
    def cut(self) -> str:
        """Fingerprint of the split into parts: only parts of the same split form a revision."""
        inputs = (self.revision.chunker, self.revision.content_hash, self.metadata_hash, str(self.parts[-1].parts))
        return blake2b("\n".join(inputs).encode(), digest_size=8).hexdigest()

    def embeddable(self, contextual: ContextualChunk) -> Embeddable:
        """Return the input of the vector of one of the piece's chunks."""
        chunk, text = contextual.chunk, with_context(contextual.context, contextual.chunk.text)
        if chunk.window < 0:
            return Embeddable(text, contextual.context)
        part = next(part for part in self.parts if part.chunks and chunk.ordinal <= part.chunks[-1].chunk.ordinal)
        return Embeddable(
            text, "", part.windows[chunk.window], chunk.window_start, chunk.window_start + chunk.end - chunk.start
        )


FIRST_SLICE_DIVISOR = 8
"""The first slice of a batch has an eighth of the tokens of the largest."""

Chunks = dict[ChunkId, tuple[Piece, ContextualChunk]]


@dataclass(frozen=True, slots=True)
class Slice:
    """Pieces that are embedded and committed together."""

    pieces: list[Piece] = field(default_factory=list)
    to_embed: Chunks = field(default_factory=dict)
    """Chunks without a vector."""
    to_copy: Chunks = field(default_factory=dict)
    """Chunks that get a new row with the vector of another row."""
    sources: dict[ChunkId, RowId] = field(default_factory=dict)
    """Rows whose vectors are copied."""
    exact: set[ChunkId] = field(default_factory=set)
    """Chunks that are embedded unless the context of the row in `sources` equals theirs."""
    reused: dict[ChunkId, RowId] = field(default_factory=dict)
    """Rows of the previous revision that this one keeps."""

    @property
    def tokens(self) -> int:
        """Number of tokens to embed."""
        return sum(chunk.chunk.tokens for _, chunk in self.to_embed.values())

    def take(self, other: "Slice") -> None:
        """Add the content of another slice, which may continue the last piece."""
        self.pieces[:] = joined([*self.pieces, *other.pieces])
        self.to_embed.update(other.to_embed)
        self.to_copy.update(other.to_copy)
        self.sources.update(other.sources)
        self.exact.update(other.exact)
        self.reused.update(other.reused)


def pieces_of(parts: Sequence[ReceivedPart], *, analyser: str) -> Iterator[Piece]:
    """Join consecutive parts of one revision."""
    open_pieces: dict[RootId, Piece] = {}
    for batch, partition, edition in parts:
        key = root_id(batch.revision.tenant, batch.revision.document_id)
        piece = open_pieces.get(key)
        if piece is not None and piece.is_continued_by(batch, edition):
            open_pieces[key] = replace(piece, parts=(*piece.parts, batch))
            continue
        if piece is not None:
            yield piece
        open_pieces[key] = Piece(
            key, batch.revision, (batch,), partition, metadata_hash(batch.revision, analyser=analyser), edition
        )
    yield from open_pieces.values()


def waves(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Group pieces into waves: wave n holds the n-th piece of each document."""
    queues: defaultdict[RootId, list[Piece]] = defaultdict(list)
    for piece in pieces:
        queues[piece.root_id].append(piece)
    longest = max((len(queue) for queue in queues.values()), default=0)
    return [[queue[turn] for queue in queues.values() if turn < len(queue)] for turn in range(longest)]


def in_parts(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Split each piece into its parts."""
    return [[replace(piece, parts=(part,)) for part in piece.parts] for piece in pieces]


def packed(parts: Iterable[Slice], max_tokens: int) -> list[Slice]:
    """Join parts in order into slices; a part that is larger than a slice is one by itself.

    The first slice has at most an eighth of `max_tokens`, and each next one twice as many, up to `max_tokens`: what
    comes first is committed soon, and what comes last with few commits.
    """
    slices: list[Slice] = []
    limit = max_tokens // FIRST_SLICE_DIVISOR
    for part in parts:
        if not slices:
            slices.append(Slice())
        elif slices[-1].tokens + part.tokens > limit:
            slices.append(Slice())
            limit = min(max_tokens, 2 * limit)
        slices[-1].take(part)
    return slices


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Join neighbouring pieces of the same revision."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1].root_id == piece.root_id:
            found[-1] = replace(found[-1], parts=(*found[-1].parts, *piece.parts))
        else:
            found.append(piece)
    return found


def by_root(pieces: Iterable[Piece]) -> Mapping[RootId, Piece]:
    """Return pieces of different documents by root id."""
    return {piece.root_id: piece for piece in pieces}
