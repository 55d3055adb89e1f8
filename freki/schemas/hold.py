"""Documents that must be kept, and documents that answers must leave out."""

from freki.schemas.coverage import Coverage
from freki.schemas.names import TenantId, Timestamp, record


@record
class Hold:
    """Erasure and retention wait for what is covered. Key of the record: a JSON array of tenant and name; null ends."""

    tenant: TenantId
    name: str
    """Of the case, for instance; the last record of a name counts."""
    covers: Coverage
    reason: str
    """For those who read the list of holds; no personal data."""
    placed_by: str
    placed_at: Timestamp


@record
class Objection:
    """Answers leave out what is covered. Key of the record: a JSON array of tenant and name; null lifts it."""

    tenant: TenantId
    name: str
    """Of the case, for instance; the last record of a name counts."""
    covers: Coverage
    reason: str
    """For those who read the list of objections; no personal data."""
    recorded_by: str
    recorded_at: Timestamp
