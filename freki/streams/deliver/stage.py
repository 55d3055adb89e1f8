"""A stage: the connection of a delivery to a Faust app."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import faust
import structlog
from faust.types import EventT, Message, StreamT
from mode.supervisors import CrashingSupervisor

from freki.infra.kafka.app import holds, on_lost, on_revoked
from freki.schemas.names import Timestamp, record, shown_time
from freki.streams.deliver.delivery import Delivery
from freki.streams.deliver.gather import Gathering
from freki.streams.deliver.progress import Progress
from freki.streams.messages import Headers
from freki.streams.observe.lag import Lag
from freki.streams.observe.meters import Meters, StageBacklog

_log = structlog.get_logger(__name__)

_CANCEL_S = 1.0
"""Time limit for a cancelled batch to end, in seconds: it only waits for records in flight to the broker."""


class StreamEnded(RuntimeError):
    """Faust ended a stream by itself: the stage would seem healthy but process nothing."""


@record
class Batching:
    """Batch sizes and waits of a stage."""

    records: int
    """Maximum records per batch."""
    wait_s: float
    """Maximum wait for a batch to fill, in seconds; it ends earlier when no further record arrives."""
    in_flight: int = 1
    """Maximum batches in flight; with more than one, records of one key may be done in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """An undecoded record read by Faust."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = field(repr=False)


class Stage:
    """Consumer of one topic by one delivery; several stages may share a consumer group."""

    def __init__(
        self,
        app: faust.App,
        name: str,
        topic: str,
        *,
        meters: Meters,
        holds: Callable[[Message], bool] = lambda _: True,
    ) -> None:
        """Create a stage; holds: whether this process still owns the partition of a record."""
        self.app = app
        self.name = name
        self.topic = topic
        self.progress = Progress()
        self.lag = Lag()
        self.hears_broker = True
        """Whether the broker answered when it was last asked what waits."""
        self._meters = meters
        self._holds = holds
        self._in_flight: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._draining = False

    def backlog(self, now: Timestamp) -> StageBacklog:
        """Return lag and idle time of the stage. Thread-safe."""
        return StageBacklog(waiting=self.lag.waiting(now), idle_s=self.progress.idle_s)

    async def consume(self, stream: StreamT[Any], delivery: Delivery[Any], batching: Batching) -> None:
        """Deliver batches, and acknowledge each once all of its records are done."""
        # Without `noack`, Faust acknowledges each event when the next one is taken.
        manual = cast("faust.Stream[EventT[Any]]", cast("faust.Stream[Any]", stream).noack())
        # Faust's own batches wake up once per wait, even if nothing arrives.
        arriving = Gathering(manual.events(), most=batching.records, wait_s=batching.wait_s)
        try:
            async with asyncio.TaskGroup() as group:
                while (events := await self._next(arriving, batching.in_flight)) is not None:
                    # Records of partitions revoked meanwhile are read again by their new owner.
                    events = [event for event in events if self._holds(event.message)]
                    if not events:
                        continue
                    task = group.create_task(self._take(manual, events, delivery, batching.records))
                    self._in_flight.add(task)
                    task.add_done_callback(self._ended)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        finally:
            arriving.close()
        if not self.app.should_stop:
            raise StreamEnded(f"{self.name}: Faust ended the stream")

    async def _next(self, arriving: Gathering[EventT[Any]], max_in_flight: int) -> Sequence[EventT[Any]] | None:
        """Return the next batch once fewer than `max_in_flight` are in flight: records that wait form one batch."""
        while len(self._in_flight) >= max_in_flight:
            await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
        events = await arriving.next()
        if self._draining:
            # Never acknowledged, so the next process reads them.
            await asyncio.Event().wait()
        return events

    async def _take(
        self,
        stream: faust.Stream[EventT[Any]],
        events: Sequence[EventT[Any]],
        delivery: Delivery[Any],
        max_records: int,
    ) -> None:
        with self.progress.in_flight():
            records = [_event(event.message) for event in events]
            self.lag.reached(((record.topic, record.partition), Timestamp(record.timestamp_ms)) for record in records)
            try:
                with self._timed(len(records), max_records):
                    await delivery.deliver(records, group=self.app.conf.id)
            except Exception as error:
                if asyncio.current_task() not in self._cancelled:
                    raise
                _log.warning("a cancelled batch failed", stage=self.name, error=repr(error))
                return
            for event in events:
                await stream.ack(event)

    @contextmanager
    def _timed(self, records: int, max_records: int) -> Iterator[None]:
        started, failed = time.perf_counter(), True
        try:
            yield
            failed = False
        finally:
            seconds = time.perf_counter() - started
            self._meters.record_batch(
                self.name, records=records, max_records=max_records, seconds=seconds, failed=failed
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._cancelled.discard(task)

    async def release(self, within_s: float) -> None:
        """Wait for batches in flight, and cancel those that take longer than `within_s` seconds.

        Cancelled batches are not acknowledged. The stage continues with later batches.
        """
        if not self._in_flight:
            return
        _, late = await asyncio.wait(self._in_flight, timeout=within_s)
        if late:
            _log.warning("batches were cancelled by a rebalance", stage=self.name, batches=len(late))
            self._cancelled |= late
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=_CANCEL_S)

    def lost(self, topic: str, partition: int, records: int) -> None:
        """Report records of this stage's topic that retention dropped before they were read."""
        if topic == self.topic:
            self._meters.count_lost(self.name, records)
            _log.error(
                "records were dropped by retention before they were read",
                stage=self.name,
                topic=topic,
                partition=partition,
                records=records,
            )

    async def drain(self) -> None:
        """Start no further batch, and wait for those in flight."""
        self._draining = True
        if self._in_flight:
            await asyncio.wait(self._in_flight)


def register(
    app: faust.App, topic: str, delivery: Delivery[Any], batching: Batching, *, meters: Meters | None = None
) -> Stage:
    """Register a Faust agent that delivers the records of a topic; return its stage."""
    stage = Stage(app, delivery.stage, topic, meters=meters or Meters(), holds=partial(holds, app))
    on_revoked(app, stage.release)
    on_lost(app, stage.lost)

    @app.agent(app.topic(topic), name=delivery.stage, supervisor_strategy=CrashingSupervisor)
    async def agent(stream: StreamT[Any]) -> None:
        await stage.consume(stream, delivery, batching)

    return stage


def _event(message: Message) -> _Event:
    headers = message.headers or ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return _Event(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=_milliseconds(message.timestamp),
        key=message.key,
        value=message.value,
        headers=tuple((name, value or b"") for name, value in pairs),
    )


def _milliseconds(seconds: float | None) -> Timestamp:
    """Return a record's time in milliseconds; 0 for None."""
    return shown_time(0 if seconds is None else round(seconds * 1000))
