"""What somebody thinks of a document as an answer to a question."""

from enum import StrEnum

from freki.schemas.names import ChunkId, DocumentId, QueryId, TenantId, Timestamp, record


class Verdict(StrEnum):
    """How a document did."""

    UP = "UP"
    """A person says that it answers the question."""
    DOWN = "DOWN"
    """A person says that it does not."""
    USED = "USED"
    """It was opened, quoted or cited."""
    NOT_USED = "NOT_USED"
    """It was shown and passed over."""


@record
class Judgement:
    """One verdict. Key of the record: a JSON array of tenant, judge, query_id and document_id; the last one counts."""

    tenant: TenantId
    query_id: QueryId
    question: str
    """As it was asked: only questions that are alike learn from each other's verdicts."""
    judge: str
    """Who judged: a name, or better something that only the producer can trace to one. Bounds what one of them does."""
    document_id: DocumentId
    chunk_id: ChunkId | None
    """Null: the whole document is meant."""
    verdict: Verdict
    at: Timestamp
