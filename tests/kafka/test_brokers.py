"""A stage between two topics on three brokers, of which one is killed, cut off, stopped or full: nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from freki.client import Broker, Client, Unavailable
from freki.infra.kafka import KafkaProducer
from freki.infra.kafka.admin import Admin
from freki.infra.settings import KafkaSettings
from tests.chaos.brokers import BrokerFault, BrokerKind, strike
from tests.cluster import Cluster, can_mount, cluster
from tests.integration.stages import World, a_world, running
from tests.stack import own_topics

SMALL_DISK = 3
LASTS_S = 3.0
PAUSE_S = 0.02
PATIENCE_S = 120.0


@pytest_asyncio.fixture(scope="module")
async def brokers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    small = SMALL_DISK if can_mount() else 0
    async with cluster(tmp_path_factory.mktemp("brokers"), small_disk=small) as running_cluster:
        yield running_cluster


@pytest.fixture
async def world(brokers: Cluster, tmp_path: Path) -> AsyncIterator[World]:
    settings: KafkaSettings = own_topics(brokers.settings).model_copy(update={"partitions": 3})
    async with a_world(settings, tmp_path) as opened:
        await brokers.healthy()
        yield opened


@pytest.mark.parametrize("kind", list(BrokerKind))
async def test_nothing_is_lost_and_keys_stay_in_order(brokers: Cluster, world: World, kind: BrokerKind) -> None:
    if kind is BrokerKind.FILL and not can_mount():
        pytest.skip("this user may not mount a small disk")
    fault = BrokerFault(kind=kind, broker=SMALL_DISK, partition=0, wait_s=0, lasts_s=LASTS_S)
    group, topic = f"{world.kafka.topic_prefix}.stage", world.topics.documents.name

    async with running(world.stage(world.forward)):
        striking = asyncio.create_task(strike(brokers, fault, topic=topic, group=group))
        sent = 0
        while not striking.done() or sent < 100:
            await world.publish(*((b"%d" % key, b"%d" % (sent + key)) for key in range(5)))
            sent += 5
            await asyncio.sleep(PAUSE_S)
        await striking
        async with asyncio.timeout(PATIENCE_S):
            outputs = await world.outputs(sent)

    for key in range(5):
        values = list(dict.fromkeys(int(one.value or b"") for one in outputs if one.key == b"%d" % key))
        assert values == list(range(key, sent, 5))


async def test_records_wait_while_too_few_replicas_are_in_sync(brokers: Cluster, world: World) -> None:
    await brokers.kill(1)
    await brokers.kill(2)
    publishing = asyncio.create_task(world.publish(*((b"%d" % key, b"kept") for key in range(6))))
    await asyncio.sleep(LASTS_S)
    assert not publishing.done()
    await asyncio.gather(brokers.start(1), brokers.start(2))
    await brokers.healthy()
    await publishing

    assert len(await world.read_all(world.topics.documents)) == 6


async def test_offsets_are_read_from_the_broker_that_coordinates_a_group_now(brokers: Cluster, world: World) -> None:
    group = f"{world.kafka.topic_prefix}.idle"
    async with Admin(brokers.settings) as admin:
        await admin.check_group(group)
        former = await brokers.coordinator(group)
        await brokers.stop(former)
        try:
            assert await admin.committed(group) == {}
        finally:
            await brokers.start(former)
            await brokers.healthy()


@pytest.fixture
async def client(brokers: Cluster, world: World) -> AsyncIterator[Client]:
    """One that has sent a record and reads receipts: it knows who leads the partitions."""
    async with Admin(brokers.settings) as admin:
        await admin.ensure_topics([world.topics.documents, world.topics.outcomes])
    broker = Broker(bootstrap=world.kafka.bootstrap, prefix=world.kafka.topic_prefix, timeout_s=1.0)
    async with Client(broker) as opened:
        await opened.publish("a", "before", principals=["everyone"])
        yield opened


async def test_a_client_tells_of_brokers_that_are_away(brokers: Cluster, client: Client) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with cut_off(brokers), pytest.raises(Unavailable, match="is Kafka up"):
            await client.publish("a", "meanwhile", principals=["everyone"])
        published = await client.publish("a", "after", principals=["everyone"])

    assert published.change.content == "after"


async def test_a_client_closes_though_brokers_are_away(brokers: Cluster, client: Client) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with cut_off(brokers):
            with pytest.raises(Unavailable):
                await client.publish("a", "meanwhile", principals=["everyone"])
            await client.__aexit__()

    assert tasks_of_clients() == set()


async def test_a_producer_of_a_worker_closes_though_brokers_are_away(brokers: Cluster, world: World) -> None:
    async with Admin(brokers.settings) as admin:
        await admin.ensure_topics([world.topics.documents])
    before = tasks_of_clients()
    async with asyncio.timeout(PATIENCE_S):
        async with KafkaProducer(world.kafka) as producer:
            await (await producer.send(world.topics.documents.name, key=b"a", value=b"before"))
            with cut_off(brokers):
                sending = await producer.send(world.topics.documents.name, key=b"a", value=b"meanwhile")
                await producer.__aexit__()
        await asyncio.wait({sending}, timeout=0)

    assert not sending.done() or sending.exception() is not None
    sending.cancel()
    assert tasks_of_clients() == before


def tasks_of_clients() -> set[asyncio.Task[object]]:
    """Return the tasks of aiokafka that have not ended."""
    return {task for task in asyncio.all_tasks() if "aiokafka" in repr(task.get_coro())}


@contextmanager
def cut_off(brokers: Cluster) -> Iterator[None]:
    """Let nothing pass between brokers and clients."""
    doors = [broker.door for broker in brokers.brokers.values()]
    for door in doors:
        door.open.clear()
    try:
        yield
    finally:
        for door in doors:
            door.open.set()
