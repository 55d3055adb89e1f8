"""Run the stages of a process until it is stopped, or a stage fails or stalls."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack

import faust
import structlog

from freki.client.tasks import cancel_and_wait
from freki.infra.kafka.app import crash_of, refusal_of
from freki.schemas.errors import Unavailable
from freki.schemas.names import Timestamp
from freki.streams.deliver.stage import Stage, StreamEnded
from freki.streams.observe.lag import Backlog

LookBehind = Callable[[faust.App], Awaitable[Backlog | None]]
"""Returns the records that wait in each of the app's partitions; None if the broker does not answer."""

_log = structlog.get_logger(__name__)

_CHECK_S = 0.2
"""Interval of checks for crashed apps, in seconds."""
_CHECKS_PER_WATCH = 10
"""Crash checks per look at the backlog."""
_DRAIN_S = 20.0
"""Time limit for batches in flight when the process stops, in seconds."""
_STOP_S = 10.0
"""Time limit for an app to stop, in seconds."""
_WITHOUT_BROKER_S = 3.0
"""Time limit for each of both while the broker does not answer: nothing that is finished now could be acknowledged."""
_CANCEL_S = 1.0
"""Time limit for either to end once it is cancelled, in seconds."""


class Stalled(RuntimeError):
    """Records wait, and a stage has finished none for too long."""


async def run_stages(
    stages: Sequence[Stage],
    stop: asyncio.Event,
    *,
    look_behind: LookBehind,
    on_ready: Callable[[], None],
    beside: Collection[asyncio.Task[None]] = (),
) -> None:
    """Run stages in this process until `stop` is set or one of them fails.

    In both cases batches in flight are finished and their offsets committed; uncommitted records are read again by the
    next process. Raises the error of a failed stage, Stalled, or once the broker has not answered for long, Unavailable
    or Misconfigured.

    on_ready: called once all stages have their partitions. beside: background tasks; the stages stop when one ends.
    """
    apps = list(dict.fromkeys(stage.app for stage in stages))
    async with AsyncExitStack() as closing:
        # At once: with several, a broker that does not answer would take the time limit of each.
        closing.push_async_callback(lambda: _all(_within(_limit(stages, _STOP_S), app.stop) for app in apps))
        closing.push_async_callback(
            lambda: _within(_limit(stages, _DRAIN_S), lambda: _all(stage.drain() for stage in stages))
        )
        if await _started(apps, stop):
            on_ready()
            await _first_failure_or_stop(stages, stop, look_behind, beside)


async def _started(apps: Iterable[faust.App], stop: asyncio.Event) -> bool:
    """Start apps, and return whether they have their partitions; False once `stop` is set."""
    # A group may take long to admit a member, and a broker to answer.
    starting = asyncio.create_task(_all(_start(app) for app in apps))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        return starting.done()
    finally:
        await cancel_and_wait([starting, stopped])


async def _start(app: faust.App) -> None:
    app.finalize()
    await app.start()


async def _first_failure_or_stop(
    stages: Sequence[Stage], stop: asyncio.Event, look_behind: LookBehind, beside: Collection[asyncio.Task[None]]
) -> None:
    stopped = asyncio.create_task(stop.wait())
    # One look at the backlog for all lanes of an app.
    apps = dict.fromkeys(stage.app for stage in stages)
    watches = [
        asyncio.create_task(_watch(app, [stage for stage in stages if stage.app is app], look_behind)) for app in apps
    ]
    try:
        done, _ = await asyncio.wait({stopped, *watches, *beside}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel_and_wait([stopped, *watches])


async def _watch(app: faust.App, stages: Sequence[Stage], look_behind: LookBehind) -> None:
    """Raise once the app has crashed, or one of its stages has stalled."""
    while True:
        for _ in range(_CHECKS_PER_WATCH):
            await asyncio.sleep(_CHECK_S)
            if app.crashed:
                raise crash_of(app) or StreamEnded(f"{stages[0].name}: Faust crashed")
        backlog = await look_behind(app)
        for stage in stages:
            await _compare(stage, backlog)


async def _compare(stage: Stage, backlog: Backlog | None) -> None:
    """Report the backlog of an app to one of its stages.

    Raises Stalled if records wait for too long; if the broker does not say so for as long, Unavailable, or
    Misconfigured where it refuses to connect.
    """
    own = None if backlog is None else {place: left for place, left in backlog.items() if place[0] == stage.topic}
    if own is not None:
        stage.lag.seen(own, now=Timestamp(time.time_ns() // 1_000_000))
    stage.hears_broker = own is not None
    stage.progress.seen(backlog=own is None or any(own.values()))
    if not stage.progress.stalled:
        return
    if own is None:
        # Not for Stalled: an outage is no defect of the stage, whose traceback would be looked for.
        raise await refusal_of(stage.app) or Unavailable(
            f"{stage.name}: the broker does not answer, and the stage has finished no record for too long;"
            " is Kafka up at FREKI_KAFKA__BOOTSTRAP?"
        )
    left = ", ".join(f"{number} in {topic}/{place}" for (topic, place), number in own.items() if number)
    raise Stalled(f"{stage.name}: records wait ({left}), but the stage has finished none for too long")


def _limit(stages: Iterable[Stage], limit_s: float) -> float:
    """Return the time limit for a shutdown step, which is short where no stage hears the broker."""
    return limit_s if any(stage.hears_broker for stage in stages) else _WITHOUT_BROKER_S


async def _within(limit_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Run a shutdown step within a time limit; an error loses nothing, because uncommitted records are read again."""
    step = asyncio.ensure_future(work())
    # Not `wait_for`: it also waits without end for a step that does not end when it is cancelled.
    for limit in (limit_s, _CANCEL_S):
        await asyncio.wait({step}, timeout=limit)
        if step.done():
            break
        _log.warning("a shutdown step took too long", limit_s=limit)
        step.cancel()
    if step.done() and not step.cancelled() and (error := step.exception()):
        # It must not mask the reason for the shutdown.
        _log.warning("a shutdown step failed", error=repr(error))


async def _all(awaitables: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*awaitables)
