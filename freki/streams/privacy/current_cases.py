"""Current holds and objections on their topics: by tenant and name, the last record of each counts."""

from collections.abc import AsyncIterable, AsyncIterator

import structlog

from freki.schemas import Coverage, Hold, Objection, TenantId, Timestamp
from freki.schemas.names import key_of_texts, texts_of_key

_log = structlog.get_logger(__name__)


def case_key(tenant: str, name: str) -> bytes:
    """Return the key of the record of a hold or an objection."""
    return key_of_texts(tenant, name)


def case_of(key: bytes) -> tuple[str, str]:
    """Return tenant and name of a key. Raises ValueError for a key of another form."""
    tenant, name = texts_of_key(key, "tenant", "name")
    return tenant, name


def hold_on_whole_tenant(tenant: str, name: str) -> Hold:
    """Return what counts in place of a hold that cannot be read: all of its tenant is held."""
    return Hold(
        tenant=TenantId(tenant),
        name=name,
        covers=Coverage(whole_tenant=True),
        reason="its record cannot be read: set it again, or release it",
        placed_by="",
        placed_at=Timestamp(0),
    )


def objection_to_whole_tenant(tenant: str, name: str) -> Objection:
    """Return what counts in place of an objection that cannot be read: all of its tenant is left out."""
    return Objection(
        tenant=TenantId(tenant),
        name=name,
        covers=Coverage(whole_tenant=True),
        reason="its record cannot be read: set it again, or lift it",
        recorded_by="",
        recorded_at=Timestamp(0),
    )


async def current_holds(values: AsyncIterable[tuple[bytes, Hold | None]]) -> AsyncIterator[Hold]:
    """Yield the holds that stand; values: the last value by key, None: it cannot be decoded."""
    async for key, hold in values:
        case = _readable(key)
        if case is not None:
            yield hold if hold is not None and (hold.tenant, hold.name) == case else hold_on_whole_tenant(*case)


async def current_objections(values: AsyncIterable[tuple[bytes, Objection | None]]) -> AsyncIterator[Objection]:
    """Yield the objections that stand; values: the last value by key, None: it cannot be decoded."""
    async for key, objection in values:
        case = _readable(key)
        if case is not None:
            is_its = objection is not None and (objection.tenant, objection.name) == case
            yield objection if objection is not None and is_its else objection_to_whole_tenant(*case)


def _readable(key: bytes) -> tuple[str, str] | None:
    try:
        return case_of(key)
    except ValueError as error:
        _log.warning("a hold or an objection is left out: nothing says whose it is", error=str(error))
        return None
