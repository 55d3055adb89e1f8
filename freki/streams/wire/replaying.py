"""Dead letters of the topic, and their replay where no newer record supersedes them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from freki.infra.kafka import Reader
from freki.infra.kafka.admin import Admin
from freki.infra.keys import cipher_of
from freki.infra.settings import KafkaSettings, Settings
from freki.schemas import ChunkBatch, ContextualChunkBatch, DocumentChange, Revision
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.errors import Rejected
from freki.schemas.names import Timestamp, record
from freki.schemas.operations import LetterView, ReplayResult
from freki.streams.audit.events import letter_replayed
from freki.streams.deliver.dead_letters import (
    DeadLetter,
    Letter,
    NotADeadLetter,
    from_record,
    note_settled,
    omitted_of,
    opened,
    replay,
    settled_by,
    without_value,
)
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.replay import Latest, Place, Refusal, latest_of, place_of, refusal_of_change, refusal_of_part
from freki.streams.topics import FIRST_GENERATION, Topics
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import settings_named, topics_of


@record
class Letters:
    """Dead letters, and which of them need nothing more."""

    by_place: Mapping[Letter, DeadLetter]
    replayed: AbstractSet[Letter]
    superseded: AbstractSet[Letter] = frozenset()

    def open_ones(self) -> dict[Letter, DeadLetter]:
        """Return those whose record was neither sent again nor superseded; of each record the last one.

        A record has several where it was delivered again, or where another generation was filled, whose workers read
        all records from the beginning.
        """
        settled = {
            _record_of(self.by_place[place]) for place in self.replayed | self.superseded if place in self.by_place
        }
        last = {_record_of(letter): place for place, letter in self.by_place.items()}
        return {place: self.by_place[place] for record, place in last.items() if record not in settled}

    def view(self, place: Letter) -> LetterView:
        """Return a dead letter without the value of its record."""
        letter = self.by_place[place]
        return LetterView(
            letter=name_of(place),
            record=f"{letter.topic}/{letter.partition}/{letter.offset}",
            key=(letter.key or b"").decode(errors="replace"),
            stage=letter.stage,
            error=letter.error,
            message=letter.message,
            attempts=letter.attempts,
            replays=letter.replays,
            died_at=letter.died_at,
            sent_again=place in self.replayed,
            superseded=place in self.superseded,
        )


def _record_of(letter: DeadLetter) -> tuple[Place, Timestamp]:
    """Return which record a dead letter is of; a topic that was recreated has the same places again."""
    return place_of(letter), letter.timestamp


def name_of(place: Letter) -> str:
    """Return the place of a dead letter as people read it: partition/offset."""
    return "{}/{}".format(*place)


async def read_letters(settings: Settings, *, values_of: Callable[[str], bool] = lambda _: True) -> Letters:
    """Read all dead letters.

    values_of: whether the value of the letter of a name is kept. The others omit theirs: those of a flood of large
    documents that were rejected would not fit into memory.
    """
    by_place, replayed, superseded = dict[Letter, DeadLetter](), set[Letter](), set[Letter]()
    cipher = cipher_of(settings.encryption)
    async with Reader(settings.kafka, topics_of(settings).dead_letters.name, start="earliest") as reader:
        async for stored in reader.until_end():
            if (note := settled_by(stored)) is not None:
                place, is_superseded = note
                (superseded if is_superseded else replayed).add(place)
                continue
            # Somebody may have written something else there, which stops no command.
            with suppress(NotADeadLetter):
                place, letter = (stored.partition, stored.offset), await opened(from_record(stored), cipher)
                by_place[place] = letter if values_of(name_of(place)) else without_value(letter)
    return Letters(by_place=by_place, replayed=replayed, superseded=superseded)


async def replay_letters(
    settings: Settings, letters: Letters, chosen: Mapping[Letter, DeadLetter], *, by: str, again: bool
) -> list[ReplayResult]:
    """Send the records of dead letters again, in order; a record with several dead letters once.

    Those that a later record of their document made void are marked so, and are not open any more.

    by: who does it, for the audit log, which says so before anything is sent. again: also records that were sent
    again before.
    """
    done = (
        set()
        if again
        else {place_of(letter) for place, letter in letters.by_place.items() if place in letters.replayed}
    )
    results = []
    async with open_replaying(settings, list(chosen.values())) as replaying, _audited(settings) as record_replay:
        for place, letter in chosen.items():
            if place_of(letter) in done:
                refusal: Refusal | None = Refusal("its record was sent again already", sent_before=True)
                await replaying.settle(place, superseded=False)
            else:
                await record_replay(place, letter, by)
                refusal = await replaying.replay(place, letter)
            if refusal is None:
                done.add(place_of(letter))
                results.append(ReplayResult(letter=name_of(place), sent=True))
            else:
                results.append(ReplayResult(letter=name_of(place), sent=False, **refusal._asdict()))
    return results


@asynccontextmanager
async def _audited(settings: Settings) -> AsyncIterator[Callable[[Letter, DeadLetter, str], Awaitable[None]]]:
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox) as audit:

        async def record_replay(place: Letter, letter: DeadLetter, by: str) -> None:
            if audit is not None:
                await audit.record(letter_replayed(name_of(place), "/".join(map(str, place_of(letter))), by=by))

        yield record_replay


Parts = Mapping[str, Callable[[bytes], ChunkBatch | ContextualChunkBatch]]
"""Decoders of parts, by name of their topic in the first generation; those of others continue it with a dot."""


class Replaying:
    """Replays dead letters, checked against the documents topic as of opening."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: Topics,
        outbox: Outbox,
        *,
        latest: dict[bytes, Latest],
        parts: Parts,
        there: AbstractSet[str],
    ) -> None:
        self._kafka = kafka
        self._topics = topics
        self._outbox = outbox
        self._latest = latest
        self._parts = parts
        self._there = there

    async def replay(self, place: Letter, letter: DeadLetter) -> Refusal | None:
        """Send the record of a dead letter again and mark it as replayed; return the reason if it is not sent.

        A letter that was superseded is marked as such.
        """
        try:
            refusal = await self._send(letter)
        except Rejected as error:
            return Refusal(str(error))
        # Mark after sending: if marking fails, the record is at worst sent twice.
        if refusal is None or refusal.superseded:
            await self.settle(place, superseded=refusal is not None)
        if refusal is None and letter.topic == self._topics.documents.name and letter.key is not None:
            # The record sent now is the last of its key: any other dead letter of that key is older.
            last = self._latest[letter.key]
            self._latest[letter.key] = replace(last, offset=max(last.offset, letter.offset) + 1)
        return refusal

    async def _send(self, letter: DeadLetter) -> Refusal | None:
        if letter.encrypted:
            return Refusal(letter.message)
        if letter.topic not in self._there:
            # A broker that creates topics by itself would take it, for nobody.
            return Refusal(f"topic {letter.topic} does not exist, or may not be described: was its generation dropped?")
        whole = await self._whole(letter)
        refusal = self._refusal(whole or letter)
        # Compaction removes a record because there is a later one of its document.
        if refusal is not None and refusal.superseded:
            return refusal
        if whole is None:
            record = "/".join(map(str, place_of(letter)))
            return Refusal(f"the letter omits the value, and record {record} is gone")
        if refusal is None:
            await self._outbox.send(replay(whole))
        return refusal

    async def settle(self, place: Letter, *, superseded: bool) -> None:
        """Mark a dead letter as one that needs nothing more."""
        await self._outbox.send(note_settled(place, self._topics.dead_letters.name, superseded=superseded))

    def _refusal(self, letter: DeadLetter) -> Refusal | None:
        if letter.topic == self._topics.documents.name:
            return refusal_of_change(letter, self._latest)
        decode = next((each for name, each in self._parts.items() if f"{letter.topic}.".startswith(f"{name}.")), None)
        if decode is None:
            return None
        try:
            revision: Revision = decode(letter.value or b"").revision
        except UndecodableError as error:
            return Refusal(f"it would fail again: {error}")
        return refusal_of_part(letter, self._latest, revision)

    async def _whole(self, letter: DeadLetter) -> DeadLetter | None:
        """Return a dead letter with what it omits of its record; None if the record is gone."""
        if not letter.omitted:
            return letter
        start = {letter.partition: letter.offset}
        async with Reader(self._kafka, letter.topic, start=start, partition=letter.partition) as reader:
            async for stored in reader.until_end():
                # The first one at or after the place: compaction may have removed the record.
                is_same = stored.offset == letter.offset and omitted_of(stored.value) == letter.omitted
                return replace(letter, key=stored.key, value=stored.value, headers=stored.headers) if is_same else None
        return None


