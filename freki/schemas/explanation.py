"""Why a chunk stands where it stands, and why one that was expected does not."""

from freki.schemas.names import ChunkId, DocumentId, record


@record
class Retrieved:
    """What one search said of a chunk."""

    search: str
    """`dense` or `bm25`."""
    variant: int
    """Which of the result's `variants` was searched; 0 is the query itself."""
    rank: int
    """1-based."""
    score: float


@record
class StepRank:
    """Where a chunk stood after a step."""

    step: str
    rank: int
    """1-based."""
    of: int
    """How many were left."""


@record
class ChunkStory:
    """A chunk's way through retrieval, as far as it came."""

    chunk_id: ChunkId
    document_id: DocumentId
    retrieved: tuple[Retrieved, ...]
    ranks: tuple[StepRank, ...]
    """In the order of the steps."""
    rerank_score: float | None


@record
class ExpectedDocument:
    """What became of a document that the asker expected."""

    document_id: DocumentId
    lost_at: str | None
    """The step that lost it; null: it is among the hits."""
    reason: str
    """In words."""
    best: ChunkStory | None
    """Of its chunks the one that came farthest; null where no search found one."""


@record
class Explanation:
    """How the hits came to be, in their order, and what became of documents that were expected."""

    hits: tuple[ChunkStory, ...]
    expected: tuple[ExpectedDocument, ...]
