"""Requests to erase documents, and the signed reports on them."""

from enum import StrEnum

from freki.schemas.coverage import Coverage
from freki.schemas.names import DocumentId, TenantId, Timestamp, record

OF_RETENTION = "retention:"
"""Beginning of the ids of erasures by rules of retention, which no request has."""


@record
class ErasureRequest:
    """A request to erase all content of documents. Key of the record: `request_id`."""

    request_id: str
    """Unique per request of a tenant, a UUID for example; the same request may be sent again."""
    tenant: TenantId
    covers: Coverage
    """Exactly one of its ways: documents that are published after the request was taken are not part of it."""
    requested_at: Timestamp
    reason: str = ""
    """Such as the number of a case, for report and audit log; no personal data."""
    reply_to: str | None = None
    """Another topic for the report; must be on the allow-list of reply topics; the topic of reports has it anyway."""


class ErasureStatus(StrEnum):
    """How far a request is."""

    BEGUN = "BEGUN"
    """A worker took it; `documents` are those that it erases. Another status follows under the same key."""
    ERASED = "ERASED"
    """Nothing is left but what the signed report names."""
    HELD = "HELD"
    """The documents `held` wait until their holds end; all others are erased. Another status follows then."""
    INCOMPLETE = "INCOMPLETE"
    """Rows, claims or later versions were found after the erasure: send another request. `held` wait as for HELD."""
    REJECTED = "REJECTED"
    """It was not done, `message` says why."""


@record
class SignedReport:
    """A report on an erasure, as `freki erase verify` reads it."""

    report: str
    """JSON: what was found where, what was removed, and what remains until when; no content."""
    signature: str
    """Ed25519 over the canonical form of the report, in hexadecimal."""


@record
class PlannedErasure:
    """A document that a request erases."""

    document_id: DocumentId
    version: int
    """The highest that was known; later versions are not part of the request."""
    claims: tuple[str, ...] = ()
    """Addresses of content that its records named when the request was taken."""


@record
class ErasureReport:
    """How far a request is. Key of the record: a JSON array of tenant and request_id; the last one counts."""

    request_id: str
    tenant: TenantId
    """Empty where the request could not be read."""
    status: ErasureStatus
    message: str
    covers: Coverage
    """As the request says, but for the values of attributes, which may name somebody."""
    requested_by: str
    """The user of its token; empty where none was needed."""
    reason: str
    at: Timestamp
    documents: tuple[PlannedErasure, ...] = ()
    held: tuple[DocumentId, ...] = ()
    reports: tuple[SignedReport, ...] = ()
    """One for each time that something was erased: more than one where documents were held."""
    attributes_hash: str = ""
    """A keyed hash of the attributes and values of the request, behind a mark of the key; empty where it has none."""
