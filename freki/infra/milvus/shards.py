"""One collection of chunk rows per embedder: vectors of different embedders cannot be compared."""

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
    """Kinds of chunks; empty for the first shard, which holds all other kinds."""
    first: int
    """Offset of its block in a full vector."""
    dim: int
    """Dimension of its vectors."""
    width: int
    """Dimension of a full vector, with the blocks of all embedders."""

    @property
    def block(self) -> slice:
        """Block of its numbers in a full vector."""
        return slice(self.first, self.first + self.dim)

    def widened(self, vector: Floats) -> Floats:
        """Return a full vector, shape (width,), that is 0 outside the given block, shape (dim,)."""
        if self.dim == self.width:
            return vector
        row = np.zeros(self.width, np.float32)
        row[self.block] = vector
        return row


def shards_of(generation: Generation) -> tuple[Shard, ...]:
    """Return the shards of a generation, that of the default embedder first."""
    shards = [Shard(CHUNKS, frozenset(), 0, generation.dim, generation.width)]
    for each in generation.kind_embedders:
        layout = CHUNKS._replace(name="_".join([CHUNKS.name, *(kind.lower() for kind in each.kinds)]))
        first = shards[-1].first + shards[-1].dim
        shards.append(Shard(layout, frozenset(each.kinds), first, each.dim, generation.width))
    return tuple(shards)


def shard_of(shards: Sequence[Shard], kind: ChunkKind) -> Shard:
    """Return the shard of a kind of chunks."""
    return next((shard for shard in shards if kind in shard.kinds), shards[0])
