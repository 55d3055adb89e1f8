"""What a worker reads beside its stages, on the real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from freki.infra.kafka import Reader
from freki.infra.settings import ClaimSettings, Settings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.deliver.retry import Backoff
from freki.streams.messages import Outgoing
from freki.streams.observe.meters import Meters
from freki.streams.topics import Topic
from freki.streams.wire.background import follow
from freki.streams.wire.parts import Parts
from tests.integration.stages import PATIENCE_S, TRACER, World, running


@asynccontextmanager
async def following(world: World, topic: Topic, *failures: Exception) -> AsyncIterator[asyncio.Task[None]]:
    """Run a stage, and beside it read a topic: a record brings the failures, one after the other, then it is read."""
    left, read = list(failures), asyncio.Event()

    async def take(reader: Reader) -> None:
        async for _ in reader:
            if left:
                raise left.pop(0)
            read.set()

    await world.outbox.send(Outgoing(topic=world.topics.judgements.name, key=b"k", value=b"v"))
    async with Parts(
        Settings(kafka=world.kafka, claims=ClaimSettings(inline_bytes=10_000)), TRACER, Meters(), Calls()
    ) as parts:
        parts.background.spawn(follow(world.kafka, topic.name, "earliest", take))
        async with running(world.stage(world.forward), beside=parts.background.tasks) as run:
            is_read = asyncio.create_task(read.wait())
            await asyncio.wait({run, is_read}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            is_read.cancel()
            yield run


async def ended(world: World, topic: Topic, *failures: Exception) -> None:
    async with following(world, topic, *failures) as run:
        assert run.done()


@pytest.mark.parametrize("failure", [LookupError("nobody expected it"), Misconfigured("it may not be read")])
async def test_one_that_fails_ends_the_worker(world: World, failure: Exception) -> None:
    with pytest.raises(type(failure), match=str(failure)):
        await ended(world, world.topics.judgements, failure)


async def test_a_topic_that_is_missing_ends_the_worker_and_is_named(world: World) -> None:
    with pytest.raises(Misconfigured, match="topic nowhere does not exist"):
        await ended(world, replace(world.topics.judgements, name="nowhere"))


async def test_an_outage_that_lasts_ends_the_worker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.streams.wire.background.Backoff", partial(Backoff, attempts=2, first_s=0.01))

    with pytest.raises(Unavailable, match="still"):
        await ended(world, world.topics.judgements, Unavailable("for a moment"), Unavailable("still"))


async def test_after_a_short_outage_the_topic_is_read_again(world: World) -> None:
    async with following(world, world.topics.judgements, Unavailable("for a moment")) as run:
        assert not run.done()
