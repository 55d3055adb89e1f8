"""`freki relay` as a process, on the real broker."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from freki.infra.kafka import Reader
from freki.infra.kafka.connection import client_options
from freki.infra.settings import KafkaSettings
from freki.schemas import DocumentChange, Operation
from freki.schemas.avro import Codec
from freki.streams.messages import Outgoing
from tests.integration.stages import PATIENCE_S, World, a_world

COUNT = 300
DOCUMENTS = 20


@pytest.fixture
async def world(kafka: KafkaSettings, tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(kafka, tmp_path) as opened:
        yield opened


@pytest.fixture
def foreign(world: World) -> Iterator[str]:
    """Somebody else's topic."""
    name = f"shop-{secrets.token_hex(4)}"
    admin = KafkaAdminClient(**client_options(world.kafka))
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
    kafka = world.kafka
    environment = {
        **os.environ,
        "FREKI_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "FREKI_KAFKA__PROFILE": kafka.profile,
        "FREKI_KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
        "FREKI_INGEST__BATCH_EVENTS": "4",
        "FREKI_LOCAL__STATE_DIR": str(world.state),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki.streams", "relay"), cwd=world.state, env=environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


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


async def published(world: World, until: int) -> list[DocumentChange]:
    """Read changes until all with these versions have come."""
    codec = Codec(DocumentChange)
    changes: list[DocumentChange] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        Reader(world.kafka, world.topics.documents.name, start="earliest") as reader,
    ):
        async for record in reader:
            assert record.value is not None, "a tombstone that is sent again deletes what came after it"
            changes.append(codec.decode(record.value))
            if len({one.version for one in changes}) == until:
                return changes
    raise AssertionError


async def test_a_relay_that_is_killed_goes_on_without_loss_and_in_order(world: World, foreign: str) -> None:
    sent = [Outgoing(topic=foreign, key=one.key, value=one.value) for one in map(change, range(COUNT))]
    bad = Outgoing(topic=foreign, key=None, value=b'{"op": "t"}')

    async with relaying(world, foreign) as process:
        await world.outbox.send(*sent[: COUNT // 2], bad)
        await published(world, COUNT // 10)
        process.kill()
        await process.wait()
    async with relaying(world, foreign):
        await world.outbox.send(*sent[COUNT // 2 :])
        changes = await published(world, COUNT)
        dead = await world.dead_letters(1)

    last: dict[str, DocumentChange] = {}
    for one in changes:
        if one.document_id not in last or one.version > last[one.document_id].version:
            last[one.document_id] = one
    assert {one.version - 1000 for one in last.values()} == set(range(COUNT - DOCUMENTS, COUNT))
    assert all((one.operation is Operation.DELETE) == ((one.version - 1000) % 7 == 0) for one in last.values())
    assert [(letter.stage, letter.error) for letter in dead] == [(f"relay-{foreign}", "InvalidEnvelope")]


async def test_a_topic_that_is_not_there_is_named(world: World) -> None:
    async with relaying(world, "nowhere") as process:
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 1
