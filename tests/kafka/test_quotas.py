"""A broker that slows its clients down by quotas: everything arrives, later."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from freki.infra.local import apache_kafka
from freki.infra.settings import KafkaSettings
from tests.integration.stages import Batch, World, a_world, running
from tests.stack import own_topics, running_kafka

SLOW = {"producer_byte_rate": 50_000, "consumer_byte_rate": 50_000, "request_percentage": 50}
"""Bytes a second, and per cent of a thread of the broker."""
RECORD_BYTES = 2_000
RECORDS = 100


@pytest.fixture(scope="module")
def throttling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    # A quota holds over all samples: two of a second each let a test meet it within seconds.
    with running_kafka(
        tmp_path_factory.mktemp("kafka"), properties={"quota.window.num": "2", "quota.window.size.seconds": "1"}
    ) as node:
        yield KafkaSettings(bootstrap=f"127.0.0.1:{node.port}", partitions=1)


@pytest.fixture
async def world(throttling: KafkaSettings, tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(own_topics(throttling), tmp_path) as opened:
        yield opened


def limit_all_clients(kafka: KafkaSettings) -> None:
    done = subprocess.run(
        [
            *("java", "-cp", f"{apache_kafka.libraries()}/*", "kafka.admin.ConfigCommand"),
            *("--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type", "clients", "--entity-default"),
            *("--add-config", ",".join(f"{name}={value}" for name, value in SLOW.items())),
        ],
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_records_pass_a_stage_once_each_though_the_broker_throttles_it(world: World) -> None:
    limit_all_clients(world.kafka)
    texts = [f"{number:06}".ljust(RECORD_BYTES, "x") for number in range(RECORDS)]
    await world.publish(*((b"%d" % number, text.encode()) for number, text in enumerate(texts)))

    async def handle(batch: Batch) -> None:
        await world.forward(batch)

    async with running(world.stage(handle)):
        outputs = await world.outputs(RECORDS)

    assert [record.value for record in outputs] == [text.encode() for text in texts]
    assert await world.read_all(world.topics.dead_letters) == []
