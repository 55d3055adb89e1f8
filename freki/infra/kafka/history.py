"""Records of a topic that a worker has not read itself: those before the ones it is given."""

import asyncio
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.partitioner import murmur2

from freki.client.kafka import Record, stop_consumer, to_record
from freki.client.topic_ids import TopicWatch
from freki.infra.kafka.connection import translated
from freki.infra.kafka.reader import open_client
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import Unavailable
from freki.schemas.names import Timestamp

_POLL_MS = 200
_SIGN = 0x7FFFFFFF


class History:
    """Reads spans of partitions of one topic, one at a time; no member of a group."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._client: AIOKafkaConsumer | None = None
        self._watch: TopicWatch | None = None
        self._turn = asyncio.Lock()

    @property
    def changes(self) -> int:
        """Number of times that the topic is known to have been deleted and recreated since this was opened."""
        return 0 if self._watch is None else self._watch.changes

    async def __aenter__(self) -> Self:
        """Connect. Raises Unavailable."""
        self._client = await open_client(self._settings, self._topic)
        self._watch = TopicWatch(self._client, self._topic)
        await self._watch.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        if self._client is not None:
            client, self._client = self._client, None
            await stop_consumer(client)

    async def partition_of(self, key: bytes) -> int:
        """Return the partition that producers choose for a key by murmur2. Raises Unavailable."""
        client = self._opened()
        count = len(client.partitions_for_topic(self._topic) or ())
        if not count:
            with translated(f"read {self._topic}", self._settings):
                # Assigning makes the client ask for the metadata of the topic.
                client.assign([TopicPartition(self._topic, 0)])
                await client.beginning_offsets([TopicPartition(self._topic, 0)])
            count = len(client.partitions_for_topic(self._topic) or ())
        if not count:
            raise Unavailable(f"the number of partitions of {self._topic} is not known")
        return int((murmur2(key) & _SIGN) % count)

    async def before(self, partition: int, offset: int, *, first: int | None, since: Timestamp) -> list[Record]:
        """Return the records of a partition before an offset, in order. Raises Unavailable.

        first: the offset to begin with; None: the first record at or after the time `since`, or an earlier one.
        """
        place, found = TopicPartition(self._topic, partition), list[Record]()
        async with self._turn:
            client = self._opened()
            with translated(f"read {self._topic}", self._settings):
                client.assign([place])
                begin = (await client.beginning_offsets([place]))[place]
                client.seek(place, max(begin, await _start(client, place, since) if first is None else first))
                limit_s, now_s = self._settings.delivery_timeout_s, asyncio.get_running_loop().time
                async with asyncio.timeout(limit_s) as limit:
                    at = await client.position(place)
                    while at < offset:
                        fetched = (await client.getmany(place, timeout_ms=_POLL_MS)).get(place, ())
                        found += [to_record(one) for one in fetched if one.offset < offset]
                        before, at = at, await client.position(place)
                        if at != before:
                            # Not for all of them: whoever tries again starts over. Aborted transactions give no record.
                            limit.reschedule(now_s() + limit_s)
        return found

    def _opened(self) -> AIOKafkaConsumer:
        if self._client is None:
            raise RuntimeError("the history is not open")
        return self._client


async def _start(client: AIOKafkaConsumer, place: TopicPartition, since: Timestamp) -> int:
    """Return the offset of the first record at or after a time; 0 where the broker does not tell."""
    answer = (await client.offsets_for_times({place: max(0, since)}))[place]
    return 0 if answer is None or answer.offset is None else max(0, int(answer.offset))
