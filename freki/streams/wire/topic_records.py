"""Records on the topics: of single documents, and the current ones of compacted topics."""

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, TypeVar

from freki.infra.kafka import Reader
from freki.infra.keys import cipher_of
from freki.infra.registry import RegistryClient
from freki.infra.settings import Settings
from freki.schemas import DocumentChange, IndexOutcome
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.names import same_keys
from freki.streams.deliver.dead_letters import DeadLetter, NotADeadLetter, from_record, opened
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.messages import Outgoing, Stored
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of

R = TypeVar("R")

Began = Callable[[str, int], Callable[[], None]]
"""Called with what is read and the number of records; what it returns is called after each."""


class TopicRecords:
    """Satisfies DocumentRecords of `streams.documents`. Reads whole topics; undecodable values are skipped."""

    def __init__(self, settings: Settings, registry: RegistryClient | None, *, began: Began | None = None) -> None:
        self._settings = settings
        self._registry = registry
        self._topics = topics_of(settings)
        self._began = began

    def changes(self, key: bytes) -> AsyncIterator[tuple[Stored, DocumentChange | None]]:
        """Yield the changes with this key; None for a null value."""
        return self._decoded(self._topics.documents.name, DocumentChange, key, "changes")

    def receipts(self, key: bytes) -> AsyncIterator[tuple[Stored, IndexOutcome | None]]:
        """Yield the receipts with this key."""
        return self._decoded(self._topics.outcomes.name, IndexOutcome, key, "receipts")

    async def letters(self, key: bytes) -> AsyncIterator[tuple[Stored, DeadLetter]]:
        """Yield the dead letters of records with this key."""
        cipher = cipher_of(self._settings.encryption)
        async for stored in self._with(self._topics.dead_letters.name, key, "dead letters"):
            try:
                letter = from_record(stored)
            except NotADeadLetter:
                continue
            yield stored, await opened(letter, cipher)

    async def _decoded(
        self, topic: str, kind: type[R], key: bytes, title: str
    ) -> AsyncIterator[tuple[Stored, R | None]]:
        codec = Codec(kind, registry=self._registry)
        async for stored in self._with(topic, key, title):
            if self._registry is not None:
                await self._registry.prepare([stored.value])
            try:
                value = None if stored.value is None else codec.decode(stored.value)
            except UndecodableError:
                continue
            yield stored, value

    async def _with(self, topic: str, key: bytes, title: str) -> AsyncIterator[Stored]:
        async with Reader(self._settings.kafka, topic, start="earliest") as reader:
            advance = None if self._began is None else self._began(title, sum(reader.ends.values()))
            async for stored in reader.until_end():
                if advance is not None:
                    advance()
                if stored.key == key:
                    yield stored


async def current_values(settings: Settings, topic: str, kind: type[R]) -> AsyncIterator[tuple[bytes, R | None]]:
    """Yield the last value of each key of a compacted topic, by time of the last record; None: it cannot be decoded."""
    values, order = dict[bytes, bytes](), KeyOrder()
    async with open_registry(settings) as registry:
        async with Reader(settings.kafka, topic, start="earliest") as reader:
            async for stored in reader.until_end():
                if order.is_outdated(stored):
                    continue
                values.pop(stored.key or b"", None)
                if stored.value is not None:
                    values[stored.key or b""] = stored.value
        if registry is not None:
            await registry.prepare(values.values())
        codec = Codec(kind, registry=registry)
        for key, value in values.items():
            try:
                decoded = codec.decode(value)
            except ValueError:
                decoded = None
            yield key, decoded


async def records_of(
    settings: Settings, topic: str, kind: type[Any], key: bytes, value: bytes | None
) -> list[Outgoing]:
    """Return the records that give what a key names a value in a compacted topic; None: that end it.

    They have the keys under which the topic has it, as services write them; a value that it lacks gets the key itself.
    """
    keys = same_keys([each async for each, _ in current_values(settings, topic, kind)], key)
    if value is None:
        return await ending_nulls(settings, topic, keys)
    return [Outgoing(topic=topic, key=each, value=value) for each in keys]


async def ending_nulls(settings: Settings, topic: str, keys: Collection[bytes]) -> list[Outgoing]:
    """Return the null values that end keys of a compacted topic: one in each partition with a value last.

    A key has several where partitions were added: compaction would keep the older value, which would count again once
    a null value in the other partition is gone.
    """
    wanted, lasts = frozenset(keys), dict[tuple[bytes, int], bool]()
    async with Reader(settings.kafka, topic, start="earliest") as reader:
        async for stored in reader.until_end():
            if stored.key is not None and stored.key in wanted:
                lasts[stored.key, stored.partition] = stored.value is not None
    places = [place for place, has_value in lasts.items() if has_value]
    return [Outgoing(topic=topic, key=key, value=None, partition=partition) for key, partition in places]
