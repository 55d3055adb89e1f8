"""Joins a delivery to Faust, runs the stages of a process, and notices when one stands still."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import faust
import structlog
from faust.types import EventT, Message, StreamT
from mode.supervisors import CrashingSupervisor

from freki.infra.kafka import crash_of, holds, on_lost, on_revoked
from freki.schemas.names import Timestamp
from freki.streams.deliver.delivery import Delivery
from freki.streams.deliver.messages import Headers
from freki.streams.observe.lag import Backlog, Lag
from freki.streams.observe.meters import Meters, Standing

LookBehind = Callable[[faust.App], Awaitable[Backlog | None]]
"""Tells how many records wait in the app's partitions; None where the broker does not say."""

_log = structlog.get_logger(__name__)

_STALLED_S = 60.0
"""With records waiting and no batch at hand. Nothing takes that long but a rebalance of many workers."""
_BUSY_S = 3600.0
"""With a batch at hand: 32 events may mean thousands of calls of a language model."""
_CHECK_S = 0.2
_CHECKS_PER_WATCH = 10
_DRAIN_S = 20.0
"""How long a batch at hand may take to end when the process has to stop."""
_STOP_S = 10.0
_CANCEL_S = 1.0
"""How long a batch that is given up may take to end: it only waits for records that are on their way to the broker."""


class StreamEnded(RuntimeError):
    """Faust ended a stream by itself: the stage would look healthy and do nothing."""


class Stalled(RuntimeError):
    """Records wait, and none was finished for too long."""


class Progress:
    """Tells a stage that stands still from one that works or has nothing to do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._begun: list[float] = []
        self._waits = False

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Take a batch; others may be at hand at the same time."""
        begun = self._clock()
        self._begun.append(begun)
        try:
            yield
        finally:
            self._begun.remove(begun)
            self._since = self._clock()

    def seen(self, *, backlog: bool) -> None:
        """Note whether records wait: without any, standing still is fine."""
        self._waits = backlog
        if not backlog and not self._begun:
            self._since = self._clock()

    @property
    def idle_s(self) -> float:
        """Seconds that the oldest batch is at hand; where there is none, that records have waited; else 0."""
        if self._begun:
            return self._clock() - self._begun[0]
        return self._clock() - self._since if self._waits else 0.0

    @property
    def stalled(self) -> bool:
        """Has nothing happened for too long, although something waits?"""
        if self._begun:
            return self._clock() - self._begun[0] > _BUSY_S
        return self._clock() - self._since > _STALLED_S


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """A record as Faust read it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Stage:
    """Takes one topic through one delivery, as a consumer group of its own or beside others in one."""

    def __init__(
        self,
        app: faust.App,
        name: str,
        topic: str,
        *,
        meters: Meters,
        holds: Callable[[Message], bool] = lambda _: True,
    ) -> None:
        """Keep what it works with; `holds` tells whether a record is still this process's to finish."""
        self.app = app
        self.name = name
        self.topic = topic
        self.progress = Progress()
        self.lag = Lag()
        self._meters = meters
        self._holds = holds
        self._in_flight: set[asyncio.Task[None]] = set()
        self._given_up: set[asyncio.Task[None]] = set()
        self._leaving = False

    def standing(self, now: Timestamp) -> Standing:
        """Say how far the stage is behind, and whether it moves; in any thread."""
        return Standing(waiting=self.lag.waiting(now), idle_s=self.progress.idle_s)

    async def consume(
        self, stream: StreamT[Any], delivery: Delivery[Any], *, most: int, within_s: float, at_once: int
    ) -> None:
        """Deliver batch after batch, up to `at_once` at a time, and acknowledge each when all of it is done.

        With more than one at a time, records of one key may be done in any order.
        """
        # Faust acknowledges what it drops when a batched stream ends, unless `noack` stands before `noack_take`.
        manual = cast("faust.Stream[EventT[Any]]", cast("faust.Stream[Any]", stream).noack())
        batches = aiter(manual.noack_take(most, within=within_s))
        try:
            async with asyncio.TaskGroup() as group:
                while (events := await self._next(batches, at_once)) is not None:
                    # Records of partitions that were taken away meanwhile come again, here or elsewhere.
                    events = [event for event in events if self._holds(event.message)]
                    if not events:
                        continue
                    task = group.create_task(self._take(manual, events, delivery, most))
                    self._in_flight.add(task)
                    task.add_done_callback(self._ended)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        if not self.app.should_stop:
            raise StreamEnded(f"{self.name}: Faust ended the stream")

    async def _next(self, batches: AsyncIterator[Sequence[EventT[Any]]], at_once: int) -> Sequence[EventT[Any]] | None:
        """Wait for room, then for records: what arrives meanwhile comes as one batch."""
        while len(self._in_flight) >= at_once:
            await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
        events = await anext(batches, None)
        if self._leaving:
            # Not ours any more: they are not acknowledged, so the next process has them.
            await asyncio.Event().wait()
        return events

    async def _take(
        self, stream: faust.Stream[EventT[Any]], events: Sequence[EventT[Any]], delivery: Delivery[Any], most: int
    ) -> None:
        with self.progress.in_flight():
            records = [_event(event.message) for event in events]
            self.lag.reached(((record.topic, record.partition), Timestamp(record.timestamp_ms)) for record in records)
            try:
                with self._timed(len(records), most):
                    await delivery.deliver(records, group=self.app.conf.id)
            except Exception as error:
                if asyncio.current_task() not in self._given_up:
                    raise
                _log.warning("a batch that was given up failed", stage=self.name, error=repr(error))
                return
            for event in events:
                await stream.ack(event)

    @contextmanager
    def _timed(self, records: int, most: int) -> Iterator[None]:
        started, failed = time.perf_counter(), True
        try:
            yield
            failed = False
        finally:
            seconds = time.perf_counter() - started
            self._meters.handled(self.name, records=records, most=most, seconds=seconds, failed=failed)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._given_up.discard(task)

    async def release(self, within_s: float) -> None:
        """Finish the batches at hand; give up those that are not done within some seconds.

        What is given up is not acknowledged. The stage goes on with the batches that come.
        """
        if not self._in_flight:
            return
        _, late = await asyncio.wait(self._in_flight, timeout=within_s)
        if late:
            _log.warning("batches are given up: their partitions move", stage=self.name, batches=len(late))
            self._given_up |= late
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=_CANCEL_S)

    def lost(self, topic: str, partition: int, records: int) -> None:
        """Tell that retention took records before this stage read them, if they are of its topic."""
        if topic == self.topic:
            self._meters.lost(self.name, records)
            _log.error(
                "records were dropped by retention before they were read",
                stage=self.name,
                topic=topic,
                partition=partition,
                records=records,
            )

    async def drain(self) -> None:
        """Wait until the batches at hand are done, and let no other begin."""
        self._leaving = True
        if self._in_flight:
            await asyncio.wait(self._in_flight)


