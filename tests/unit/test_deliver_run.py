"""Stopping the stages of a process."""

import asyncio
from typing import cast

import faust
import pytest

from freki.infra.local.specs import WORKER_STOP_TIMEOUT_S
from freki.infra.telemetry import metrics, traces
from freki.streams.deliver import run
from freki.streams.deliver.stage import Stage
from freki.streams.observe.lag import Backlog
from tests.compose import read_compose


class TogetherOnly:
    """An app that ends once the other ones end too."""

    crashed = False

    def __init__(self, together: asyncio.Barrier) -> None:
        self._together = together
        self.stopped = False

    def finalize(self) -> None:
        """There is nothing to finalize."""

    async def start(self) -> None:
        """There is nothing to start."""

    async def stop(self) -> None:
        await self._together.wait()
        self.stopped = True


class NeverStarts(TogetherOnly):
    """An app that waits for a broker that does not answer."""

    async def start(self) -> None:
        await asyncio.Event().wait()


class OfApp:
    """A stage without batches."""

    hears_broker = True

    def __init__(self, app: TogetherOnly) -> None:
        self.app = app

    async def drain(self) -> None:
        """There is nothing in flight."""


class Deaf(OfApp):
    """A stage whose broker is gone, with a batch that it never finishes."""

    hears_broker = False

    async def drain(self) -> None:
        await asyncio.Event().wait()


async def unknown(_: faust.App) -> Backlog | None:
    return None


async def test_the_apps_of_a_process_stop_together() -> None:
    together = asyncio.Barrier(3)
    apps = [TogetherOnly(together) for _ in range(3)]
    stop = asyncio.Event()
    stages = [cast("Stage", OfApp(app)) for app in apps]

    await run.run_stages(stages, stop, look_behind=unknown, on_ready=stop.set)

    assert all(app.stopped for app in apps)


async def test_a_process_that_waits_for_its_partitions_stops_too() -> None:
    app, stop = NeverStarts(asyncio.Barrier(1)), asyncio.Event()
    stop.set()

    async with asyncio.timeout(60):
        await run.run_stages(
            [cast("Stage", OfApp(app))], stop, look_behind=unknown, on_ready=lambda: pytest.fail("it is not ready")
        )

    assert app.stopped


async def test_a_process_without_a_broker_does_not_wait_for_what_nobody_could_acknowledge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_WITHOUT_BROKER_S", 0.0)
    # It stops together with another one, which never comes.
    app, stop = TogetherOnly(asyncio.Barrier(2)), asyncio.Event()

    stopping = asyncio.create_task(
        run.run_stages([cast("Stage", Deaf(app))], stop, look_behind=unknown, on_ready=stop.set)
    )
    async with asyncio.timeout(run._STOP_S):
        await stopping

    assert not app.stopped


def test_a_worker_is_given_the_time_that_it_takes_to_stop() -> None:
    longest_s = run._DRAIN_S + run._STOP_S + metrics._CLOSE_S + traces._CLOSE_S
    services = read_compose({})["services"]
    periods = {service["stop_grace_period"] for service in services.values() if "stop_grace_period" in service}

    assert longest_s < WORKER_STOP_TIMEOUT_S
    assert periods == {f"{WORKER_STOP_TIMEOUT_S:.0f}s"}
