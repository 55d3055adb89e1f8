"""Commits with the ids of their topics.

Committed offsets know topics by name alone: one that arrives late, of a record of the deleted topic, would count for
the new topic, whose records before it nobody would read. So each commit carries the id of its topic as metadata, and
that of its cluster: tools that copy groups to another one translate offsets, and keep metadata as they are.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any, cast

import structlog
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from freki.client.topic_ids import IN_CLUSTER, after_metadata_updates, differ, ids_of

_log = structlog.get_logger(__name__)
_LOOK_S = 5.0
"""Seconds between looks at the ids with commits; the answer names each partition."""


class TopicIds:
    """Ids of the topics that a consumer reads, since its last assignment."""

    def __init__(self, consumer: Any) -> None:  # noqa: ANN401 - aiokafka is untyped
        self._client = consumer._client  # noqa: SLF001
        self._coordinator = consumer._coordinator  # noqa: SLF001
        self._noted: dict[TopicPartition, str] = {}
        """Id of the topic of each partition at its position; empty while nobody told it."""
        self._changed: list[str] = []
        self._looked_s = 0.0

    async def note(self, places: Collection[TopicPartition]) -> None:
        """Note the ids of the topics of the partitions that are read from now on."""
        told = await self._ask(places)
        self._noted = {place: told.get(place.topic, "") for place in places}
        self._changed = []

    def adopt(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note the ids that committed offsets name, where the broker told none: the next look compares them."""
        for place, each in committed.items():
            if not self._noted.get(place) and IN_CLUSTER in (each.metadata or ""):
                self._noted[place] = each.metadata

    def valid(self, place: TopicPartition, committed: OffsetAndMetadata) -> int | None:
        """Return a committed offset; None, with a warning, where it is of another topic of that name."""
        # One without id is from a tool, such as kafka-consumer-groups.sh, or from a broker without ids.
        named, noted = committed.metadata or "", self._noted.get(place, "")
        if not differ(named, noted):
            return cast(int, committed.offset)
        _log.warning(
            "a committed offset is of a deleted topic of this name; the partition is read from its beginning",
            topic=place.topic,
            partition=place.partition,
            offset=committed.offset,
        )
        return None

    def watch(self) -> None:
        """Give commits the ids; let the consumer join its group again, which seeks offsets, once an id has changed."""
        commit = self._coordinator._do_commit_offsets  # noqa: SLF001

        async def commit_with_ids(assignment: Any, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:  # noqa: ANN401
            noted = self._noted
            if time.monotonic() - self._looked_s >= _LOOK_S or not all(noted.values()):
                await self._look()
            await commit(
                assignment,
                {
                    place: OffsetAndMetadata(each.offset, noted.get(place, ""))
                    for place, each in offsets.items()
                    if place.topic not in self._changed
                },
            )

        self._coordinator._do_commit_offsets = commit_with_ids  # noqa: SLF001
        after_metadata_updates(self._client, self._look)

    async def _look(self) -> None:
        noted, self._looked_s = self._noted, time.monotonic()
        told = await self._ask(noted)
        changed = sorted({place.topic for place, each in noted.items() if differ(told.get(place.topic, ""), each)})
        # Those that nobody had told, or that were committed in another cluster.
        noted |= {place: told[place.topic] for place in noted if place.topic in told and place.topic not in changed}
        if changed:
            _log.warning("topics were deleted and created again: they are read from their beginning", topics=changed)
            # Not every broker keeps what is committed with an offset.
            self._changed = changed
            self._coordinator.request_rejoin()

    async def _ask(self, places: Collection[TopicPartition]) -> Mapping[str, str]:
        node = self._coordinator.coordinator_id
        return {} if node is None else await ids_of(self._client, {place.topic for place in places}, node=node)
