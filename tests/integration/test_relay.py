"""`freki relay` as a process, on the real broker."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from freki.infra.kafka.admin import admin_options
from freki.schemas import Operation
from freki.streams.messages import Outgoing
from tests.integration.commands import Changes, freki, latest, published
from tests.integration.stages import PATIENCE_S, World

COUNT = 300
DOCUMENTS = 20


@pytest.fixture
def foreign(world: World) -> Iterator[str]:
    """Somebody else's topic."""
    name = f"shop-{secrets.token_hex(4)}"
    admin = KafkaAdminClient(**admin_options(world.kafka))
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    yield name
    admin.close()


@asynccontextmanager
async def relaying(world: World, topic: str) -> AsyncIterator[asyncio.subprocess.Process]:
    (world.state / "freki.toml").write_text(
        f"""
        [[relays]]
        topic = "{topic}"
        format = "debezium"
        document_id = "/row/id"
        prefix = "shop/"
        content = "/row/body"
        """
    )
    async with freki(world, "relay", FREKI_INGEST__BATCH_EVENTS="4") as process:
        yield process


def change(number: int) -> Outgoing:
    key = number % DOCUMENTS
    gone = number % 7 == 0
    value = {
        "op": "d" if gone else "u",
        "source": {"connector": "postgresql", "lsn": 1000 + number, "ts_ms": 1_700_000_000_000 + number},
        "before": None,
        "after": None if gone else {"id": key, "body": f"state {number}"},
    }
    return Outgoing(topic="", key=json.dumps({"id": key}).encode(), value=json.dumps(value).encode())


def versions(changes: Changes) -> int:
    return len({one.version for one in changes if one is not None})


async def test_a_relay_that_is_killed_goes_on_without_loss_and_in_order(world: World, foreign: str) -> None:
    sent = [Outgoing(topic=foreign, key=one.key, value=one.value) for one in map(change, range(COUNT))]
    bad = Outgoing(topic=foreign, key=None, value=b'{"op": "t"}')

    async with relaying(world, foreign) as process:
        await world.outbox.send(*sent[: COUNT // 2], bad)
        await published(world, lambda changes: versions(changes) >= COUNT // 10)
        process.kill()
        await process.wait()
    async with relaying(world, foreign):
        await world.outbox.send(*sent[COUNT // 2 :])
        changes = await published(world, lambda changes: versions(changes) == COUNT)
        dead = await world.dead_letters(1)

    assert None not in changes, "a tombstone that is sent again deletes what came after it"
    last = latest(changes)
    assert {one.version - 1000 for one in last.values()} == set(range(COUNT - DOCUMENTS, COUNT))
    assert all((one.operation is Operation.DELETE) == ((one.version - 1000) % 7 == 0) for one in last.values())
    assert [(letter.stage, letter.error) for letter in dead] == [(f"relay-{foreign}", "InvalidEnvelope")]


async def test_a_topic_that_is_not_there_is_named(world: World) -> None:
    async with relaying(world, "nowhere") as process:
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 2
