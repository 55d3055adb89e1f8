"""Limits of tenants, and what counts towards them."""

from enum import StrEnum

from freki.schemas.names import DocumentId, TenantId, Timestamp, record

LIMIT = "limit"
"""Stage of the notice of a query that a limit refuses."""


class LimitKind(StrEnum):
    """What is limited; the names of the settings."""

    DOCUMENTS = "documents"
    CHARACTERS = "characters"
    PUBLISHED = "published_bytes_per_day"
    TOKENS = "embedded_tokens_per_day"
    QUERIES = "queries_per_minute"


@record
class TenantLimits:
    """The most that a tenant may use; None: any."""

    documents: int | None = None
    characters: int | None = None
    """Of the text of its documents, in code points."""
    published_bytes_per_day: int | None = None
    """Content of changes, by the day that the broker stored them, UTC."""
    embedded_tokens_per_day: int | None = None
    """By the day of the receipt, UTC."""
    queries_per_minute: int | None = None
    """By the minute that the broker stored them."""

    @property
    def of_stock(self) -> bool:
        """Whether what the store has of the tenant is limited."""
        return self.documents is not None or self.characters is not None

    @property
    def of_changes(self) -> bool:
        """Whether anything that changes count towards is limited."""
        return self.of_stock or self.published_bytes_per_day is not None or self.embedded_tokens_per_day is not None


@record
class Admission:
    """A change that was let through, on the topic `usage`."""

    writer: str
    """Process that let it through."""
    tenant: TenantId
    document_id: DocumentId
    version: int
    at: Timestamp
    """When the broker stored the change."""
    size: int | None
    """Characters of the document after it; None: it is gone then."""
    before: int | None
    """The same before it."""
    published_bytes: int
    tokens: int
    """Tokens of its chunks: the most that it may embed."""


@record
class QueryCount:
    """Queries of a tenant that a process let through in a minute, on the topic `usage`."""

    writer: str
    tenant: TenantId
    minute: int
    """Minutes since 1970."""
    queries: int
    """How many more than it told before."""


@record
class TenantUse:
    """What a tenant uses."""

    documents: int = 0
    characters: int = 0
    published_bytes: int = 0
    """On the day of the change."""
    tokens: int = 0
    """Embedded on the day, and the most that changes under way may embed."""
