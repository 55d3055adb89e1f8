"""What a producer says: this document has this content now, or is gone."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from freki.schemas.names import DocumentId, TenantId, Timestamp, record


class Operation(StrEnum):
    """What happened to the document."""

    UPSERT = "UPSERT"
    DELETE = "DELETE"


@record
class ClaimCheck:
    """Where content lies that is too large for a record."""

    uri: str
    """Scheme and place must be on the worker's allow-list (`FREKI_CLAIMS__ALLOWED`)."""
    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal digest of those bytes; content that differs is refused."""


@record
class DocumentChange:
    """One change of one document. Key of the record: `tenant/document_id`."""

    tenant: TenantId
    document_id: DocumentId
    """Stable for the life of the document; unique within its tenant."""
    operation: Operation
    version: int
    """Above 0; grows with every change of the document; an event that is not above what is indexed is stale."""
    occurred_at: Timestamp
    """When the source changed; 0 where unknown."""
    name: str | None = None
    """What people call the document, as shown in citations; null: the last part of `document_id`."""
    media_type: str | None = None
    """Such as `text/markdown`; null: recognised from the name and the content."""
    language: str | None = None
    """ISO 639-1; null: detected."""
    source_uri: str | None = None
    """Where a reader finds the original."""
    principals: tuple[str, ...] = ()
    """Who may read it: user or group names; `everyone` opens it to the tenant; empty: nobody."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Free metadata that queries can filter on."""
    priority: int = 0
    """Above 0: urgent, overtakes the documents that wait; higher is indexed first among those that are urgent."""
    content: str | bytes | None = None
    """Text, or the bytes of a file; null for DELETE and where `claim` is given."""
    claim: ClaimCheck | None = None
    """Where the content lies instead."""
