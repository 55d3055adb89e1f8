"""Which groups a user belongs to, besides those in tokens."""

from freki.schemas.names import TenantId, record


@record
class GroupMembership:
    """All groups of one user or group. Key of the record: a JSON array of tenant and principal; the last one counts."""

    tenant: TenantId
    principal: str
    """As tokens name it."""
    groups: tuple[str, ...]
    """Its groups are not looked up in turn."""
