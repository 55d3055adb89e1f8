"""The holds that count now, from their topic."""

import time
from collections.abc import Sequence

from freki.infra.settings import Settings
from freki.schemas import Hold, TenantId
from freki.streams.privacy.standing import standing_holds
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.topic_records import current_values

_FRESH_S = 1.0
"""How long holds that were read count, in seconds."""


class TopicHolds:
    """Satisfies HoldBook of `streams.ports`; a hold that cannot be decoded holds its whole tenant."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._read_s = -_FRESH_S
        self._holds: Sequence[Hold] = ()

    async def of(self, tenant: TenantId) -> Sequence[Hold]:
        """Return the holds of a tenant."""
        started_s = time.monotonic()
        if started_s - self._read_s >= _FRESH_S:
            values = current_values(self._settings, topics_of(self._settings).holds.name, Hold)
            self._holds, self._read_s = [hold async for hold in standing_holds(values)], started_s
        return [hold for hold in self._holds if hold.tenant == tenant]
