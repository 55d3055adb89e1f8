"""What became of one document change: the producer's receipt."""

from enum import StrEnum

from freki.schemas.llm import LlmUse
from freki.schemas.names import DocumentId, TenantId, Timestamp, record


class OutcomeStatus(StrEnum):
    """How the change ended."""

    INDEXED = "INDEXED"
    """Its chunks answer queries from `searchable_at` on."""
    UNCHANGED = "UNCHANGED"
    """The index held this content already."""
    DELETED = "DELETED"
    """No answer can quote the document from `searchable_at` on."""
    STALE = "STALE"
    """A newer version was indexed or deleted before; nothing changed."""
    REJECTED = "REJECTED"
    """It can never be indexed as it is; `reason` says why, and it lies in the dead letters."""


@record
class IndexOutcome:
    """Sent at least once for each change; the same change may be reported again after a crash."""

    tenant: TenantId
    document_id: DocumentId
    version: int
    """Of the change; 0 for a bare tombstone."""
    status: OutcomeStatus
    reason: str
    """Empty where the status says it all."""
    generation: str
    """The index that it was written to."""
    chunks: int
    """Chunks of the revision, now searchable."""
    embedded: int
    """Of those, how many went through the embedder for this change."""
    removed: int
    """Chunks of earlier revisions that were deleted from the store."""
    tokens: int
    """Tokens that went through the embedder for this change."""
    occurred_at: Timestamp
    recorded_at: Timestamp
    """When the broker stored the change: from here on its age is ours to answer for."""
    received_at: Timestamp
    embedded_at: Timestamp | None
    """When the last vector was there; null where nothing was embedded."""
    searchable_at: Timestamp | None
    """When the change became visible to readers; null for STALE and REJECTED."""
    llm: LlmUse | None = None
    """What a language model did for its chunks; null where it had nothing to do."""
    scan: str = ""
    """Scanner and verdict, such as `clamd: clean`; empty where nothing scanned it, or `reason` says what was found."""
