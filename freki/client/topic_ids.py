"""Ids of topics, by which one that was deleted and recreated is told from the one before.

It imports aiokafka: import it once that is needed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any
from uuid import UUID

from aiokafka.errors import KafkaError
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

IN_CLUSTER = " in cluster "
_ANSWER_S = 5.0
_NONE = UUID(int=0)
_UNTOLD = (KafkaError, OSError, NotImplementedError)
"""Raised where the broker is out of reach, or older than topic ids (Kafka 2.8)."""
_log = logging.getLogger(__name__)


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


async def ids_of(client: Any, topics: Collection[str], *, node: Any = None) -> Mapping[str, str]:  # noqa: ANN401 - aiokafka is untyped
    """Return the ids of topics that exist; empty where the broker does not tell, or cannot be reached now.

    client: that of a consumer of aiokafka; node: the broker that is asked, by default any.
    """
    if node is None:
        node = client.get_random_node()
    if not topics or node is None:
        return {}
    try:
        async with asyncio.timeout(_ANSWER_S):
            told = await client.send(node, _MetadataRequest(topics))
    except _UNTOLD:
        return {}
    return {
        topic[1]: f"{topic[2]}{IN_CLUSTER}{told.cluster_id}"
        for topic in told.topics
        if not topic[0] and topic[2] != _NONE
    }


def differ(one: str, other: str) -> bool:
    """Return whether both are ids of topics, and of two in the same cluster."""
    (topic, *cluster), (other_topic, *other_cluster) = one.partition(IN_CLUSTER), other.partition(IN_CLUSTER)
    return topic != other_topic and cluster == other_cluster and bool(cluster[0])


def after_metadata_updates(client: Any, look: Callable[[], Awaitable[None]]) -> None:  # noqa: ANN401 - aiokafka is untyped
    """Let a client of aiokafka look at something after each update of metadata.

    It also updates them where a fetch meets a topic that is gone.
    """
    update = client._metadata_update  # noqa: SLF001

    async def updated(*args: Any) -> Any:  # noqa: ANN401
        is_done = await update(*args)
        await look()
        return is_done

    client._metadata_update = updated  # noqa: SLF001


class TopicWatch:
    """Lets a consumer without a group read a topic from its beginning once it was deleted and recreated.

    Otherwise its position would be one of the new topic, whose records before it nobody would read.
    """

    def __init__(self, consumer: Any, topic: str) -> None:  # noqa: ANN401 - aiokafka is untyped
        """Watch the topic of a started consumer that is assigned no other one."""
        self._consumer = consumer
        self._topic = topic
        self._id = ""
        """Empty while nobody told it."""
        self.changes = 0
        """Number of times that the topic was recreated."""

    async def begin(self) -> None:
        """Note the id of the topic, and compare it with each update of metadata. Call it before taking position."""
        # A topic that is recreated in between then has another id.
        await self._look()
        after_metadata_updates(self._consumer._client, self._look)  # noqa: SLF001

    async def _look(self) -> None:
        told = (await ids_of(self._consumer._client, [self._topic])).get(self._topic, "")  # noqa: SLF001
        if differ(told, self._id):
            _log.warning("topic %s was deleted and recreated: it is read from its beginning", self._topic)
            self.changes += 1
            for place in self._consumer.assignment():
                self._consumer.seek(place, 0)
        self._id = told or self._id
