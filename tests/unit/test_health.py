import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

from freki.schemas.errors import Unavailable
from freki.streams.deliver.progress import Progress
from freki.streams.deliver.stage import Stage
from freki.streams.wire.health import Health


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def staged(clock: Clock) -> Stage:
    """Give as much of a stage as health looks at."""
    return cast("Stage", SimpleNamespace(name="embed", progress=Progress(clock), hears_broker=True))


def wrong(found: Any) -> list[str]:
    return [name for name, why in found.items() if why]


async def looked(health: Health, check: Any) -> None:
    """Let health look at the store once."""
    watch = asyncio.create_task(health.watch(check))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch


async def fine() -> None:
    """Answer."""


async def down() -> None:
    raise Unavailable("no answer from http://store")


def test_a_worker_has_started_when_all_is_open_and_its_partitions_are_assigned() -> None:
    health = Health()
    before = wrong(health.checks["startup"]())

    health.opened([staged(Clock())])
    between = wrong(health.checks["startup"]())
    health.joined()

    assert before == ["models and connections", "partitions"]
    assert between == ["partitions"]
    assert wrong(health.checks["startup"]()) == []


async def test_a_store_that_is_down_makes_a_worker_unready_but_not_dead() -> None:
    health = Health()
    health.opened([staged(Clock())])
    health.joined()

    await looked(health, down)
    found = health.checks["ready"]()
    await looked(health, fine)

    assert found["store"] == "no answer from http://store"
    assert wrong(health.checks["live"]()) == []
    assert wrong(health.checks["ready"]()) == []


def test_a_broker_that_does_not_answer_makes_a_worker_unready_but_not_dead() -> None:
    clock = Clock()
    health, stage = Health(), staged(clock)
    health.opened([stage])
    health.joined()

    stage.hears_broker = False
    stage.progress.seen(backlog=True)
    clock.now_s = 100.0
    found = health.checks["ready"]()

    assert "FREKI_KAFKA__BOOTSTRAP" in found["broker"]
    assert wrong(health.checks["live"]()) == []
    stage.hears_broker = True
    stage.progress.seen(backlog=False)
    assert wrong(health.checks["ready"]()) == []


def test_a_stage_that_stands_still_makes_a_worker_dead() -> None:
    clock = Clock()
    health, stage = Health(clock), staged(clock)
    health.opened([stage])
    stage.progress.seen(backlog=True)
    early = wrong(health.checks["live"]())

    clock.now_s = 100.0

    assert early == []
    assert "embed" in health.checks["live"]()["progress"]


async def test_an_event_loop_that_stands_still_makes_a_worker_dead() -> None:
    clock = Clock()
    health = Health(clock)
    await looked(health, fine)

    clock.now_s = 31.0

    assert health.checks["live"]()["event loop"] == "no heartbeat for 31 s"
