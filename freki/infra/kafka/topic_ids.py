"""Ids of topics, by which one that was deleted and created anew is told from the one before.

Committed offsets know topics by name alone: one that arrives late, of a record of the deleted topic, would count for
the new topic, whose records before it nobody would read. So each commit carries the id of its topic as metadata, and
that of its cluster: tools that copy groups to another one translate offsets, and keep metadata as they are.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any, cast
from uuid import UUID

import structlog
from aiokafka.errors import KafkaError
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields
from aiokafka.structs import OffsetAndMetadata, TopicPartition

_log = structlog.get_logger(__name__)
_LOOK_S = 5.0
"""Seconds between looks at the ids with commits; the answer names each partition."""
_ANSWER_S = 5.0
_NONE = UUID(int=0)
_IN_CLUSTER = " in cluster "
_UNTOLD = (KafkaError, OSError, NotImplementedError)
"""Raised where the broker is out of reach, or older than topic ids (Kafka 2.8)."""


class _Uuid(AbstractType):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: Any) -> UUID:  # noqa: ANN401 - a BytesIO or its compiled twin
        return UUID(bytes=data.read(16))


_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)


class _MetadataResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                ("id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("operations", Int32),
                _TAGS,
            ),
        ),
        ("cluster_operations", Int32),
        _TAGS,
    )


class _MetadataRequestStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("id", _Uuid), ("name", _TEXT), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_operations", Boolean),
        ("include_topic_operations", Boolean),
        _TAGS,
    )


class _MetadataRequest(Request[_MetadataRequestStruct]):  # type: ignore[misc]
    """Metadata in the first version with ids of topics; aiokafka's own ends with version 5."""

    API_KEY = 3

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_MetadataRequestStruct]) -> _MetadataRequestStruct:
        topics = [(_NONE, topic, dict[int, bytes]()) for topic in self._topics]
        return request_struct_class(topics, False, False, False, {})  # noqa: FBT003 - in the order of the schema


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
            if not self._noted.get(place) and _IN_CLUSTER in (each.metadata or ""):
                self._noted[place] = each.metadata

    def valid(self, place: TopicPartition, committed: OffsetAndMetadata) -> int | None:
        """Return a committed offset; None, with a warning, where it is of another topic of that name."""
        # One without id is from a tool, such as kafka-consumer-groups.sh, or from a broker without ids.
        named, noted = committed.metadata or "", self._noted.get(place, "")
        if not _differ(named, noted):
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
        commit, update = self._coordinator._do_commit_offsets, self._client._metadata_update  # noqa: SLF001

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

        async def updated(*args: Any) -> Any:  # noqa: ANN401
            # Asked for also where a fetch meets a topic that is gone.
            is_done = await update(*args)
            await self._look()
            return is_done

        self._coordinator._do_commit_offsets, self._client._metadata_update = commit_with_ids, updated  # noqa: SLF001

    async def _look(self) -> None:
        noted, self._looked_s = self._noted, time.monotonic()
        told = await self._ask(noted)
        changed = sorted({place.topic for place, each in noted.items() if _differ(told.get(place.topic, ""), each)})
        # Those that nobody had told, or that were committed in another cluster.
        noted |= {place: told[place.topic] for place in noted if place.topic in told and place.topic not in changed}
        if changed:
            _log.warning("topics were deleted and created anew: they are read from their beginning", topics=changed)
            # Not every broker keeps what is committed with an offset.
            self._changed = changed
            self._coordinator.request_rejoin()

    async def _ask(self, places: Collection[TopicPartition]) -> dict[str, str]:
        """Return the ids of topics that exist; empty where the broker does not tell, or cannot be reached now."""
        topics, node = {place.topic for place in places}, self._coordinator.coordinator_id
        if not topics or node is None:
            return {}
        try:
            async with asyncio.timeout(_ANSWER_S):
                told = await self._client.send(node, _MetadataRequest(topics))
        except _UNTOLD:
            return {}
        return {
            topic[1]: f"{topic[2]}{_IN_CLUSTER}{told.cluster_id}"
            for topic in told.topics
            if not topic[0] and topic[2] != _NONE
        }


def _differ(one: str, other: str) -> bool:
    """Return whether both are ids of topics, and of two in the same cluster."""
    (topic, *cluster), (other_topic, *other_cluster) = one.partition(_IN_CLUSTER), other.partition(_IN_CLUSTER)
    return topic != other_topic and cluster == other_cluster and bool(cluster[0])
