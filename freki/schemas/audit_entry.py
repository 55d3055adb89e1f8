"""What was asked, given, refused and changed, and by whom: one entry of the audit log."""

from enum import StrEnum

from freki.schemas.names import DocumentId, TenantId, Timestamp, record


class AuditKind(StrEnum):
    """What happened."""

    OPENED = "OPENED"
    """A writer began; `continues` names the chains that it found without an end, or the one of its process before."""
    CLOSED = "CLOSED"
    """The chain ends here; signed."""
    ANCHOR = "ANCHOR"
    """The chain was like this up to here; signed."""
    ASKED = "ASKED"
    """A query was answered with these documents."""
    REPORTED = "REPORTED"
    """A document query was answered with these."""
    REFUSED = "REFUSED"
    """A query of either kind was refused, for `reason`."""
    PUBLISHED = "PUBLISHED"
    """A version of a document is to become searchable; `principals` are its readers."""
    DELETED = "DELETED"
    RIGHTS = "RIGHTS"
    """The readers of a document change, to `principals`."""
    GROUPS = "GROUPS"
    """The groups of `subject` are `principals` now; `asker` changed them."""
    SETTINGS = "SETTINGS"
    """A writer began with other settings than the one before, `reason` names them."""
    ERASED = "ERASED"
    """Content of documents is to be removed; `subject` is the id of the request."""
    HELD = "HELD"
    """The hold `subject` was placed, or `reason` says that it ended."""
    OBJECTED = "OBJECTED"
    """The objection `subject` was recorded, or `reason` says that it was lifted."""
    RETAINED = "RETAINED"
    """Documents are to be deleted because the rule `subject` says so."""
    ACCESSED = "ACCESSED"
    """What is held of documents was read out in full."""
    RECTIFIED = "RECTIFIED"
    """Content of older versions than these is to be removed."""
    EXPORTED = "EXPORTED"


SIGNED = frozenset({AuditKind.ANCHOR, AuditKind.CLOSED})
"""Kinds of entries with a signature."""


@record
class AuditedDocument:
    """A version of a document."""

    document_id: DocumentId
    version: int


@record
class ChainEnd:
    """The last known entry of a chain."""

    writer: str
    sequence: int
    hash: str


@record
class AuditEntry:
    """One entry of the chain of one writer. Key of the record: `writer`."""

    writer: str
    """One process in one day of its run: the time when that began, and random digits."""
    sequence: int
    """0-based place in the chain."""
    at: Timestamp
    """By the clock of the writer."""
    kind: AuditKind
    tenant: TenantId
    """Empty where it is of none, or where nobody verified it."""
    asker: str
    """The user of a token; `os:` and a name: a user of the system who ran a command; empty where unknown."""
    principals: tuple[str, ...]
    """In whose name was asked; of documents, their readers."""
    principals_before: tuple[str, ...]
    """Readers or groups before, of RIGHTS and GROUPS."""
    subject: str
    """Id of a query; of changes of documents, the generation of the index; of groups, whose they are."""
    documents: tuple[AuditedDocument, ...]
    text: str
    """Of a query, where the settings allow it, else empty."""
    text_hash: str
    """HMAC-SHA-256 of it, in hexadecimal; empty without text."""
    reason: str
    """Why it was refused; else a remark."""
    continues: tuple[ChainEnd, ...]
    """Of OPENED."""
    previous: str
    """Hash of the entry before; of the first one, 64 zeros."""
    hash: str
    """SHA-256 of the canonical form of all fields above, in hexadecimal."""
    signature: str
    """Ed25519 over `hash` as ASCII, in hexadecimal; of ANCHOR and CLOSED, else empty."""
