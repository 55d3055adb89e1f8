"""Run stages in this process, with telemetry and health checks."""

import asyncio
from collections.abc import Callable, Collection

from threadpoolctl import threadpool_limits

from freki.infra.kafka.app import look_behind
from freki.infra.ready_file import write_ready_file
from freki.infra.settings import Settings
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.endpoint import serving
from freki.infra.telemetry.logs import set_up_logging
from freki.infra.telemetry.metrics import metering
from freki.infra.telemetry.traces import tracing
from freki.streams.app import make_stages
from freki.streams.deliver.run import run_stages
from freki.streams.observe.meters import Meters
from freki.streams.wire import garbage
from freki.streams.wire.from_settings import ERASE, wall_clock
from freki.streams.wire.health import Health
from freki.streams.wire.parts import Parts
from freki.streams.wire.reload import Reloader, SettingsSource, telemetry_by

_UNUSED = frozenset({"tenant", "crawl", "mcp", "serve", "relays"})
"""Sections of the settings that no worker reads."""


def sections_of(names: Collection[str]) -> set[str]:
    """Name the sections of the settings that a worker of these stages reads."""
    return Settings.model_fields.keys() - _UNUSED - (set() if ERASE in names else {"retention"})


async def run_worker(
    settings: Settings,
    names: Collection[str],
    stop: asyncio.Event,
    *,
    source: SettingsSource | None = None,
    on_hangup: Callable[[Callable[[], None]], None] = lambda _: None,
) -> None:
    """Run stages until `stop` is set; write the ready file, for a supervisor, once they have their partitions.

    source: where changed settings are read from while the stages run; None: they stay as they are. on_hangup: is given
    what to call when they shall be read at once.
    """
    component, health = "-".join(names), Health()
    # Products of small matrices gain nothing by threads, and waiting threads of BLAS take cores from store and model:
    # on a busy machine with two cores that was half of the latency of a query.
    threadpool_limits(1, user_api="blas")
    set_up_logging(settings.telemetry)
    with (
        tracing(settings.telemetry, component) as tracer,
        metering(settings.telemetry, component) as (meter, registry),
        serving(settings.telemetry, registry, health.checks) as url,
    ):

        def on_ready() -> None:
            garbage.settle()
            health.joined()
            if settings.ready_file is not None:
                write_ready_file(settings.ready_file, url)

        meters = Meters(meter)
        reloader = None if source is None else Reloader(source, settings, meters=meters)
        if reloader is not None:
            # Before all that takes time: without a handler the signal ends a process.
            on_hangup(reloader.ask)
            health.observe_settings(reloader.check)
        async with Parts(settings, tracer, meters, Calls(meter)) as parts:
            stages = await make_stages(parts, names)
            health.opened(stages)
            meters.observe_stages(lambda: {stage.name: stage.backlog(wall_clock()) for stage in stages})
            meters.observe_build_info(lambda: parts.described)
            parts.background.spawn(health.watch(parts.check_store))
            if reloader is not None:
                reloader.reloadable.add(parts.reloadable.prepare)
                reloader.reloadable.add(telemetry_by)
                reloader.record = parts.record_reload
                parts.background.spawn(reloader.follow())
            await run_stages(stages, stop, look_behind=look_behind, on_ready=on_ready, beside=parts.background.tasks)
