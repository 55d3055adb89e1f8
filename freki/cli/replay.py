"""Replay of dead letters that no newer record supersedes."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from freki.infra.kafka import Reader
from freki.infra.registry import RegistryClient
from freki.infra.settings import KafkaSettings, Settings
from freki.schemas import ChunkBatch, ContextualChunkBatch, DocumentChange, Revision
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.errors import Rejected
from freki.streams.deliver.dead_letters import DeadLetter, Letter, note_replayed, omitted_of, replay
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.replay import Latest, latest_of, place_of, refusal_of_change, refusal_of_part
from freki.streams.messages import Stored
from freki.streams.topics import Topics
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import topics_of

Parts = Mapping[str, Callable[[bytes], ChunkBatch | ContextualChunkBatch]]


class Replaying:
    """Replays dead letters, checked against the documents topic as of opening."""

    def __init__(
        self, kafka: KafkaSettings, topics: Topics, outbox: Outbox, latest: dict[bytes, Latest], parts: Parts
    ) -> None:
        self._kafka = kafka
        self._topics = topics
        self._outbox = outbox
        self._latest = latest
        self._parts = parts

    async def replay(self, place: Letter, letter: DeadLetter) -> str | None:
        """Send the record of a dead letter again and mark it as replayed; return the reason if it is not sent."""
        if letter.encrypted:
            return letter.message
        try:
            if letter.omitted:
                found = await self._value_of(letter)
                if found is None:
                    return f"the letter omits the value, and record {'/'.join(map(str, place_of(letter)))} is gone"
                letter = replace(letter, key=found.key, value=found.value, headers=found.headers)
            if reason := self._refusal(letter):
                return reason
            await self._outbox.send(replay(letter))
        except Rejected as error:
            return str(error)
        # Mark after sending: if marking fails, the record is at worst sent twice.
        await self._outbox.send(note_replayed(place, self._topics.dead_letters.name))
        if letter.topic == self._topics.documents.name and letter.key is not None:
            # The record sent now is the last of its key: any other dead letter of that key is older.
            last = self._latest[letter.key]
            self._latest[letter.key] = replace(last, offset=max(last.offset, letter.offset) + 1)
        return None

    def _refusal(self, letter: DeadLetter) -> str | None:
        if letter.topic == self._topics.documents.name:
            return refusal_of_change(letter, self._latest)
        if letter.topic not in self._parts:
            return None
        try:
            revision: Revision = self._parts[letter.topic](letter.value or b"").revision
        except UndecodableError as error:
            return f"it would fail again: {error}"
        return refusal_of_part(letter, self._latest, revision)

    async def _value_of(self, letter: DeadLetter) -> Stored | None:
        """Read the original record."""
        async with Reader(self._kafka, letter.topic, start={letter.partition: letter.offset}) as reader:
            async for stored in reader.until_end():
                if (stored.partition, stored.offset) == (letter.partition, letter.offset):
                    return stored if omitted_of(stored.value) == letter.omitted else None
        return None


@asynccontextmanager
async def open_replaying(settings: Settings, letters: Sequence[DeadLetter]) -> AsyncIterator[Replaying]:
    """Read the records of the dead letters' documents from the documents topic; open a producer."""
    topics = topics_of(settings)
    async with open_registry(settings) as registry, open_outbox(settings) as (outbox, _):
        if registry is not None:
            await registry.prepare([letter.value for letter in letters])
        keys = {letter.key for letter in letters if letter.key is not None}
        async with Reader(settings.kafka, topics.documents.name, start="earliest") as reader:
            decode = Codec(DocumentChange, registry=registry).decode
            records = _prepared(reader.until_end(), registry)
            latest = await latest_of(keys, records, decode) if keys else {}
        parts: dict[str, Callable[[bytes], ChunkBatch | ContextualChunkBatch]] = {}
        for topic in topics.chunks.values():
            parts[topic.name] = Codec(ChunkBatch, registry=registry).decode
        for topic in topics.contextual_chunks.values():
            parts[topic.name] = Codec(ContextualChunkBatch, registry=registry).decode
        yield Replaying(settings.kafka, topics, outbox, latest, parts)


async def _prepared(records: AsyncIterator[Stored], registry: RegistryClient | None) -> AsyncIterator[Stored]:
    async for stored in records:
        if registry is not None:
            await registry.prepare([stored.value])
        yield stored
