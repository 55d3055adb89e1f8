"""The holds that count now, from their topic."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from freki.infra.elapsed import elapsed_s
from freki.infra.settings import Settings
from freki.schemas import Hold, TenantId
from freki.streams.privacy.current_cases import current_holds
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.topic_records import current_values

_FRESH_S = 1.0
"""How long holds that were read count, in seconds."""


class RecentHolds:
    """Satisfies HoldBook of `streams.ports`: reads all holds at most once a second.

    Callers wait for each other, so that none gets older holds than another got before.
    """

    def __init__(
        self, read: Callable[[], Awaitable[Sequence[Hold]]], *, clock: Callable[[], float] = elapsed_s
    ) -> None:
        """Create a book; read: returns the holds of all tenants; clock: seconds."""
        self._read = read
        self._clock = clock
        self._read_s: float | None = None
        self._holds: Sequence[Hold] = ()
        self._reading = asyncio.Lock()

    async def of(self, tenant: TenantId) -> Sequence[Hold]:
        """Return the holds of a tenant."""
        async with self._reading:
            started_s = self._clock()
            if self._read_s is None or started_s - self._read_s >= _FRESH_S:
                self._holds, self._read_s = await self._read(), started_s
        return [hold for hold in self._holds if hold.tenant == tenant]


def open_holds(settings: Settings) -> RecentHolds:
    """Return the holds on their topic; one that cannot be decoded holds its whole tenant."""
    return RecentHolds(partial(_read, settings))


async def _read(settings: Settings) -> Sequence[Hold]:
    values = current_values(settings, topics_of(settings).holds.name, Hold)
    return [hold async for hold in current_holds(values)]
