"""Topics that an operator deletes, recreates, enlarges or empties while a stage runs.

All that comes is read; what went before it was read is told.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions

from freki.client.broker import Broker
from freki.client.kafka import Reader as ServiceReader
from freki.infra.kafka import History, Reader
from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import on_lost
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import ClaimSettings, KafkaSettings, MilvusSettings, Settings
from freki.operators.identify import record_key
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.index import Generation
from freki.streams.deliver.lanes import Lane
from freki.streams.deliver.stage import Stage
from freki.streams.messages import Outgoing
from freki.streams.wire.erasing.places import Places
from freki.streams.wire.overview import _lag_of
from freki.streams.wire.topic_records import ending_nulls
from tests.integration.stages import PATIENCE_S, Batch, World, a_world, running
from tests.memory_index import MemoryIndex
from tests.stack import own_topics, running_kafka

BEFORE = 20
LARGE = 400_000
LITTLE = 3_000
"""Bytes that a stage holds before it fetches no more: a few small records, or a large one."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as node:
        yield KafkaSettings(bootstrap=f"127.0.0.1:{node.port}", partitions=1, max_message_bytes=500_000)


@pytest.fixture
async def world(kafka: KafkaSettings, tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(own_topics(kafka), tmp_path) as opened:
        yield opened


def numbered(first: int, last: int) -> list[tuple[bytes, bytes]]:
    return [(b"%d" % number, b"%d" % number) for number in range(first, last)]


async def until_committed(admin: Admin, stage: Stage, offset: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while list((await admin.committed(stage.app.conf.id)).values()) != [offset]:  # noqa: ASYNC110 - the broker knows
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("more", [5, 2 * BEFORE])
async def test_a_topic_that_is_created_anew_is_read_from_its_beginning(world: World, more: int) -> None:
    stage = world.stage(world.forward)
    async with Admin(world.kafka) as admin, running(stage):
        await world.publish(*numbered(0, BEFORE))
        await world.outputs(BEFORE)
        await admin.delete_topics([world.topics.documents.name])
        await admin.ensure_topics([world.topics.documents])
        await world.publish(*numbered(BEFORE, BEFORE + more))
        await world.outputs(BEFORE + more)
        await until_committed(admin, stage, more)


async def test_a_deleted_topic_is_created_anew_at_once(world: World) -> None:
    name = world.topics.documents.name
    async with Admin(world.kafka) as admin:
        for _ in range(30):
            await admin.delete_topics([name])
            assert await admin.partitions([name]) == {name: 0}
            assert await admin.ensure_topics([world.topics.documents]) == (name,)


# With fewer records than were read of the topic of before, and with more: then its offset is one of the new topic too.
# And where the broker did not tell its id in time when the stage began.
@pytest.mark.parametrize(("more", "is_told"), [(5, True), (2 * BEFORE, True), (2 * BEFORE, False)])
async def test_a_topic_that_is_created_anew_while_a_stage_is_busy_is_read_too(
    world: World, more: int, *, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of which nothing fetches, so that nobody sees that the topic is gone.
    monkeypatch.setattr("freki.infra.kafka.consumer._HELD_BYTES", LITTLE)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(batch: Batch) -> None:
        if batch[-1].offset:
            begun.set()
            await go_on.wait()
        # Of the others only those were read that had been fetched.
        await world.forward([one for one in batch if int(one.value) >= BEFORE])

    stage = world.stage(handle)
    await world.publish(*numbered(0, 1))
    async with Admin(world.kafka) as admin, beginning(stage, is_told=is_told):
        await until_committed(admin, stage, 1)
        await world.publish(*numbered(1, BEFORE))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        await admin.delete_topics([world.topics.documents.name])
        await admin.ensure_topics([world.topics.documents])
        await world.publish(*numbered(BEFORE, BEFORE + more))
        go_on.set()
        await world.outputs(more)


@asynccontextmanager
async def beginning(stage: Stage, *, is_told: bool) -> AsyncIterator[None]:
    """Run a stage that is told no ids of topics until it has begun."""
    with pytest.MonkeyPatch.context() as patch:
        if not is_told:
            patch.setattr("freki.client.topic_ids._ANSWER_S", 0.0)
        async with running(stage):
            patch.undo()
            yield


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_offset_of_a_deleted_topic_that_is_committed_late_does_not_count(
    world: World, *, is_told: bool
) -> None:
    stage, name = world.stage(world.forward), world.topics.documents.name
    place = TopicPartition(name, 0)
    async with Admin(world.kafka) as admin:
        async with running(stage):
            await world.publish(*numbered(0, BEFORE))
            await world.outputs(BEFORE)
            await until_committed(admin, stage, BEFORE)
        async with a_member(world, stage) as late:
            committed = (await late._coordinator.fetch_committed_offsets([place]))[place]
            await admin.delete_topics([name])
            await admin.ensure_topics([world.topics.documents])
            await world.publish(*numbered(BEFORE, 3 * BEFORE))
            await late.commit({place: committed})
        # As before a generation is removed: it commits what is committed.
        await admin.check_idle(stage.app.conf.id, [name])
        async with beginning(world.stage(world.forward), is_told=is_told):
            await world.outputs(3 * BEFORE)


# Tools that copy groups to another cluster, such as MirrorMaker, translate offsets and keep metadata as they are.
@pytest.mark.parametrize("metadata", ["by hand", "00000000-0000-4000-8000-000000000000 in cluster another"])
async def test_an_offset_that_another_tool_committed_counts(world: World, metadata: str) -> None:
    stage = world.stage(world.forward)
    await world.publish(*numbered(0, BEFORE))
    async with a_member(world, stage) as tool:
        await tool.commit({TopicPartition(world.topics.documents.name, 0): (BEFORE - 5, metadata)})
    async with running(stage):
        assert {record.key for record in await world.outputs(5)} == {key for key, _ in numbered(BEFORE - 5, BEFORE)}


@asynccontextmanager
async def a_member(world: World, stage: Stage) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=world.kafka.bootstrap, group_id=stage.app.conf.id, enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([TopicPartition(world.topics.documents.name, 0)])
    try:
        yield consumer
    finally:
        await consumer.stop()


async def test_a_topic_that_comes_back_later_is_read(world: World) -> None:
    stage = world.stage(world.forward)
    async with Admin(world.kafka) as admin, running(stage):
        await world.publish(*numbered(0, BEFORE))
        await world.outputs(BEFORE)
        await admin.delete_topics([world.topics.documents.name])
        async with asyncio.timeout(PATIENCE_S):
            while stage.app.consumer.assignment():  # noqa: ASYNC110 - the group says so
                await asyncio.sleep(0.1)
        await admin.ensure_topics([world.topics.documents])
        await world.publish(*numbered(BEFORE, BEFORE + 5))
        await world.outputs(BEFORE + 5)


async def add_partitions(world: World) -> None:
    def add() -> None:
        with closing(KafkaAdminClient(bootstrap_servers=world.kafka.bootstrap)) as admin:
            admin.create_partitions({world.topics.documents.name: NewPartitions(3)})

    await asyncio.to_thread(add)


async def test_partitions_that_are_added_are_read(world: World) -> None:
    async with running(world.stage(world.forward)):
        await world.publish(*numbered(0, BEFORE))
        await world.outputs(BEFORE)
        await add_partitions(world)
        # The producer of before learns of them as late as the stage did.
        async with a_world(world.kafka, world.state) as later:
            await later.publish(*numbered(BEFORE, 2 * BEFORE))
        await world.outputs(2 * BEFORE)


async def test_an_erasure_sends_null_values_to_partitions_of_which_the_deletion_went_to_another(
    world: World, store: MilvusSettings
) -> None:
    tenant, names = TenantId("hr"), [DocumentId(f"law{number}") for number in range(6)]
    claims = ClaimSettings(inline_bytes=world.kafka.max_message_bytes // 2)
    settings = Settings(kafka=world.kafka, milvus=store, claims=claims)

    def change(name: DocumentId) -> tuple[bytes, bytes]:
        one = DocumentChange(
            tenant=tenant,
            document_id=name,
            operation=Operation.UPSERT,
            version=1,
            occurred_at=Timestamp(1),
            content="text",
        )
        return record_key(tenant, name), Codec(DocumentChange).encode(one)

    await world.publish(*map(change, names))
    await add_partitions(world)
    async with a_world(world.kafka, world.state) as later:
        topic = world.topics.documents.name
        await later.outbox.send(*(Outgoing(topic=topic, key=record_key(tenant, name), value=None) for name in names))
    moved = {record.key for record in await world.read_all(world.topics.documents) if record.partition}
    index = cast("MilvusIndex", MemoryIndex(Generation(name="g1", embedder="e", dim=4, analyser="a")))
    places = Places(settings, index=index, registry=None, outbox=world.outbox, patience_s=1.0)

    async def still_free() -> list[DocumentId]:
        return names

    found = await places.find(tenant, dict.fromkeys(names, 1))
    remains = [each for each in (await places.remove(found, still_free=still_free)).remains if "topic" in each]

    assert 0 < len(moved) < len(names)
    assert all(each["until_ms"] is not None for each in remains)
    assert not (await places.find(tenant, dict.fromkeys(names, 1))).lasts


async def test_what_is_ended_ends_in_each_partition_that_has_a_value_of_its_key(world: World) -> None:
    topic, keys = world.topics.documents.name, [b"%d" % number for number in range(6)]
    settings = Settings(kafka=world.kafka, claims=ClaimSettings(inline_bytes=world.kafka.max_message_bytes // 2))
    await world.publish(*((key, b"old") for key in keys))
    await add_partitions(world)
    async with a_world(world.kafka, world.state) as later:
        await later.publish(*((key, b"new") for key in keys[:4]))
        await later.publish((keys[0], None))
        nulls = await ending_nulls(settings, topic, keys[:5])
        await later.outbox.send(*nulls)

    lasts = {(record.key, record.partition): record.value for record in await world.read_all(world.topics.documents)}
    assert {key for key, _ in lasts} == set(keys)
    assert {key: value for (key, _), value in lasts.items() if value is not None} == {keys[5]: b"old"}
    assert len({partition for _, partition in lasts}) > 1
    assert not await ending_nulls(settings, topic, keys[:5])


def open_reader(world: World) -> Reader:
    return Reader(world.kafka, world.topics.documents.name, start="latest")


def open_reader_of_services(world: World) -> ServiceReader:
    broker = Broker(bootstrap=world.kafka.bootstrap, prefix=world.kafka.topic_prefix)
    return ServiceReader(broker, world.topics.documents.name)


@pytest.mark.parametrize("open_it", [open_reader, open_reader_of_services])
async def test_partitions_that_are_added_are_read_by_readers_that_are_open(
    world: World, open_it: Callable[[World], Reader | ServiceReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.client.kafka.METADATA_AGE_MS", 300)
    monkeypatch.setattr("freki.infra.kafka.reader.METADATA_AGE_MS", 300)
    async with open_it(world) as reader, asyncio.timeout(PATIENCE_S):
        await world.publish(*numbered(0, BEFORE))
        await add_partitions(world)
        async with a_world(world.kafka, world.state) as later:
            await later.publish(*numbered(BEFORE, 2 * BEFORE))

        read: list[tuple[bytes | None, bytes | None]] = []
        async for one in reader:
            read.append((one.key, one.value))
            if len(read) == 2 * BEFORE:
                break

    assert sorted(read) == sorted(numbered(0, 2 * BEFORE))


async def test_records_that_go_while_a_stage_is_behind_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.infra.kafka.consumer._HELD_BYTES", LITTLE)
    topic = world.topics.chunks[Lane.REGULAR]
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    read: list[int] = []
    lost: list[tuple[str, int, int]] = []

    async def handle(batch: Batch) -> None:
        read.extend(one.offset for one in batch)
        begun.set()
        if read[-1] == BEFORE:
            done.set()
        await go_on.wait()

    async def publish(*values: bytes) -> None:
        await world.outbox.send(*(Outgoing(topic=topic.name, key=b"k", value=value) for value in values))

    stage, *_ = world.lanes(handle)
    on_lost(stage.app, lambda *told: lost.append(told))
    # A fetch holds few of them.
    await publish(*[b"x" * LARGE] * BEFORE)
    async with Admin(world.kafka) as admin, running(stage):
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        await admin.delete_records(topic.name, {0: BEFORE})
        await publish(b"last")
        go_on.set()
        await asyncio.wait_for(done.wait(), PATIENCE_S)

    assert lost == [(topic.name, 0, BEFORE - len(read) + 1)]
    async with Reader(world.kafka, topic.name, start="earliest") as reader:
        assert reader.starts == {0: BEFORE}


async def test_records_that_were_removed_are_not_counted(world: World) -> None:
    topic = world.topics.chunks[Lane.REGULAR].name
    await world.outbox.send(*(Outgoing(topic=topic, key=b"k", value=value) for value in (b"a", b"b", b"c")))

    async with Admin(world.kafka) as admin:
        await admin.delete_records(topic, {0: 1})
        shown = _lag_of("contextualise", topic, await admin.lag("nobody", [topic]))
        assert (shown.records, shown.waiting, await admin.held(topic)) == (2, 2, 2)


async def test_a_group_is_rewound_only_once_nothing_reads_as_it(world: World) -> None:
    stage, topic = world.stage(world.forward), world.topics.documents.name
    async with Admin(world.kafka) as admin:
        async with running(stage):
            await world.publish(*numbered(0, BEFORE))
            await world.outputs(BEFORE)
            async with asyncio.timeout(PATIENCE_S):
                while not await admin.committed(stage.app.conf.id):  # noqa: ASYNC110 - the broker knows
                    await asyncio.sleep(0.1)
            with pytest.raises(Rejected, match=f"{stage.app.conf.id} has members: end the worker"):
                await admin.rewind(stage.app.conf.id, [topic])
        await admin.rewind(stage.app.conf.id, [topic])

        assert await admin.committed(stage.app.conf.id) == {(topic, 0): 0}


@pytest.mark.parametrize("open_it", [open_reader, open_reader_of_services])
async def test_a_topic_that_is_created_anew_is_read_from_its_beginning_by_readers_that_are_open(
    world: World, open_it: Callable[[World], Reader | ServiceReader]
) -> None:
    async with Admin(world.kafka) as admin, open_it(world) as reader, asyncio.timeout(PATIENCE_S):
        records = aiter(reader)
        await world.publish(*numbered(0, 1))
        assert (await anext(records)).key == b"0"
        await world.publish(*numbered(1, BEFORE))
        # Nothing of the partition is fetched while these are not taken, so that nobody sees that the topic is gone.
        while not cast("AIOKafkaConsumer", reader._client)._fetcher._records:  # noqa: ASYNC110 - the client tells nobody
            await asyncio.sleep(0.01)
        await admin.delete_topics([world.topics.documents.name])
        await admin.ensure_topics([world.topics.documents])
        await world.publish(*numbered(BEFORE, 4 * BEFORE))

        missing = set(numbered(BEFORE, 4 * BEFORE))
        async for one in records:
            missing.discard((cast("bytes", one.key), cast("bytes", one.value)))
            if not missing:
                break


async def test_a_late_offset_of_a_deleted_topic_is_no_lag(world: World) -> None:
    stage, name = world.stage(world.forward), world.topics.documents.name
    async with Admin(world.kafka) as admin:
        async with running(stage):
            await world.publish(*numbered(0, BEFORE))
            await world.outputs(BEFORE)
            await until_committed(admin, stage, BEFORE)
        async with a_member(world, stage) as late:
            place = TopicPartition(name, 0)
            committed = (await late._coordinator.fetch_committed_offsets([place]))[place]
            await admin.delete_topics([name])
            await admin.ensure_topics([world.topics.documents])
            await world.publish(*numbered(BEFORE, 3 * BEFORE))
            await late.commit({place: committed})
        (lag,) = await admin.lag(stage.app.conf.id, [name])
        assert (lag.lag, lag.committed) == (2 * BEFORE, None)


async def test_what_is_read_to_its_end_is_of_one_topic(world: World) -> None:
    topic = world.topics.documents
    await world.publish(*numbered(0, BEFORE))
    async with (
        Admin(world.kafka) as admin,
        Reader(world.kafka, topic.name, start="earliest") as reader,
        History(world.kafka, topic.name) as history,
    ):
        await admin.delete_topics([topic.name])
        await admin.ensure_topics([topic])
        await world.publish(*numbered(BEFORE, 3 * BEFORE))
        await reader.check()
        with pytest.raises(Unavailable, match="deleted and created again"):
            _ = [one async for one in reader.until_end()]

        async with asyncio.timeout(PATIENCE_S):
            while not history.changes:  # noqa: ASYNC110 - the client looks now and then
                await asyncio.sleep(0.1)
