"""Holds and objections of a tenant, read from their topics."""

from dataclasses import dataclass

from freki.infra.settings import Settings
from freki.operators.held_by import held_by
from freki.schemas import Hold, Objection, TenantId
from freki.schemas.index import Root
from freki.streams.privacy.current_cases import current_holds, current_objections
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.topic_records import current_values


@dataclass(frozen=True, slots=True)
class Cases:
    """What stands for a tenant, by name."""

    holds: dict[str, Hold]
    objections: dict[str, Objection]

    def holding(self, root: Root) -> list[str]:
        """Return the names of the holds that cover a document as it is indexed."""
        return list(held_by(self.holds.values(), root.tenant, root.document_id, [root.attributes]))

    def objecting(self, root: Root) -> list[str]:
        """Return the names of the objections that cover a document as it is indexed."""
        return sorted(
            name for name, each in self.objections.items() if each.covers.has(root.document_id, root.attributes)
        )


async def read_cases(settings: Settings, tenant: TenantId) -> Cases:
    """Read the holds and objections of a tenant."""
    return Cases(holds=await read_holds(settings, tenant), objections=await read_objections(settings, tenant))


async def read_holds(settings: Settings, tenant: TenantId) -> dict[str, Hold]:
    """Read the holds of a tenant, by name."""
    holds = current_holds(current_values(settings, topics_of(settings).holds.name, Hold))
    return {each.name: each async for each in holds if each.tenant == tenant}


async def read_objections(settings: Settings, tenant: TenantId) -> dict[str, Objection]:
    """Read the objections of a tenant, by name."""
    objections = current_objections(current_values(settings, topics_of(settings).objections.name, Objection))
    return {each.name: each async for each in objections if each.tenant == tenant}
