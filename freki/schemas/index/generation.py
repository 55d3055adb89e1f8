"""Parameters of an index, and its size."""

from freki.schemas.names import ChunkKind, record


@record
class Apart:
    """An additional embedder, for some kinds of chunks, which have a shard of their own."""

    kinds: tuple[ChunkKind, ...]
    embedder: str
    dim: int


@record
class Generation:
    """Parameters of an index; a change of any of them requires another index."""

    name: str
    embedder: str
    """Fingerprint of the default embedder, for all kinds without one of their own."""
    dim: int
    analyser: str
    apart: tuple[Apart, ...] = ()
    """Additional embedders; a full vector has one block per embedder, that of `embedder` first, then these in order."""

    @property
    def width(self) -> int:
        """Dimension of a full vector."""
        return self.dim + sum(each.dim for each in self.apart)


@record
class Statistics:
    """Size of an index."""

    documents: int
    """Live documents."""
    deleted: int
    """Deleted documents whose roots still exist."""
    chunks: int
    """Chunk rows of live revisions, and rows that are not yet deleted."""
