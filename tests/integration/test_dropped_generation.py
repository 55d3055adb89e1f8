"""A generation is not dropped under the workers that fill it, on the real broker."""

import pytest

from freki.infra.kafka.app import make_app
from freki.infra.settings import ClaimSettings, Settings
from freki.schemas.errors import Rejected
from freki.streams.wire.from_settings import group_of, settings_named
from freki.streams.wire.generations import read_again
from freki.streams.wire.provision import apply_topics
from tests.integration.stages import World, running


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
