"""The parameters that an index was made with, and its size."""

from freki.schemas.names import ChunkKind, record


@record
class Apart:
    """An embedder that only some kinds of chunks have, which stand apart for it."""

    kinds: tuple[ChunkKind, ...]
    embedder: str
    dim: int


@record
class Generation:
    """What an index was made with; another value of any of these needs another index."""

    name: str
    embedder: str
    """Of all kinds that have none of their own."""
    dim: int
    analyser: str
    apart: tuple[Apart, ...] = ()
    """A row of vectors has a block of numbers for each embedder, this one's after that of `embedder`, in this order."""

    @property
    def width(self) -> int:
        """Length of a row of vectors."""
        return self.dim + sum(each.dim for each in self.apart)


@record
class Statistics:
    """How much an index holds."""

    documents: int
    """Live ones."""
    deleted: int
    """Deletions that are still remembered."""
    chunks: int
    """Chunk rows, of live revisions or not yet swept."""
