"""Connection to Kafka by aiokafka, which is imported by the first one."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from freki.client.broker import Broker
from freki.client.messages import Headers, Outgoing
from freki.client.tasks import cancel_and_wait, to_its_end
from freki.client.wakeups import FetchPauses, WakeupSender, find_directory, pace
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.names import record, shown_time

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

_POLL_MS = 500
METADATA_AGE_MS = 10_000
"""Interval of looks whether partitions were added: until then, nobody reads them. Five minutes by default."""
_MARGIN_BYTES = 64 * 1024
"""Size reserved for headers and framing around the largest record."""
_CANCEL_S = 0.05
"""Interval at which a task that goes on is cancelled again."""
_TOO_LARGE = "TooLargeError"
_REFUSED = ("Auth", "Sasl", "SecurityDisabled", "Unsupported", "BrokerVersion", "UnknownTopic", "InvalidTopic")
"""Parts of the names of what the broker refuses until something is corrected."""
_NO_PRODUCER_IDS = "UnknownError"
"""Answer of the broker of `freki up` to the request for the id of an idempotent producer."""


@record
class Record:
    """A record with undecoded key and value."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970-01-01T00:00:00Z, set by producer or broker."""
    key: bytes | None
    value: bytes | None
    headers: Headers = field(repr=False)
    """One of them may be a token."""


def to_record(one: "ConsumerRecord[bytes, bytes]") -> Record:
    """Return a record as the client gave it."""
    return Record(
        topic=one.topic,
        partition=one.partition,
        offset=one.offset,
        timestamp_ms=shown_time(one.timestamp),
        key=one.key,
        value=one.value,
        headers=tuple((name, value or b"") for name, value in one.headers),
    )


class Producer:
    """Sends records in order per key, each confirmed by all replicas."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._client: AIOKafkaProducer | None = None
        self._wakeups: WakeupSender | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises Unavailable, or Misconfigured naming the option."""
        with _translated("connect", self._broker):
            from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - not before it is needed

            client = AIOKafkaProducer(
                acks="all",
                enable_idempotence=self._broker.idempotent,
                linger_ms=0,
                max_request_size=self._broker.max_message_bytes + _MARGIN_BYTES,
                **_options(self._broker),
            )
            try:
                await client.start()
            except BaseException:
                await to_its_end(client.stop())
                raise
        self._client = client
        directory = _wakeups_of(self._broker)
        self._wakeups = None if directory is None else WakeupSender(directory)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Send what is queued, for at most `timeout_s` of the Broker, then disconnect."""
        if self._client is not None:
            client, self._client = self._client, None
            await stop_producer(client, self._wakeups, timeout_s=self._broker.timeout_s)

    async def send(self, *records: Outgoing) -> None:
        """Return when the broker has stored all records.

        Raises the first error after all have ended: Rejected for one that is too large, Unavailable, Misconfigured.
        Raises Unavailable after `timeout_s` of the Broker; the records stay queued, and may be stored later.
        """
        if self._client is None:
            raise RuntimeError("the client is not open: use it in `async with`")
        # aiokafka repeats the requests of an idempotent producer for as long as the broker is away.
        with _translated("send", self._broker):
            async with asyncio.timeout(self._broker.timeout_s):
                await self._send(self._client, records)

    async def _send(self, client: "AIOKafkaProducer", records: Sequence[Outgoing]) -> None:
        stored = [
            await client.send(
                one.topic, key=one.key, value=one.value, headers=list(one.headers), partition=one.partition
            )
            for one in records
        ]
        results = await asyncio.gather(*stored, return_exceptions=True)
        if self._wakeups is not None:
            for topic in dict.fromkeys(one.topic for one in records):
                self._wakeups.wake_up(topic)
        for result in results:
            if isinstance(result, BaseException):
                raise result


class Reader:
    """Reads all partitions of a topic, without a group: once open, records sent from then on are read.

    Also those of partitions that are added meanwhile, and of a topic that is deleted and recreated.
    """

    def __init__(self, broker: Broker, topic: str, *, start: Literal["earliest", "latest"] = "latest") -> None:
        self._broker = broker
        self._topic = topic
        self._start = start
        self._client: AIOKafkaConsumer | None = None
        self._pauses: FetchPauses | None = None

    async def __aenter__(self) -> Self:
        """Connect and take position. Raises Unavailable, or Misconfigured where the topic does not exist."""
        with _translated(f"read {self._topic}", self._broker):
            from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - not before it is needed

            client = AIOKafkaConsumer(
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                # Records of aborted transactions have no effect.
                isolation_level="read_committed",
                fetch_max_wait_ms=self._broker.fetch_wait_ms,
                metadata_max_age_ms=METADATA_AGE_MS,
                max_partition_fetch_bytes=self._broker.max_message_bytes + _MARGIN_BYTES,
                **_options(self._broker),
            )
            try:
                await client.start()
                await self._take_position(client)
            except BaseException:
                await to_its_end(stop_consumer(client))
                raise
        self._client = client
        self._pauses = pace(client, _wakeups_of(self._broker))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        if self._client is not None:
            client, self._client = self._client, None
            # Without a group it has nobody to take leave of: this is short.
            await to_its_end(stop_consumer(client, self._pauses))

    async def _take_position(self, client: "AIOKafkaConsumer") -> None:
        from aiokafka import TopicPartition  # noqa: PLC0415 - as above

        from freki.client.topic_ids import TopicWatch  # noqa: PLC0415 - it imports aiokafka

        await TopicWatch(client, self._topic).begin()
        # Metadata of all topics: a request for one would create it where the broker allows that.
        numbers = (await client._client.fetch_all_metadata()).partitions_for_topic(self._topic)  # noqa: SLF001
        if not numbers:
            raise Misconfigured(
                f"topic {self._topic} does not exist, or may not be read: correct prefix, version or generation of the "
                "Broker, let `freki topics apply` create it, or get the right to read it"
            )
        places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        client.assign(places)
        # Now and not with the first fetch, so that no answer comes before.
        ends = client.end_offsets if self._start == "latest" else client.beginning_offsets
        for place, offset in (await ends(places)).items():
            client.seek(place, offset)

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records endlessly; within a partition in order."""
        while True:
            if self._client is None:
                raise RuntimeError("the reader is not open")
            with _translated(f"read {self._topic}", self._broker):
                await assign_added(self._client, self._topic)
                fetched = await self._client.getmany(timeout_ms=_POLL_MS)
            for records in fetched.values():
                for one in records:
                    yield to_record(one)


