"""The workers that read the topics between stages, and may still write content of what they have not read."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from freki.infra.kafka.admin import Admin
from freki.infra.settings import Settings
from freki.schemas.findings import UnreadRecords
from freki.streams.wire.from_settings import group_of, ingest_sources, settings_named

_PAUSE_S = 0.2
_STANDS_STILL_S = 5.0
"""How long a group of a generation that is not in use may stand still: perhaps nobody runs its workers."""


class Consumers:
    """Waits until the stages of all stored generations have read records, and so have sent what they make of them."""

    def __init__(
        self,
        settings: Settings,
        generations: Callable[[], Awaitable[tuple[str, Collection[str]]]],
        *,
        patience_s: float,
    ) -> None:
        """Create one; generations: returns the name of the one that answers, and the names of those that are stored."""
        self._settings = settings
        self._generations = generations
        self._patience_s = patience_s

    async def behind(self, topic: str, lasts: Mapping[int, int]) -> list[UnreadRecords]:
        """Wait until all groups have read a topic up to these offsets, by partition; return who has not in time."""
        # Not that of the settings: after a switch its workers may have ended.
        in_use, stored = await self._generations()
        generations = sorted({in_use, *stored})
        async with Admin(self._settings.kafka) as admin:
            behind = [
                self._behind(admin, group_of(named, source.group), topic, lasts, is_in_use=name == in_use)
                for name in generations
                for named in [settings_named(self._settings, name)]
                for source in ingest_sources(named)
                if source.topic == topic
            ]
            return [unread for some in await asyncio.gather(*behind) for unread in some]

    async def _behind(
        self, admin: Admin, group: str, topic: str, lasts: Mapping[int, int], *, is_in_use: bool
    ) -> list[UnreadRecords]:
        started_s = moved_s = time.monotonic()
        before: Mapping[tuple[str, int], int] = {}
        while True:
            committed, now_s = await admin.committed(group), time.monotonic()
            left = [partition for partition, last in lasts.items() if committed.get((topic, partition), 0) <= last]
            if committed != before:
                before, moved_s = committed, now_s
            is_stuck = not is_in_use and now_s - moved_s > _STANDS_STILL_S
            if not left or is_stuck or now_s - started_s > self._patience_s:
                return [
                    UnreadRecords(topic=topic, partition=partition, group=group, is_in_use=is_in_use)
                    for partition in sorted(left)
                ]
            await asyncio.sleep(_PAUSE_S)
