"""What a service asks about the documents of the index."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from freki.schemas.names import DocumentId, QueryId, TenantId, Timestamp, record


class DocumentQueryKind(StrEnum):
    """What is asked for."""

    LIST = "LIST"
    """Documents that meet the conditions, in the order of their ids."""
    SHOW = "SHOW"
    """One document with its chunks."""
    HISTORY = "HISTORY"
    """What happened to one document: its changes, receipts and dead letters that are still on the topics."""


@record
class DocumentQuery:
    """A document query. Key of the record: `query_id`."""

    query_id: QueryId
    """Correlates query and report; unique per query, a UUID for example."""
    tenant: TenantId
    kind: DocumentQueryKind
    asked_at: Timestamp
    principals: tuple[str, ...] = ()
    """Who asks: user and group names. A document needs one of them, or `everyone`, among its readers; all others are as
    if they did not exist."""
    deadline_ms: int | None = None
    """Time from `asked_at` until the report must leave, 1 to 120,000; null: 30,000."""
    reply_to: str | None = None
    """Topic for the report; must be on the allow-list; null: the topic of reports."""
    document_id: DocumentId | None = None
    """Required for SHOW and HISTORY; null for LIST."""
    limit: int | None = None
    """Maximum number of documents, chunks or events of the report, 1 to 100; null: 50."""
    cursor: str | None = None
    """`next` of the report before, with all else the same; null: from the beginning."""
    prefix: str = ""
    """Beginning of the document id; this and all that follow are conditions of LIST, and a document meets all."""
    source: str = ""
    """Beginning of the source URI."""
    language: str = ""
    """ISO 639-1; empty: any."""
    readers: tuple[str, ...] = ()
    """Names of which the document has one among its readers; `everyone` only where the document names it."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes and their values."""
    deleted: bool = False
    """List deleted documents, which are remembered for a while, instead of live ones."""
    made_otherwise: bool = False
    """List only documents made with other chunks, contexts or models than the settings of the worker that answers."""
