import asyncio
from collections.abc import Sequence

from kafka import KafkaProducer

from freki.infra.kafka.admin import Admin
from freki.infra.settings import ClaimSettings, Settings
from freki.operators.errors import OperatorError
from freki.schemas import ContextualChunkBatch, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.streams.deliver.dead_letters import to_record
from freki.streams.deliver.lanes import Lane
from freki.streams.messages import Outgoing
from freki.streams.wire.from_settings import settings_named, topics_of
from freki.streams.wire.operations import Operations
from freki.streams.wire.replaying import name_of, open_replaying, read_letters, replay_letters
from tests.integration.stages import Batch, World, running
from tests.unit.deliveries import dead_letter
from tests.unit.revisions import revision


def change(document: str, version: int, operation: Operation = Operation.UPSERT, *, content: str = "Text") -> bytes:
    return Codec(DocumentChange).encode(
        DocumentChange(
            tenant=TenantId("t"),
            document_id=DocumentId(document),
            operation=operation,
            version=version,
            occurred_at=Timestamp(version),
            content=content if operation is Operation.UPSERT else None,
        )
    )


async def all_bad(_: Batch) -> None:
    raise OperatorError("not yet")


def settings_of(world: World) -> Settings:
    return Settings(kafka=world.kafka, claims=ClaimSettings(inline_bytes=world.kafka.max_message_bytes // 2))


async def replay_all(settings: Settings) -> list[str]:
    """Send what is open; give the reasons against each letter, empty for those that were sent."""
    chosen = (await read_letters(settings)).open_ones()
    async with open_replaying(settings, list(chosen.values())) as replaying:
        refusals = [await replaying.replay(place, one) for place, one in chosen.items()]
    return [refusal.reason if refusal else "" for refusal in refusals]


async def test_a_record_with_a_letter_of_each_lane_is_sent_again_once_and_no_letter_of_it_is_left_out(
    world: World,
) -> None:
    settings = settings_of(world)
    async with running(world.stage(all_bad)):
        await world.publish((b"t/both", change("both", 1)))
        await world.dead_letters(1)
    [record] = await world.read_all(world.topics.dead_letters)
    other = Outgoing(topic=record.topic, key=record.key, value=record.value, headers=record.headers)
    await world.outbox.send(other)

    letters = await read_letters(settings)
    results = await replay_letters(settings, letters, letters.open_ones(), by="op", again=False)

    assert [(each.sent, each.sent_before) for each in results] == [(True, False)]
    assert (await read_letters(settings)).open_ones() == {}


async def test_a_part_of_another_generation_is_sent_only_where_its_topic_is_there_and_no_later_change(
    world: World,
) -> None:
    settings = settings_of(world)
    other = topics_of(settings_named(settings, "g2"))
    await world.publish((b"t/d", change("d", 1)), (b"t/d", change("d", 2)))
    part = Codec(ContextualChunkBatch).encode(revision("d", 1, ["x"])[0])
    there, dropped = other.contextual_chunks[Lane.BULK], other.contextual_chunks[Lane.EXPRESS]
    letters = [dead_letter(key=b"t/d", value=part, topic=topic.name) for topic in (there, dropped)]
    await world.outbox.send(*(to_record(each, world.topics.dead_letters.name) for each in letters))

    async with Admin(settings.kafka) as admin:
        await admin.ensure_topics([there])
        later, gone = await replay_all(settings)
        held = await admin.partitions([letter.topic for letter in letters])

    assert "a later change (version 2)" in later
    assert "does not exist" in gone
    assert list(held.values()) == [there.partitions, 0]


async def test_letters_are_listed_without_their_values_and_one_is_sent_again_with_its_own(world: World) -> None:
    settings, value = settings_of(world), change("d", 1)
    async with running(world.stage(all_bad)):
        await world.publish((b"t/d", value), (b"t/other", change("other", 1)))
        await world.dead_letters(2)

    listed = await read_letters(settings, values_of=lambda _: False)
    name = next(name_of(place) for place, letter in listed.by_place.items() if letter.key == b"t/d")
    results = await Operations(lambda: settings).replay([name], by="op")

    assert [(letter.value, letter.omitted != "") for letter in listed.by_place.values()] == [(None, True)] * 2
    assert [each.sent for each in results] == [True]
    assert (await values(world)).count(value) == 2


async def test_what_an_operator_chose_is_sent_in_the_order_of_the_topic(world: World) -> None:
    settings = settings_of(world)
    letters = [dead_letter(topic=world.topics.queries.name, offset=number) for number in range(2)]
    await world.outbox.send(*(to_record(each, world.topics.dead_letters.name) for each in letters))
    names = [name_of(place) for place in (await read_letters(settings)).by_place]

    results = await Operations(lambda: settings).replay(names[::-1], by="op")

    assert [each.letter for each in results] == names


async def values(world: World) -> Sequence[bytes | None]:
    return [one.value for one in await world.read_all(world.topics.documents)]


async def test_a_letter_is_sent_again_once_and_only_while_it_is_the_last_of_its_document(world: World) -> None:
    settings = settings_of(world)
    alone, old = change("alone", 1), change("old", 1)
    async with running(world.stage(all_bad)):
        await world.publish((b"t/alone", alone), (b"t/old", old))
        await world.dead_letters(2)
    await world.publish((b"t/old", change("old", 2, Operation.DELETE)), (b"t/old", None))

    before = await read_letters(settings)
    results = await replay_letters(settings, before, before.open_ones(), by="op", again=False)
    after = await read_letters(settings)
    held = await values(world)

    assert sorted((each.sent, each.superseded) for each in results) == [(False, True), (True, False)]
    assert "a later deletion (version 2)" in " ".join(each.reason for each in results)
    assert after.open_ones() == {}
    assert (len(after.replayed), len(after.superseded)) == (1, 1)
    assert (held.count(alone), held.count(old)) == (2, 1)


async def test_a_value_that_its_letter_had_no_room_for_is_read_where_it_lies(
    world: World,
) -> None:
    settings = settings_of(world)
    # Small enough for a broker that counts compressed bytes.
    large = change("large", 1, content="x" * 5 * world.kafka.max_message_bytes)
    async with running(world.stage(all_bad)):
        await asyncio.to_thread(send_compressed, world, b"t/large", large)
        [letter] = await world.dead_letters(1)

    first, second = await replay_all(settings), await replay_all(settings)

    assert (letter.value, letter.omitted != "") == (None, True)
    assert ("FREKI_KAFKA__MAX_MESSAGE_BYTES" in first[0], second) == (True, first)


async def test_a_value_that_is_gone_as_a_later_change_replaced_it_leaves_no_letter_open(world: World) -> None:
    settings = settings_of(world)
    await world.publish((b"t/d", change("d", 1)), (b"t/d", change("d", 2)))
    for record in await world.read_all(world.topics.documents):
        letter = dead_letter(
            key=record.key, topic=record.topic, partition=record.partition, offset=record.offset, omitted="other bytes"
        )
        await world.outbox.send(to_record(letter, world.topics.dead_letters.name))

    reasons = await replay_all(settings)

    assert ["a later change (version 2)" in reason for reason in reasons] == [True, False]
    assert "is gone" in reasons[1]
    assert len((await read_letters(settings)).open_ones()) == 1


def send_compressed(world: World, key: bytes, value: bytes) -> None:
    producer = KafkaProducer(
        bootstrap_servers=world.kafka.bootstrap, compression_type="gzip", max_request_size=2 * len(value)
    )
    try:
        producer.send(world.topics.documents.name, key=key, value=value).get(10)
    finally:
        producer.close(1)
