"""The admin client: creates declared topics, and measures the lag of consumer groups."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, Self, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.structs import OffsetAndMetadata
from kafka import TopicPartition as KafkaPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NoError,
    NotCoordinatorError,
    TopicAlreadyExistsError,
    for_code,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from freki.client.kafka import stop_consumer
from freki.client.topic_ids import differ, ids_of
from freki.infra.kafka.connection import (
    PROFILES,
    client_options,
    connecting,
    options_of_clients,
    probe,
    translated,
)
from freki.infra.kafka.reader import AT_ONCE_MS, log_ends, open_client
from freki.infra.kafka.tokens import Tokens
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import Rejected, Unavailable

T = TypeVar("T")

_LOOK_S = 2.0
_SHOWN_S = 0.05
_POLL_MS = 100
_CONNECTIONS = 3
"""Connections that are tried for one request."""
_COORDINATOR_S = 10.0
_COORDINATOR_PAUSE_S = 0.1
_COORDINATOR_MOVES = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    NotCoordinatorError,
)
CLIENT_ERRORS = (KafkaError, RuntimeError)
"""What kafka-python raises: the latter while the controller moves, and where a connection ends as it writes."""


class Declared(Protocol):
    """The declaration of a topic."""

    @property
    def name(self) -> str:
        """Full name."""

    @property
    def partitions(self) -> int:
        """Number of partitions."""

    @property
    def replication(self) -> int:
        """Replicas of each partition."""

    @property
    def config(self) -> Mapping[str, str]:
        """Topic settings by Kafka's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The actual state of a topic."""

    name: str
    partitions: int
    """0 where the topic does not exist."""
    config: Mapping[str, str]
    """Settings that the broker reports; the local broker reports those given at creation."""

    def differences(self, declared: Declared) -> tuple[str, ...]:
        """Return a description of each difference from the declaration."""
        wanted = {"partitions": str(declared.partitions), **declared.config}
        found = {"partitions": str(self.partitions), **self.config}
        return tuple(
            f"{field} is {found.get(field, 'not set')}, declared {value}"
            for field, value in wanted.items()
            if found.get(field) != value
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """Lag of a consumer group in one partition."""

    topic: str
    partition: int
    committed: int | None
    """Next offset that the group reads; None where it has never committed."""
    end: int
    """Log end offset: one past the last record."""
    held: int
    """Number of records that are there, from its offsets; a compacted topic may hold fewer."""
    lag: int
    """Number of records that the group has not finished."""
    oldest_ms: int | None
    """Timestamp of the first unfinished record; None where there is none or it was not read in time."""


class ForKafkaPython(AbstractTokenProvider):  # type: ignore[misc] # kafka-python is untyped
    """Token provider for kafka-python, in its own thread."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        """Return a token. Raises NoToken."""
        return self._tokens.get()

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions."""
        return dict(self._tokens.extensions)


def admin_options(settings: KafkaSettings) -> dict[str, object]:
    """Return the keyword arguments of kafka-python's clients."""
    return options_of_clients(settings, ForKafkaPython)


class Admin:
    """The blocking admin client of kafka-python, run in threads, one call at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: KafkaAdminClient | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect. Raises Unavailable, or Misconfigured naming the setting."""
        timeout_ms = int(self._settings.delivery_timeout_s * 1000)
        options = admin_options(self._settings) | {
            "request_timeout_ms": timeout_ms,
            "bootstrap_timeout_ms": timeout_ms,
        }
        with translated("connect", self._settings, CLIENT_ERRORS):
            await probe(self._settings)
            self._client = await asyncio.to_thread(lambda: KafkaAdminClient(**options))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        if self._client is not None:
            client, self._client = self._client, None
            await asyncio.to_thread(client.close)

    async def ensure_topics(self, topics: Sequence[Declared]) -> tuple[str, ...]:
        """Create the topics that do not exist, and return their names. Existing ones are unchanged.

        Returns once the metadata of the broker contain them, which may be after Kafka confirms the creation. Raises
        Unavailable if they do not within the delivery timeout.
        """
        there = await self.partitions([topic.name for topic in topics])
        missing = [topic for topic in topics if not there[topic.name]]
        created = [topic.name for topic in missing if await self._run("create topics", _create, topic)]
        if missing:
            await self._shown([topic.name for topic in missing], there=True)
        return tuple(created)

    async def partitions(self, names: Sequence[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic; 0 where it does not exist or may not be described.

        Requires the right to describe topics only; `describe` also requires that to describe their settings.
        """
        found = await self._run("describe topics", _partitions, names)
        return {name: len(numbers) for name, numbers in found.items()}

    async def _shown(self, names: Sequence[str], *, there: bool) -> None:
        """Wait until the metadata of the broker contain all topics, or none."""
        for _ in range(round(self._settings.delivery_timeout_s / _SHOWN_S)):
            partitions = await self.partitions(names)
            if all(bool(count) is there for count in partitions.values()):
                return
            await asyncio.sleep(_SHOWN_S)
        done = "created" if there else "deleted"
        raise Unavailable(f"{', '.join(names)}: {done}, but the metadata of the broker do not say so")

    async def describe(self, names: Sequence[str]) -> tuple[TopicState, ...]:
        """Return the states of topics in the given order; 0 partitions where a topic does not exist."""
        return await self._run("describe topics", _describe, names)

    async def check_group(self, group: str) -> None:
        """Raise Misconfigured if the user may not describe a consumer group; a new group is valid."""
        await self._run(f"read offsets of {group}", _committed, group)

    async def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        """Return the offsets that a group reads next, by topic and partition."""
        committed = await self._run(f"read offsets of {group}", _committed, group)
        return {(place.topic, place.partition): each.offset for place, each in committed.items()}

    async def lag(self, group: str, topics: Sequence[str]) -> tuple[PartitionLag, ...]:
        """Return the lag of a group in every partition of the topics, ordered by topic and partition."""
        return (await self.lags({group: topics}))[group]

    async def lags(self, topics: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[PartitionLag, ...]]:
        """Return the lag of each group in every partition of its topics, ordered by topic and partition."""
        committed = {group: await self._run(f"read offsets of {group}", _committed, group) for group in topics}
        names = list(dict.fromkeys(chain.from_iterable(topics.values())))
        partitions = await self._run("describe topics", _partitions, names)
        places = {name: [TopicPartition(name, number) for number in partitions[name]] for name in names}
        every = [*chain.from_iterable(places.values())]
        if not every:
            return dict.fromkeys(topics, ())
        async with self._reading() as client:
            ends, begins = await log_ends(client, every), await client.beginning_offsets(every)
            spans = {place: range(begins[place], ends[place]) for place in every}
            ids = await ids_of(client._client, names)  # noqa: SLF001
            return {
                group: await _lags(
                    client,
                    {place: spans[place] for name in own for place in places[name]},
                    # Not those of a deleted topic of this name, as whoever reads on.
                    {
                        place: each.offset
                        for place, each in committed[group].items()
                        if not differ(each.metadata, ids.get(place.topic, ""))
                    },
                )
                for group, own in topics.items()
            }

    async def rewind(self, group: str, topics: Sequence[str]) -> None:
        """Let a group read topics from the beginning, as one that never committed does anyway; absent ones are ignored.

        Raises Rejected while it has members.
        """
        await self._commit(group, topics, {})

    async def check_idle(self, group: str, topics: Sequence[str]) -> None:
        """Raise Rejected while a group that reads topics has members; absent topics are ignored."""
        # With the id of the topic that each is of.
        await self._commit(group, topics, await self._run(f"read offsets of {group}", _committed, group))

    async def _commit(
        self, group: str, topics: Sequence[str], offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit offsets in the place of a group, by default the beginning; raises Rejected while it has members."""
        await self.check_group(group)
        partitions = await self._run("describe topics", _partitions, topics)
        # Also partitions without an offset: members that have read nothing yet are members.
        places = [TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers]
        if not places:
            return
        client = AIOKafkaConsumer(group_id=group, enable_auto_commit=False, **client_options(self._settings))
        try:
            async with connecting(f"commit offsets of {group}", self._settings):
                await client.start()
                client.assign(places)
                try:
                    begins = await client.beginning_offsets(places)
                    await client.commit({place: offsets.get(place, begin) for place, begin in begins.items()})
                except CommitFailedError as error:
                    raise Rejected(
                        f"{group} has members: end the worker that reads as this group first; {self._killed_member()}"
                    ) from error
        finally:
            await stop_consumer(client)

    def _killed_member(self) -> str:
        if self._settings.profile == "local":
            # It knows a member that has not left until another one joins.
            return "if it was killed, start it again and end it"
        return f"one that was killed counts for {PROFILES[self._settings.profile].session_timeout_s:.0f} s more"

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; absent ones are ignored.

        Returns once the metadata of the broker no longer contain them, which may be after Kafka confirms the deletion:
        until then `ensure_topics` takes them for existing. Raises Unavailable if they do not within the delivery
        timeout.
        """
        there = [name for name, count in (await self.partitions(names)).items() if count]
        if there:
            await self._run("delete topics", _delete, there)
            await self._shown(there, there=False)

    async def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete all records of partitions before an offset each; readers see them no more.

        The broker removes their segments from its disk once a newer segment follows. Raises Unavailable from a broker
        that cannot, such as the local one.
        """
        if before:
            await self._run(f"delete records of {topic}", _delete_records, topic, before)

    async def held(self, topic: str) -> int | None:
        """Return the number of records of a topic, by its offsets; None if it is missing or may not be described."""
        numbers = (await self._run("describe topics", _partitions, [topic]))[topic]
        places = [TopicPartition(topic, number) for number in numbers]
        if not places:
            return None
        async with self._reading() as client:
            ends, begins = await log_ends(client, places), await client.beginning_offsets(places)
        held: int = sum(ends[place] - begins[place] for place in places)
        return held

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AIOKafkaConsumer]:
        ends = "the ends of topics"
        client = await open_client(self._settings, ends, fetch_wait_ms=AT_ONCE_MS)
        try:
            async with connecting(f"read {ends}", self._settings):
                yield client
        finally:
            await stop_consumer(client)

    async def _run(self, action: str, work: Callable[..., T], *args: object) -> T:
        if self._client is None:
            raise RuntimeError("the admin client is not open")
        with translated(action, self._settings, CLIENT_ERRORS):
            # In turn: a connection refuses further requests while it has several in flight.
            async with self._turn:
                return await asyncio.to_thread(work, self._client, *args)


def _create(client: KafkaAdminClient, topic: Declared) -> bool:
    new = NewTopic(topic.name, topic.partitions, topic.replication, topic_configs=dict(topic.config))
    try:
        _check(client.create_topics([new], raise_errors=False))
    except TopicAlreadyExistsError:  # created concurrently
        return False
    return True


def _delete(client: KafkaAdminClient, names: Sequence[str]) -> None:
    _check(client.delete_topics(list(names), raise_errors=False))


def _check(told: Mapping[str, Any]) -> None:
    """Raise the error of the first topic that the broker refuses; kafka-python's own error has the whole request."""
    for topic in told["topics"]:
        kind = for_code(topic["error_code"])
        if kind is not NoError:
            raise kind(": ".join(filter(None, (topic["name"], topic.get("error_message")))))


def _delete_records(client: KafkaAdminClient, topic: str, before: Mapping[int, int]) -> None:
    client.delete_records({KafkaPartition(topic, number): offset for number, offset in before.items()})


def _describe(client: KafkaAdminClient, names: Sequence[str]) -> tuple[TopicState, ...]:
    partitions = _partitions(client, names)
    found = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names if partitions[name]]
    told = _while_connections_end(lambda: client.describe_configs(found, config_filter="all"))["topic"] if found else {}
    return tuple(
        TopicState(
            name=name,
            partitions=len(partitions[name]),
            config={field: str(entry["value"]) for field, entry in told.get(name, {}).items()},
        )
        for name in names
    )


def _partitions(client: KafkaAdminClient, names: Sequence[str]) -> dict[str, list[int]]:
    # Fetch all topics and filter: a request by name would create a missing topic where the broker allows that.
    told = {topic["name"]: topic for topic in _while_connections_end(client.describe_topics)}
    return {
        name: sorted(partition["partition_index"] for partition in told[name]["partitions"]) if name in told else []
        for name in names
    }


def _while_connections_end(read: Callable[[], T]) -> T:
    """Ask again, a few times, where the broker that was asked goes away: others may be there."""
    for _ in range(_CONNECTIONS - 1):
        with suppress(KafkaConnectionError):
            return read()
    return read()


def _committed(client: KafkaAdminClient, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    # The first request for a group makes a new Kafka cluster create its topic of group offsets. When
    # the coordinator stops, another broker takes over, and reads that topic first.
    deadline = time.monotonic() + _COORDINATOR_S
    while True:
        try:
            offsets = client.list_group_offsets({group: None})[group]
            return {
                TopicPartition(*place): OffsetAndMetadata(found.offset, found.metadata or "")
                for place, found in offsets.items()
                if found.offset >= 0
            }
        except GroupAuthorizationFailedError as error:
            # What kafka-python says quotes the protocol.
            raise GroupAuthorizationFailedError(group) from error
        except _COORDINATOR_MOVES:
            if time.monotonic() > deadline:
                raise
            time.sleep(_COORDINATOR_PAUSE_S)
            # kafka-python asks only once who coordinates a group.
            client._manager.cluster._coordinators.clear()  # noqa: SLF001


async def _lags(
    client: AIOKafkaConsumer, spans: Mapping[TopicPartition, range], committed: Mapping[TopicPartition, int]
) -> tuple[PartitionLag, ...]:
    # After a loss of records a group reads from the beginning what is there.
    nexts = {
        place: max(at, span.start) if (at := committed.get(place, 0)) <= span.stop else span.start
        for place, span in spans.items()
    }
    oldest = await _timestamps(client, {place: at for place, at in nexts.items() if at < spans[place].stop})
    return tuple(
        PartitionLag(
            topic=place.topic,
            partition=place.partition,
            committed=committed.get(place),
            end=span.stop,
            held=span.stop - span.start,
            lag=max(0, span.stop - nexts[place]),
            oldest_ms=oldest.get(place),
        )
        for place, span in sorted(spans.items())
    )


async def _timestamps(client: AIOKafkaConsumer, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the timestamp of the record at each offset; records that do not arrive in time are left out."""
    found: dict[TopicPartition, int] = {}
    if not offsets:
        # Without an assignment the client would never stop: aiokafka 0.14 loses the cancellation of its fetcher.
        return found
    client.assign(list(offsets))
    for place, offset in offsets.items():
        client.seek(place, offset)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            while missing := [place for place in offsets if place not in found]:
                fetched = await client.getmany(*missing, timeout_ms=_POLL_MS)
                found |= {place: records[0].timestamp for place, records in fetched.items() if records}
    return found
