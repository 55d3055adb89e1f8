"""One collection of chunk rows an embedder: vectors of different ones have no distance, and often other lengths."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freki.infra.milvus.layout import CHUNKS, Layout
from freki.schemas import ChunkKind
from freki.schemas.arrays import Floats
from freki.schemas.index import Generation


class Shard(NamedTuple):
    """The chunk rows of one embedder."""

    layout: Layout
    kinds: frozenset[ChunkKind]
    """Empty for the first: it has all that no other has."""
    first: int
    """Where its vectors begin in a row of vectors."""
    dim: int
    """Length of its vectors."""
    width: int
    """Length of a row of vectors."""

    @property
    def block(self) -> slice:
        """The part of a row that its vectors take."""
        return slice(self.first, self.first + self.dim)

    def widened(self, vector: Floats) -> Floats:
        """Put a vector of its own, shape (dim,), in its place in a row, shape (width,), that is 0 elsewhere."""
        if self.dim == self.width:
            return vector
        row = np.zeros(self.width, np.float32)
        row[self.block] = vector
        return row


def shards_of(generation: Generation) -> tuple[Shard, ...]:
    """Give the shards of a generation, that of the embedder for all other kinds first."""
    shards = [Shard(CHUNKS, frozenset(), 0, generation.dim, generation.width)]
    for each in generation.apart:
        layout = CHUNKS._replace(name="_".join([CHUNKS.name, *(kind.lower() for kind in each.kinds)]))
        first = shards[-1].first + shards[-1].dim
        shards.append(Shard(layout, frozenset(each.kinds), first, each.dim, generation.width))
    return tuple(shards)


def shard_of(shards: Sequence[Shard], kind: ChunkKind) -> Shard:
    """Tell where chunks of a kind stand."""
    return next((shard for shard in shards if kind in shard.kinds), shards[0])
