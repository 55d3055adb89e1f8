"""The answer to a document query."""

from collections.abc import Mapping
from enum import StrEnum

from freki.schemas.names import ChunkId, DocumentId, QueryId, TenantId, Timestamp, record

NOT_ADMITTED = "the query is refused: "
"""Beginning of the message of a report that a token does not allow."""
WITHHELD = "the report is withheld, because the audit log cannot be written; ask again later"
"""Message of a report that may not leave before it is recorded."""
UNREADABLE = "the index cannot be read: a setting is wrong, which the worker's log names; ask again later"
"""Message in place of a report for which the index could not be read."""


class ReportStatus(StrEnum):
    """How the query ended."""

    FOUND = "FOUND"
    """The report has what was asked for, perhaps nothing."""
    NOT_FOUND = "NOT_FOUND"
    """The index has no such document, or the asker may not read it."""
    REJECTED = "REJECTED"
    """The query cannot be answered as it is; `message` says why."""
    EXPIRED = "EXPIRED"
    """The deadline passed: ask again, narrower or with more time."""


@record
class ListedDocument:
    """A document as it stands in the index."""

    document_id: DocumentId
    version: int
    edition: int
    """Grows when the version is made anew; where a request asked for that, the time of the request."""
    deleted: bool
    """Deleted: only the ids, version, readers and times are remembered."""
    name: str
    media_type: str
    language: str
    source_uri: str | None
    principals: tuple[str, ...]
    """Who may read it."""
    attributes: Mapping[str, str]
    characters: int
    """Length of the text in Unicode code points."""
    chunks: int
    content_hash: str
    """SHA-256 in hexadecimal."""
    chunker: str
    """Fingerprint of parser, chunker and contexts."""
    embedder: str
    fingerprint: str
    """Of all rules that it was made by."""
    made_by_these_settings: bool
    """Whether these rules are those of who answers; true where deleted."""
    occurred_at: Timestamp
    recorded_at: Timestamp
    received_at: Timestamp
    searchable_at: Timestamp


@record
class DocumentChunk:
    """A chunk of a document."""

    chunk_id: ChunkId
    path: str
    ordinal: int
    start: int
    end: int
    """Half-open span in Unicode code points."""
    first_page: int
    last_page: int
    """1-based; 0 where the document has no pages."""
    kind: str
    heading_path: tuple[str, ...]
    tokens: int
    context: str
    text: str


@record
class ChunkCounts:
    """What the chunks of a document are."""

    kinds: Mapping[str, int]
    """Number of chunks of each kind."""
    explained: int
    """Number of chunks whose context explains abbreviations."""
    written: int
    """Number of chunks whose context has text by a language model."""
    missing: int
    """Number of chunks without a row: `freki verify --repair` mends that."""


@record
class DocumentEvent:
    """Something that happened to a document."""

    at: Timestamp
    what: str
    """change, deletion, null value, request, dead letter, or the status of a receipt in small letters."""
    version: int
    """0 where unknown."""
    detail: str


@record
class DocumentReport:
    """The answer to one document query. Key of the record: `query_id`."""

    query_id: QueryId
    tenant: TenantId
    """Empty where the query could not be read."""
    status: ReportStatus
    message: str
    """Why there is no other answer; empty where the status says it all."""
    generation: str
    """The index that answered."""
    asked_at: Timestamp
    answered_at: Timestamp
    total: int
    """How many documents, chunks or events there are, also on other pages."""
    next: str | None
    """`cursor` of the next page; null: there is none."""
    documents: tuple[ListedDocument, ...] = ()
    """Of LIST; of SHOW the one."""
    chunks: tuple[DocumentChunk, ...] = ()
    """Of SHOW, in reading order. Compare the version of the document where several pages are read."""
    counts: ChunkCounts | None = None
    """Of SHOW, over all chunks."""
    events: tuple[DocumentEvent, ...] = ()
    """Of HISTORY, in the order of their times."""
