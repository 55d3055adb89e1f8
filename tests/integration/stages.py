"""Stages that run in the test, on the real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import faust
from opentelemetry.trace import NoOpTracer

from freki.infra.kafka import KafkaProducer, Reader, Record
from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import look_behind, make_app
from freki.infra.settings import KafkaSettings
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue
from freki.streams.deliver.dead_letters import DeadLetter, from_record
from freki.streams.deliver.delivery import Delivery, Handle
from freki.streams.deliver.intake import Intake, required
from freki.streams.deliver.lanes import Lane
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.retry import Backoff, Retry
from freki.streams.deliver.run import run_stages
from freki.streams.deliver.stage import Batching, Stage, register
from freki.streams.messages import Outgoing, Received
from freki.streams.topics import Topic, Topics

TRACER = NoOpTracer()
PATIENCE_S = 120.0

Batch = Sequence[Received[str]]


@dataclass(frozen=True, kw_only=True)
class World:
    """Topics of a test's own on the real broker, and a directory."""

    kafka: KafkaSettings
    topics: Topics
    outbox: Outbox
    state: Path

    def stage(self, handle: Handle[str]) -> Stage:
        """Take the topic `documents` through a handler."""
        return self._stage(self._app(), "stage", self.topics.documents, handle)

    def of_group(self, app: faust.App, handle: Handle[str]) -> Stage:
        """Take the topic `documents` through a handler, in the group of an app."""
        return self._stage(app, app.conf.id, self.topics.documents, handle)

    def lanes(self, handle: Handle[str]) -> list[Stage]:
        """Take the topics `chunks` of all lanes through a handler, as one member of one group."""
        app = self._app()
        return [self._stage(app, lane, topic, handle) for lane, topic in self.topics.chunks.items()]

    def _app(self) -> faust.App:
        return make_app(self.kafka, f"{self.kafka.topic_prefix}.stage", state_dir=self.state)

    def _stage(self, app: faust.App, name: str, topic: Topic, handle: Handle[str]) -> Stage:
        delivery = Delivery(
            name,
            intake=Intake(required(bytes.decode)),
            handle=handle,
            dead_letters=DeadLetterQueue(self.outbox, self.topics.dead_letters.name),
            tracer=TRACER,
            retry=Retry(name, backoff=Backoff(attempts=3, first_s=0.01)),
        )
        return register(app, topic.name, delivery, Batching(records=8, wait_s=0.02))

    async def publish(self, *pairs: tuple[bytes | None, bytes | None]) -> None:
        """Send keys and values to `documents`."""
        await self.outbox.send(
            *(Outgoing(topic=self.topics.documents.name, key=key, value=value) for key, value in pairs)
        )

    async def forward(self, batch: Batch, topic: Topic | None = None) -> None:
        """Send what was received on to a topic, `chunks` if none is named."""
        sink = (topic or self.topics.chunks[Lane.REGULAR]).name
        await self.outbox.send(*(Outgoing(topic=sink, key=one.key, value=one.value.encode()) for one in batch))

    async def outputs(self, count: int, topic: Topic | None = None) -> list[Record]:
        """Read that topic until so many different values have come; some may have come twice."""
        source = (topic or self.topics.chunks[Lane.REGULAR]).name
        return await _read_until(self.kafka, source, lambda records: len({record.value for record in records}) == count)

    async def dead_letters(self, count: int) -> list[DeadLetter]:
        """Read `dead-letters` until there were so many."""
        records = await _read_until(self.kafka, self.topics.dead_letters.name, lambda records: len(records) == count)
        return [from_record(record) for record in records]

    async def read_all(self, topic: Topic) -> list[Record]:
        """Read what a topic holds."""
        async with Reader(self.kafka, topic.name, start="earliest") as reader:
            return [record async for record in reader.until_end()]


@asynccontextmanager
async def a_world(kafka: KafkaSettings, state: Path) -> AsyncIterator[World]:
    """Create the topics, and open what a stage needs."""
    topics = Topics.from_settings(
        prefix=kafka.topic_prefix,
        version=kafka.topic_version,
        partitions=kafka.partitions,
        replication=kafka.replication,
        max_message_bytes=kafka.max_message_bytes,
    )
    async with Admin(kafka) as admin:
        await admin.ensure_topics(tuple(topics))
    async with KafkaProducer(kafka) as producer:
        yield World(kafka=kafka, topics=topics, outbox=Outbox(producer, TRACER), state=state)


@asynccontextmanager
async def running(*stages: Stage, beside: Sequence[asyncio.Task[None]] = ()) -> AsyncIterator[asyncio.Task[None]]:
    """Run stages until the end of the block; yields once they have their partitions."""
    stop, ready = asyncio.Event(), asyncio.Event()
    run = asyncio.create_task(run_stages(stages, stop, look_behind=look_behind, on_ready=ready.set, beside=beside))
    is_ready = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({run, is_ready}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        yield run
    finally:
        is_ready.cancel()
        stop.set()
        await asyncio.wait({run}, timeout=PATIENCE_S)
        # Also where the block failed: it may have failed because the run did.
        run.result()


async def _read_until(kafka: KafkaSettings, topic: str, enough: Callable[[list[Record]], bool]) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(PATIENCE_S), Reader(kafka, topic, start="earliest") as reader:
        async for record in reader:
            records.append(record)
            if enough(records):
                return records
    raise AssertionError("the reader ended")
