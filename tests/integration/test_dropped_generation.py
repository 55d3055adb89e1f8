"""A generation is not dropped under the workers that fill it, on the real broker."""

import asyncio
import sys

import pytest

from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import make_app
from freki.infra.settings import ClaimSettings, Settings
from freki.schemas.errors import Rejected
from freki.streams.wire.from_settings import group_of, settings_named
from freki.streams.wire.generations import read_again
from freki.streams.wire.provision import apply_topics
from tests.integration.stages import PATIENCE_S, World, running


@pytest.mark.parametrize("stage", ["chunk", "chunk-express", "embed"])
async def test_a_worker_that_fills_a_generation_is_named_until_it_ends(world: World, stage: str) -> None:
    claims = ClaimSettings(inline_bytes=world.kafka.max_message_bytes // 2)
    filled, other = (settings_named(Settings(kafka=world.kafka, claims=claims), name) for name in ("g2", "g3"))
    await apply_topics(filled)
    group = group_of(filled, stage)

    # It has read nothing yet.
    async with running(world.of_group(make_app(world.kafka, group, state_dir=world.state), world.forward)):
        with pytest.raises(Rejected, match=f"{group} has members: end the worker"):
            await read_again(filled)
        await read_again(other)
    await read_again(filled)


async def test_a_worker_that_was_killed_counts_until_another_has_ended(world: World) -> None:
    group, topic = f"{world.kafka.topic_prefix}.stage", world.topics.documents.name
    await world.publish((b"k", b"v"))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.dying_worker", world.kafka.model_dump_json(), str(world.state)
    )
    await asyncio.wait_for(worker.wait(), PATIENCE_S)

    async with Admin(world.kafka) as admin:
        with pytest.raises(Rejected, match=f"{group} has members: .* killed"):
            await admin.rewind(group, [topic])
        async with running(world.stage(world.forward)):
            await world.outputs(2)
        await admin.rewind(group, [topic])

        assert await admin.committed(group) == {
            (topic, number): 0 for number in range(world.topics.documents.partitions)
        }