@asynccontextmanager
async def open_replaying(settings: Settings, letters: Sequence[DeadLetter]) -> AsyncIterator[Replaying]:
    """Read the records of the dead letters' documents from the documents topic; open a producer."""
    topics = topics_of(settings)
    async with open_registry(settings) as registry, open_outbox(settings) as (outbox, _):
        if registry is not None:
            await registry.prepare([letter.value for letter in letters])
        keys = {letter.key for letter in letters if letter.key is not None}
        async with Reader(settings.kafka, topics.documents.name, start="earliest", registry=registry) as reader:
            decode = Codec(DocumentChange, registry=registry).decode
            latest = await latest_of(keys, reader.until_end(), decode) if keys else {}
        parts: dict[str, Callable[[bytes], ChunkBatch | ContextualChunkBatch]] = {}
        first = topics_of(settings_named(settings, FIRST_GENERATION))
        for topic in first.chunks.values():
            parts[topic.name] = Codec(ChunkBatch, registry=registry).decode
        for topic in first.contextual_chunks.values():
            parts[topic.name] = Codec(ContextualChunkBatch, registry=registry).decode
        async with Admin(settings.kafka) as admin:
            partitions = await admin.partitions([letter.topic for letter in letters])
        there = {name for name, count in partitions.items() if count}
        yield Replaying(settings.kafka, topics, outbox, latest=latest, parts=parts, there=there)
