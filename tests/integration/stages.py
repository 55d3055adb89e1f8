"""Stages that run in the test, on the real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from opentelemetry.trace import NoOpTracer

from freki.infra.errors import Misconfigured, Rejected, Unavailable
from freki.infra.kafka import Producer, Reader, Record, has_backlog, make_app
from freki.infra.settings import KafkaSettings
from freki.operators.errors import OperatorError
from freki.streams.deliver import Backoff, Delivery, Failures, Handle, required
from freki.streams.messages import Received
from freki.streams.outbox import Outbox
from freki.streams.stage import Stage, register, run_stages
from freki.streams.topics import Topics

TRACER = NoOpTracer()
FAILURES = Failures(stop=(Misconfigured,), retry=(Unavailable,), bury=(OperatorError, Rejected))
PATIENCE_S = 20.0

Batch = Sequence[Received[str]]


def make_stage(kafka: KafkaSettings, topics: Topics, producer: Producer, handle: Handle[str], state: Path) -> Stage:
    """Take the topic `documents` through a handler, under a group of the test's own."""
    delivery = Delivery(
        stage="stage",
        decode=required(bytes.decode),
        handle=handle,
        outbox=Outbox(producer, TRACER),
        dead_letters=topics.dead_letters.name,
        failures=FAILURES,
        tracer=TRACER,
        backoff=Backoff(attempts=3, first_s=0.01),
    )
    app = make_app(kafka, f"{kafka.topic_prefix}.stage", state_dir=state)
    return register(app, topics.documents.name, delivery, batch_events=8, batch_wait_s=0.02)


@asynccontextmanager
async def running(*stages: Stage) -> AsyncIterator[asyncio.Task[None]]:
    """Run stages until the end of the block; yields once they have their partitions."""
    stop, ready = asyncio.Event(), asyncio.Event()
    run = asyncio.create_task(run_stages(stages, stop, has_backlog=has_backlog, on_ready=ready.set))
    is_ready = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({run, is_ready}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        yield run
    finally:
        is_ready.cancel()
        stop.set()
        await asyncio.wait({run}, timeout=PATIENCE_S)
    run.result()


async def read(kafka: KafkaSettings, topic: str, count: int) -> list[Record]:
    """Read a topic from its beginning until it has given so many records."""
    return await _read_until(kafka, topic, lambda records: len(records) == count)


async def read_values(kafka: KafkaSettings, topic: str, count: int) -> list[Record]:
    """Read a topic from its beginning until it has given so many different values."""
    return await _read_until(kafka, topic, lambda records: len({record.value for record in records}) == count)


async def _read_until(kafka: KafkaSettings, topic: str, enough: Callable[[list[Record]], bool]) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(PATIENCE_S), Reader(kafka, topic, start="earliest") as reader:
        async for record in reader:
            records.append(record)
            if enough(records):
                return records
    raise AssertionError("the reader ended")


async def read_all(kafka: KafkaSettings, topic: str) -> list[Record]:
    """Read what a topic holds."""
    async with Reader(kafka, topic, start="earliest") as reader:
        return [record async for record in reader.until_end()]
