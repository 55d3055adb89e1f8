"""A reader of a topic without consumer group: for the command line, and for clients that wait for a reply."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from freki.client.kafka import METADATA_AGE_MS, Record, assign_added, stop_consumer, to_record
from freki.client.topic_ids import TopicWatch
from freki.client.wakeups import FetchPauses, end_of, pace
from freki.infra.kafka.batches import read_any_header_names
from freki.infra.kafka.connection import (
    PROFILES,
    REQUEST_MARGIN_BYTES,
    client_options,
    connecting,
    translated,
    wakeups_of,
)
from freki.infra.registry import RegistryClient
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import Misconfigured, Unavailable

_POLL_MS = 500
_ENDS_MS = 5
"""Interval of looks whether the ends of partitions are known; no record comes, for which a poll would end."""
AT_ONCE_MS = 1
"""Wait of a fetch at the end of a partition, which asks for the end and expects no record."""
ISOLATION = "read_committed"
"""Isolation level of all consumers: records of aborted transactions have no effect."""


class Reader:
    """Reads all partitions of a topic, or one.

    Once open, it has its position in every partition: records sent after that are read.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        *,
        start: Literal["earliest", "latest"] | Mapping[int, int] | int,
        partition: int | None = None,
        registry: RegistryClient | None = None,
    ) -> None:
        """Set the start: earliest, latest, a time in milliseconds since 1970, or offsets by partition.

        Missing partitions start at the earliest. Records of before the time may come too. partition: the only one that
        is read, to its end; None: all. registry: fetches the schemas that decoding the records needs; then reading them
        raises what `prepare` raises, too.
        """
        self._settings = settings
        self._topic = topic
        self._start = start
        self._partition = partition
        self._registry = registry
        self._client: AIOKafkaConsumer | None = None
        self._pauses: FetchPauses | None = None
        self._watch: TopicWatch | None = None
        self.starts: Mapping[int, int] = {}
        """Offset at which the reader started in each partition, whether or not a record is there."""
        self.ends: Mapping[int, int] = {}
        """End offset of each partition when the reader was opened."""

    async def __aenter__(self) -> Self:
        """Connect and take position. Raises Unavailable, or Misconfigured where the topic does not exist."""
        client = await open_client(self._settings, self._topic, self._take_position)
        self._client = client
        self._pauses = pace(client, wakeups_of(self._settings))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        if self._client is not None:
            client, self._client = self._client, None
            await stop_consumer(client, self._pauses)

    async def check(self) -> None:
        """Raise Unavailable if the broker does not answer on the connections of this reader."""
        if not await self._opened()._client.force_metadata_update():  # noqa: SLF001
            raise Unavailable(f"read {self._topic}: no answer from FREKI_KAFKA__BOOTSTRAP={self._settings.bootstrap}")

    async def _take_position(self, client: AIOKafkaConsumer) -> None:
        self._watch = TopicWatch(client, self._topic)
        await self._watch.begin()
        # Metadata of all topics: a request for one would create it where the broker allows that. The client does not
        # store this response, and `topics()` returns names only.
        numbers = (await client._client.fetch_all_metadata()).partitions_for_topic(self._topic)  # noqa: SLF001
        if not numbers:
            raise Misconfigured(
                f"topic {self._topic} does not exist, or may not be read; create it with `freki topics apply`, give the"
                " right that `freki topics acls` lists, or correct FREKI_KAFKA__TOPIC_PREFIX,"
                " FREKI_KAFKA__TOPIC_VERSION and FREKI_MILVUS__GENERATION"
            )
        if self._partition is not None:
            numbers &= {self._partition}
            if not numbers:
                raise Misconfigured(f"topic {self._topic} has no partition {self._partition} any more")
        places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        with _fetching_at_once(client):
            ends = await log_ends(client, places)
            begins = ends if self._start == "latest" else await client.beginning_offsets(places)
            given = self._start if isinstance(self._start, Mapping) else {}
            if isinstance(self._start, int):
                given = await self._since(client, places, self._start, ends)
        self.starts = {place.partition: given.get(place.partition, begins[place]) for place in places}
        for place in places:
            client.seek(place, self.starts[place.partition])
        self.ends = {place.partition: end for place, end in ends.items()}

    async def _since(
        self,
        client: AIOKafkaConsumer,
        places: Sequence[TopicPartition],
        time_ms: int,
        ends: Mapping[TopicPartition, int],
    ) -> dict[int, int]:
        """Return the offset of the first record from a time on, by partition; none where the broker does not tell."""
        told = await client.offsets_for_times(dict.fromkeys(places, max(0, time_ms)))
        found = {
            place.partition: int(each.offset) for place, each in told.items() if each is not None and each.offset >= 0
        }
        # Kafka tells nothing where all records are older; the local broker may tell nothing at all.
        is_told = self._settings.profile != "local"
        return ({place.partition: end for place, end in ends.items()} if is_told else {}) | found

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records endlessly, within a partition in order.

        Also those of partitions that are added meanwhile, and of a topic that is deleted and recreated.
        """
        while True:
            with translated(f"read {self._topic}", self._settings):
                await assign_added(self._opened(), self._topic)
            for record in await self._poll():
                yield record

    async def until_end(self) -> AsyncIterator[Record]:
        """Yield records up to the end offsets at the time of opening.

        Raises Unavailable if the broker is lost, or the topic was deleted and recreated.
        """
        while records := await self._before_end():
            for record in records:
                if record.offset < self.ends[record.partition]:
                    yield record

    async def _before_end(self) -> list[Record]:
        """Return the next records; none at the end."""
        # The client tries a lost broker again for ever, and says nothing.
        limit_s, now_s = self._settings.delivery_timeout_s, asyncio.get_running_loop().time
        with translated(f"read {self._topic}", self._settings):
            async with asyncio.timeout(limit_s) as limit:
                left = await self._left()
                while left:
                    if records := await self._poll():
                        return records
                    before, left = left, await self._left()
                    if left != before:
                        # Of aborted transactions no record comes, however many they wrote.
                        limit.reschedule(now_s() + limit_s)
        return []

    async def _left(self) -> Mapping[int, int]:
        """Return the position in each partition that is not at its end."""
        # Positions, not offsets of records: compaction and transactions leave gaps.
        client, found = self._opened(), dict[int, int]()
        if self._watch is not None and self._watch.changes:
            raise Unavailable(f"{self._topic} was deleted and created again while it was read; read it again")
        for partition, end in self.ends.items():
            position = await client.position(TopicPartition(self._topic, partition))
            if position < end:
                found[partition] = position
        return found

    async def _poll(self) -> list[Record]:
        with translated(f"read {self._topic}", self._settings):
            fetched = await self._opened().getmany(timeout_ms=_POLL_MS)
        records = [to_record(one) for records in fetched.values() for one in records]
        if self._registry is not None:
            await self._registry.prepare(record.value for record in records)
        return records

    def _opened(self) -> AIOKafkaConsumer:
        if self._client is None:
            raise RuntimeError("the reader is not open")
        return self._client


async def open_client(
    settings: KafkaSettings,
    read: str,
    prepare: Callable[[AIOKafkaConsumer], Awaitable[None]] | None = None,
    *,
    fetch_wait_ms: int | None = None,
) -> AIOKafkaConsumer:
    """Connect a consumer without a group.

    read: what is read, for errors; prepare: called once it is connected; fetch_wait_ms: wait of a fetch at the end of a
    partition, default: that of the profile. Raises Unavailable, Misconfigured, and what `prepare` raises; then nothing
    stays connected.
    """
    read_any_header_names()
    client = AIOKafkaConsumer(
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=ISOLATION,
        fetch_max_wait_ms=fetch_wait_ms or PROFILES[settings.profile].fetch_wait_ms,
        max_partition_fetch_bytes=settings.max_message_bytes + REQUEST_MARGIN_BYTES,
        request_timeout_ms=int(settings.delivery_timeout_s * 1000),
        metadata_max_age_ms=METADATA_AGE_MS,
        **client_options(settings),
    )
    try:
        async with connecting(f"open {read}", settings):
            await client.start()
            if prepare is not None:
                await prepare(client)
    except BaseException:
        await stop_consumer(client)
        raise
    return client


@contextmanager
def _fetching_at_once(client: AIOKafkaConsumer) -> Iterator[None]:
    """Let no fetch wait for records: the client waits for its response, and so do all requests behind it."""
    fetcher = client._fetcher  # noqa: SLF001
    waits_ms, fetcher._fetch_max_wait_ms = fetcher._fetch_max_wait_ms, AT_ONCE_MS  # noqa: SLF001
    try:
        yield
    finally:
        fetcher._fetch_max_wait_ms = waits_ms  # noqa: SLF001


async def log_ends(client: AIOKafkaConsumer, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Assign partitions to the client and return the end offset of each; positions are undefined afterwards.

    Records of an open transaction, and all after them, do not count: fetch responses give the last stable offset. The
    local broker reports the first record of the last batch as the latest offset.
    """
    client.assign(places)
    for place, offset in (await client.end_offsets(places)).items():
        client.seek(place, offset)
    while any(client.highwater(place) is None for place in places):
        await client.getmany(timeout_ms=_ENDS_MS)
    return {place: end_of(client.highwater(place), client.last_stable_offset(place)) for place in places}
