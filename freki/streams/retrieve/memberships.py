"""Groups of users from a topic, besides those in their tokens."""

from collections.abc import Callable, Collection, Mapping

import structlog

from freki.schemas import GroupMembership
from freki.schemas.identity import Identity
from freki.schemas.names import key_of_texts, texts_of_key
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.deliver.read_offsets import ReadOffsets
from freki.streams.messages import Stored, place_of

_log = structlog.get_logger(__name__)


class Memberships:
    """The groups of all users. A record that is read again has no effect, so that no group comes back."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Collection[str]] = {}
        self._read = ReadOffsets()
        self._order = KeyOrder()

    def of(self, identity: Identity) -> Collection[str]:
        """Return the groups of who asks, and of the groups in the token."""
        return {
            group for principal in identity.principals for group in self._groups.get((identity.tenant, principal), ())
        }

    def opened(self, ends: Mapping[int, int]) -> None:
        """Forget all if the topic is another one than before; ends: end offset of each of its partitions."""
        if self._read.reset_if_replaced(ends):
            self._groups.clear()
            self._order.clear()

    def take(self, stored: Stored, decode: Callable[[bytes], GroupMembership]) -> None:
        """Take a record. One that cannot be decoded takes the groups away: they may be fewer now."""
        if not self._read.is_new(stored) or self._order.is_outdated(stored):
            return
        try:
            whose = membership_of(stored.key or b"")
        except ValueError as error:
            _warn(stored, error)
            return
        self._groups.pop(whose, None)
        if stored.value is None:
            return
        try:
            membership = decode(stored.value)
        except ValueError as error:
            _warn(stored, error)
            return
        if whose == (membership.tenant, membership.principal):
            self._groups[whose] = frozenset(membership.groups)
        else:
            _warn(stored, ValueError("the key does not name tenant and principal of the value"))


def membership_key(tenant: str, principal: str) -> bytes:
    """Return the key of the record of a principal's groups."""
    return key_of_texts(tenant, principal)


def membership_of(key: bytes) -> tuple[str, str]:
    """Return tenant and principal of a key. Raises ValueError for a key of another form."""
    tenant, principal = texts_of_key(key, "tenant", "principal")
    return tenant, principal


def _warn(stored: Stored, error: ValueError) -> None:
    _log.warning("a record of groups is left out", **place_of(stored), error=str(error))
