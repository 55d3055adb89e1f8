"""Runs the stages of a process until it is stopped, one of them fails, or one stands still."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack

import faust
import structlog

from freki.infra.kafka import crash_of
from freki.schemas.names import Timestamp
from freki.streams.deliver.stage import Stage, StreamEnded
from freki.streams.observe.lag import Backlog

LookBehind = Callable[[faust.App], Awaitable[Backlog | None]]
"""Returns how many records wait in the app's partitions; None where the broker does not say."""

_log = structlog.get_logger(__name__)

_CHECK_S = 0.2
_CHECKS_PER_WATCH = 10
_DRAIN_S = 20.0
"""Time for batches in flight to end when the process has to stop, in seconds."""
_STOP_S = 10.0


class Stalled(RuntimeError):
    """Records wait, and none was finished for too long."""


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
