"""Objections from their topic: what searches leave out, by tenant."""

from collections.abc import Callable, Mapping

import structlog

from freki.operators.identify import root_id
from freki.schemas import Objection, TenantId
from freki.schemas.index import Exclusions
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.deliver.read_offsets import ReadOffsets
from freki.streams.messages import Stored, place_of
from freki.streams.privacy.current_cases import case_of, objection_to_whole_tenant

NOTHING = Exclusions()

_log = structlog.get_logger(__name__)


class Objections:
    """The objections of all tenants. A record that is read again has no effect, so that no lifted one comes back."""

    def __init__(self) -> None:
        self._standing: dict[TenantId, dict[str, Objection]] = {}
        self._read = ReadOffsets()
        self._order = KeyOrder()
        self._left_out: dict[TenantId, Exclusions] = {}
        self.listeners: list[Callable[[TenantId], None]] = []
        """Called with the tenant of each change: what was remembered of its answers does not hold any more."""

    def left_out(self, tenant: TenantId) -> Exclusions:
        """Return what searches of a tenant leave out."""
        if tenant not in self._standing:
            return NOTHING
        if tenant not in self._left_out:
            self._left_out[tenant] = _left_out(self._standing[tenant])
        return self._left_out[tenant]

    def opened(self, ends: Mapping[int, int]) -> None:
        """Forget all if the topic is another one than before; ends: end offset of each of its partitions."""
        if self._read.reset_if_replaced(ends):
            forgotten = list(self._standing)
            self._standing.clear()
            self._left_out.clear()
            self._order.clear()
            for tenant in forgotten:
                self._tell(tenant)

    def take(self, stored: Stored, decode: Callable[[bytes], Objection]) -> None:
        """Take a record. One that cannot be decoded leaves out all of its tenant: nobody knows what it is about."""
        if not self._read.is_new(stored) or self._order.is_outdated(stored):
            return
        try:
            whose, name = case_of(stored.key or b"")
        except ValueError as error:
            _warn(stored, error)
            return
        tenant = TenantId(whose)
        self._left_out.pop(tenant, None)
        standing = self._standing.setdefault(tenant, {})
        standing.pop(name, None)
        if stored.value is not None:
            standing[name] = self._decoded(stored, tenant, name, decode)
        elif not standing:
            del self._standing[tenant]
        self._tell(tenant)

    def _tell(self, tenant: TenantId) -> None:
        for listener in self.listeners:
            listener(tenant)

    def _decoded(self, stored: Stored, tenant: TenantId, name: str, decode: Callable[[bytes], Objection]) -> Objection:
        try:
            objection = decode(stored.value or b"")
        except ValueError as error:
            _warn(stored, error)
            return objection_to_whole_tenant(tenant, name)
        if (objection.tenant, objection.name) != (tenant, name):
            _warn(stored, ValueError("the key does not name tenant and name of the value"))
            return objection_to_whole_tenant(tenant, name)
        return objection


def _left_out(standing: Mapping[str, Objection]) -> Exclusions:
    covers = [each.covers for each in standing.values()]
    roots = {root_id(each.tenant, name) for each in standing.values() for name in each.covers.documents}
    # No document has an attribute without a name, and the store refuses to compare one: for all that search with it.
    named = [each.attributes for each in covers if each.attributes and "" not in each.attributes]
    attributes = {tuple(sorted(each.items())) for each in named}
    return Exclusions(
        everything=any(each.whole_tenant for each in covers),
        roots=tuple(sorted(roots)),
        attributes=tuple(sorted(attributes)),
    )


def _warn(stored: Stored, error: ValueError) -> None:
    _log.warning("a record of objections cannot be read", **place_of(stored), error=str(error))