async def assign_added(client: "AIOKafkaConsumer", topic: str) -> None:
    """Let a consumer without a group also read partitions that were added to its topic, from their beginning.

    It must begin at the earliest record where it has no position.
    """
    from aiokafka import TopicPartition  # noqa: PLC0415 - as above

    read = client.assignment()
    added = {TopicPartition(topic, number) for number in client.partitions_for_topic(topic) or ()} - read
    if added:
        positions = {place: await client.position(place) for place in read}
        client.assign([*read, *added])
        for place, offset in positions.items():
            client.seek(place, offset)


async def stop_producer(client: "AIOKafkaProducer", wakeups: WakeupSender | None, *, timeout_s: float) -> None:
    """Send what is queued, for at most `timeout_s` seconds, and disconnect, also if cancelled meanwhile."""
    try:
        await to_its_end(_stop_producer(client, timeout_s))
    finally:
        if wakeups is not None:
            wakeups.close()


async def _stop_producer(client: "AIOKafkaProducer", timeout_s: float) -> None:
    # What the client's own `stop` does, which leaves a task that waits for ever for records that no broker takes.
    client._closed = True  # noqa: SLF001
    sending = client._sender.sender_task  # noqa: SLF001
    queue = asyncio.create_task(client._message_accumulator.close())  # noqa: SLF001
    await asyncio.wait({queue, sending}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait([queue])
    # Cancelled once, it waits for each request that is under way.
    while not sending.done():
        sending.cancel()
        await asyncio.wait({sending}, timeout=_CANCEL_S)
    await client.client.close()


async def stop_consumer(client: "AIOKafkaConsumer", pauses: FetchPauses | None = None) -> None:
    """Disconnect a consumer, even if the broker is unreachable, and close its pauses, if it has any."""
    stopping = asyncio.create_task(client.stop())
    try:
        await asyncio.wait({stopping})
        if stopping.cancelled():
            # A fetch that waits to be tried again is cancelled, which escapes: aiokafka's issue 647. This comes next.
            await client._client.close()  # noqa: SLF001
        else:
            stopping.result()
    finally:
        if pauses is not None:
            pauses.close()


def _wakeups_of(broker: Broker) -> Path | None:
    """Return the directory of wake-ups; None for any broker but that of `freki up`."""
    return None if broker.idempotent else find_directory(broker.bootstrap)


def _options(broker: Broker) -> dict[str, object]:
    return {
        "bootstrap_servers": broker.bootstrap.split(","),
        "client_id": "freki-client",
        "request_timeout_ms": int(broker.timeout_s * 1000),
        **broker.options,
    }


def without_code(error: Exception) -> str:
    """Return what an error of a Kafka library says, without the number that comes before its name."""
    return re.sub(r"^\[Error -?\d+\] ", "", str(error))


@contextmanager
def _translated(action: str, broker: Broker) -> Iterator[None]:
    """Raise ours for aiokafka's, keeping theirs as the cause."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Misconfigured("aiokafka is not installed: pip install 'freki-client[kafka]'") from error
    except TimeoutError as error:
        raise Unavailable(
            f"{action}: no answer within {broker.timeout_s:g} s; is Kafka up at {broker.bootstrap}?"
        ) from error
    except OSError as error:
        raise Unavailable(f"{action}: {error}; is Kafka up at {broker.bootstrap}?") from error
    except Exception as error:
        # Not by its base class: KafkaError is a RuntimeError, as are errors of callers.
        if not type(error).__module__.startswith("aiokafka"):
            raise
        name = type(error).__name__
        if name.endswith(_TOO_LARGE):
            message = f"{action}: the record is larger than the broker or max_message_bytes of the Broker allows"
            raise Rejected(message) from error
        told = without_code(error) or name
        if any(part in name for part in _REFUSED):
            raise Misconfigured(f"{action}: {told}; check options of the Broker and the rights of its user") from error
        hint = f"is Kafka up at {broker.bootstrap}?"
        if name == _NO_PRODUCER_IDS and broker.idempotent:
            hint = "the broker of `freki up` knows no idempotent producers: give Broker(idempotent=False) for it"
        raise Unavailable(f"{action}: {told}; {hint}") from error
