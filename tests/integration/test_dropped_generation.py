"""A generation is not dropped under the workers that fill it or answer from it, on the real broker and store."""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from opentelemetry.trace import NoOpTracer

from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import make_app
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import ClaimSettings, KafkaSettings, MilvusSettings, Settings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.index import GenerationEntry
from freki.streams.deliver.lanes import Lane
from freki.streams.observe.meters import Meters
from freki.streams.wire.from_settings import group_of, settings_named, topics_of
from freki.streams.wire.generations import read_again, remove_generation
from freki.streams.wire.parts import Parts
from freki.streams.wire.provision import apply_topics
from freki.streams.wire.serving import entry_of, serving_entry
from tests.contract.index_records import GENERATION
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


async def test_where_a_worker_fills_a_generation_no_other_group_of_it_begins_anew(world: World) -> None:
    claims = ClaimSettings(inline_bytes=world.kafka.max_message_bytes // 2)
    filled = settings_named(Settings(kafka=world.kafka, claims=claims), "g2")
    await apply_topics(filled)
    embed, place = group_of(filled, "embed"), TopicPartition(topics_of(filled).contextual_chunks[Lane.REGULAR].name, 0)
    stopped = AIOKafkaConsumer(group_id=embed, enable_auto_commit=False, bootstrap_servers=world.kafka.bootstrap)
    await stopped.start()
    stopped.assign([place])
    await stopped.commit({place: 3})
    await stopped.stop()

    async with running(
        world.of_group(make_app(world.kafka, group_of(filled, "chunk"), state_dir=world.state), world.forward)
    ):
        with pytest.raises(Rejected, match="has members"):
            await read_again(filled)

    async with Admin(world.kafka) as admin:
        assert (await admin.committed(embed))[place.topic, place.partition] == 3
        await read_again(filled)
        assert (await admin.committed(embed))[place.topic, place.partition] == 0


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


@dataclass(frozen=True)
class Other:
    """A generation beside the one that answers."""

    settings: Settings
    log: MilvusGenerations

    async def make(self) -> None:
        await apply_topics(self.settings)
        async with MilvusIndex(self.settings.milvus, replace(GENERATION, name="g2")):
            pass
        await self.log.append(entry_of(self.settings, serves=False))

    async def topics(self) -> set[str]:
        async with Admin(self.settings.kafka) as admin:
            counts = await admin.partitions([topic.name for topic in topics_of(self.settings).own])
        return {name for name, count in counts.items() if count}


@pytest.fixture
async def other(kafka: KafkaSettings, store: MilvusSettings) -> AsyncIterator[Other]:
    milvus = store.model_copy(update={"collection_prefix": f"t{secrets.token_hex(6)}"})
    claims = ClaimSettings(inline_bytes=kafka.max_message_bytes // 2)
    settings = settings_named(Settings(kafka=kafka, milvus=milvus, claims=claims), "g2")
    async with MilvusGenerations(milvus) as log:
        made = Other(settings, log)
        await made.make()
        yield made


async def test_a_generation_that_somebody_switches_to_while_it_is_removed_stays(other: Other) -> None:
    class Raced(MilvusGenerations):
        async def remove(self, entries: Sequence[GenerationEntry]) -> None:
            await super().remove(entries)
            await self.append(serving_entry(entry_of(other.settings, serves=False), None))

    async with Raced(other.settings.milvus) as log:
        with pytest.raises(Rejected, match="g2 was not removed: it answers"):
            await remove_generation(log, other.settings)

    assert set(await other.log.stored()) == {"g2"}
    assert await other.topics()


async def test_a_removal_that_is_interrupted_leaves_no_topics_of_a_generation_that_is_gone(other: Other) -> None:
    class Dying(MilvusGenerations):
        async def drop(self, generation: str) -> None:
            await super().drop(generation)
            raise Unavailable("the last answer of the store was lost")

    async with Dying(other.settings.milvus) as log:
        with pytest.raises(Unavailable):
            await remove_generation(log, other.settings)

    assert not await other.log.stored()
    assert not await other.topics()


async def test_a_worker_that_opens_a_generation_after_its_removal_does_not_bring_it_back(other: Other) -> None:
    await remove_generation(other.log, other.settings)

    async with Parts(settings_named(other.settings, "g1"), NoOpTracer(), Meters(), Calls()) as parts:
        late = await parts.beside(other.settings)
        with pytest.raises(Rejected, match="g2 is not in the store: it was dropped"):
            await late.open_index()
        await late.__aexit__()

    assert not await other.log.stored()
