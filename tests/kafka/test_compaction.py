"""What the log cleaner leaves of a topic: a stage, a reader and the lag must end where the topic ends."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from freki.infra.kafka import Reader
from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import make_app, on_lost
from freki.infra.settings import KafkaSettings
from freki.streams.deliver.stage import Stage
from tests.integration.stages import Batch, World, a_world, running
from tests.integration.transactions import transaction
from tests.stack import own_topics, running_kafka

PATIENCE_S = 120.0
CLEANING = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1", "log.retention.check.interval.ms": "500"}
SOON = {
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "200",
    "file.delete.delay.ms": "100",
}


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), properties=CLEANING) as node:
        yield KafkaSettings(bootstrap=f"127.0.0.1:{node.port}", partitions=1)


@pytest.fixture
async def world(cleaning: KafkaSettings, tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(own_topics(cleaning), tmp_path) as opened:
        yield opened


async def configure(world: World, config: Mapping[str, str]) -> None:
    def alter() -> None:
        with closing(KafkaAdminClient(bootstrap_servers=world.kafka.bootstrap)) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, world.topics.documents.name, dict(config))])

    await asyncio.to_thread(alter)


async def offsets(world: World) -> list[int]:
    return [record.offset for record in await world.read_all(world.topics.documents)]


async def cleaned(world: World, *, left: int) -> None:
    """Wait until the cleaner has left so many records; the open segment, which it never touches, must be rolled."""
    await configure(world, SOON)
    async with asyncio.timeout(PATIENCE_S):
        while len(await offsets(world)) > left:
            await asyncio.sleep(0.3)
            await world.publish((b"roll", b"x"))


async def consumed(world: World) -> list[str]:
    """Take the topic through a stage until its group has no lag."""
    taken: list[str] = []

    async def handle(batch: Batch) -> None:
        taken.extend(one.value for one in batch)

    async with running(world.stage(handle)), Admin(world.kafka) as admin, asyncio.timeout(PATIENCE_S):
        while True:
            (found,) = await admin.lag(f"{world.kafka.topic_prefix}.stage", [world.topics.documents.name])
            if found.lag == 0 and found.committed == found.end:
                return taken
            await asyncio.sleep(0.2)


async def test_only_the_last_record_of_each_key_is_left_and_all_of_it_is_read(world: World) -> None:
    await world.publish(*((b"%d" % (number % 5), b"%d" % number) for number in range(500)))
    await cleaned(world, left=5 + 3)

    taken = await consumed(world)

    assert {int(value) for value in taken if value != "x"} == set(range(495, 500))


async def test_a_topic_that_ends_in_a_transaction_that_was_aborted_has_no_lag(world: World) -> None:
    await world.publish((b"a", b"1"))
    async with transaction(world.kafka, world.topics.documents.name, b"a", b"2"):
        pass

    assert await consumed(world) == ["1"]
    assert len(await offsets(world)) == 1


async def test_tombstones_go_after_their_time_and_leave_readers_at_the_end(world: World) -> None:
    await world.publish(*((b"%d" % number, b"text") for number in range(20)))
    await world.publish(*((b"%d" % number, None) for number in range(20)))
    await cleaned(world, left=3)

    async with (
        Reader(world.kafka, world.topics.documents.name, start="earliest") as reader,
        asyncio.timeout(PATIENCE_S),
    ):
        left = [record.key async for record in reader.until_end()]

    assert set(left) == {b"roll"}
    # By which `freki verify` tells compaction from records that were deleted.
    assert reader.starts == {0: 0}


async def test_records_that_were_deleted_before_a_group_read_any_are_told_and_those_before_its_first_start_are_not(
    world: World,
) -> None:
    topic, told, read = world.topics.documents.name, list[tuple[str, int, int]](), asyncio.Event()

    async def handle(batch: Batch) -> None:
        assert [one.value for one in batch] == ["kept"]
        read.set()

    def stage() -> Stage:
        app = make_app(world.kafka, f"{world.kafka.topic_prefix}.stage", state_dir=world.state)
        on_lost(app, lambda *lost: told.append(lost))
        return world.of_group(app, handle)

    # Of a compacted topic none may be.
    await configure(world, {"cleanup.policy": "delete"})
    async with Admin(world.kafka) as admin:
        await world.publish((b"a", b"before its time"))
        await admin.delete_records(topic, {0: 1})
        async with running(stage()):
            pass
        await world.publish((b"a", b"lost"), (b"b", b"lost"), (b"c", b"kept"))
        await admin.delete_records(topic, {0: 3})
        async with running(stage()), asyncio.timeout(PATIENCE_S):
            await read.wait()

    assert told == [(topic, 0, 2)]