def register(  # noqa: PLR0913 - all but the first three have names
    app: faust.App,
    topic: str,
    delivery: Delivery[Any],
    *,
    batch_events: int,
    batch_wait_s: float,
    at_once: int = 1,
    meters: Meters | None = None,
) -> Stage:
    """Attach the agent that takes a topic through a delivery."""
    stage = Stage(app, delivery.stage, topic, meters=meters or Meters(), holds=partial(holds, app))
    on_revoked(app, stage.release)
    on_lost(app, stage.lost)

    @app.agent(app.topic(topic), name=delivery.stage, supervisor_strategy=CrashingSupervisor)
    async def agent(stream: StreamT[Any]) -> None:
        await stage.consume(stream, delivery, most=batch_events, within_s=batch_wait_s, at_once=at_once)

    return stage


async def run_stages(
    stages: Sequence[Stage],
    stop: asyncio.Event,
    *,
    look_behind: LookBehind,
    on_ready: Callable[[], None],
    beside: Collection[asyncio.Task[None]] = (),
) -> None:
    """Run stages in this process until `stop` is set or one of them fails; `on_ready`: all have their partitions.

    In both cases the batches at hand are finished and their offsets committed. Raises what a stage failed with, or
    Stalled; what is not committed is read again by the next process. beside: what else the process does all the time;
    where that ends the stages do too.
    """
    apps = list(dict.fromkeys(stage.app for stage in stages))
    async with AsyncExitStack() as closing:
        for app in apps:
            closing.push_async_callback(_within, _STOP_S, app.stop)
        closing.push_async_callback(_within, _DRAIN_S, lambda: _all(stage.drain() for stage in stages))
        await _all(_start(app) for app in apps)
        on_ready()
        await _first_failure_or_stop(stages, stop, look_behind, beside)


async def _start(app: faust.App) -> None:
    app.finalize()
    await app.start()


async def _first_failure_or_stop(
    stages: Sequence[Stage], stop: asyncio.Event, look_behind: LookBehind, beside: Collection[asyncio.Task[None]]
) -> None:
    stopped = asyncio.create_task(stop.wait())
    watches = [asyncio.create_task(_watch(stage, look_behind)) for stage in stages]
    try:
        done, _ = await asyncio.wait({stopped, *watches, *beside}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (stopped, *watches):
            task.cancel()
        await asyncio.gather(stopped, *watches, return_exceptions=True)


async def _watch(stage: Stage, look_behind: LookBehind) -> None:
    """Raise as soon as the stage has failed or stands still."""
    while True:
        for _ in range(_CHECKS_PER_WATCH):
            await asyncio.sleep(_CHECK_S)
            if stage.app.crashed:
                raise crash_of(stage.app) or StreamEnded(f"{stage.name}: Faust crashed")
        backlog = await look_behind(stage.app)
        if backlog is not None:
            backlog = {place: records for place, records in backlog.items() if place[0] == stage.topic}
            stage.lag.seen(backlog, now=Timestamp(time.time_ns() // 1_000_000))
        stage.progress.seen(backlog=backlog is None or any(backlog.values()))
        if stage.progress.stalled:
            raise Stalled(f"{stage.name}: records wait, and none was finished for too long")


async def _within(limit_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Try to leave in order, for so long. Where that fails nothing is lost: it is done again."""
    try:
        await asyncio.wait_for(work(), limit_s)
    except Exception as error:  # noqa: BLE001 - it must not hide why the stages stop
        _log.warning("could not leave in order", error=repr(error))


async def _all(works: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*works)


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


def _milliseconds(seconds: float | None) -> int:
    """Give a record's time as Kafka does, -1 where it has none; through Faust's seconds it may leave the 64 bits."""
    return -1 if seconds is None else min(max(round(seconds * 1000), -(2**63)), 2**63 - 1)
