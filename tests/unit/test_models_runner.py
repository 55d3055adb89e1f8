import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from freki.infra.models.descriptions import ModelKind
from freki.infra.models.runner import OVERTAKING, QUEUED, Runner
from freki.infra.settings import ModelSettings
from tests.unit.tiny_models import write_hub_files, write_sentence_encoder

WAIT_S = 20.0


@pytest_asyncio.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    """Give a tiny model with two calls at once."""
    write_sentence_encoder(tmp_path)
    write_hub_files(tmp_path)
    settings = ModelSettings(embedder=str(tmp_path), threads=2)
    async with Runner(settings, settings.embedder, ModelKind.EMBEDDER, side_by_side=True) as opened:
        yield opened


async def test_calls_run_side_by_side(runner: Runner) -> None:
    both = threading.Barrier(2)

    await runner.call_each([partial(both.wait, WAIT_S), partial(both.wait, WAIT_S)])

    assert runner.at_once == 2
    assert not both.broken


async def test_an_urgent_call_does_not_wait_for_others(runner: Runner) -> None:
    answered = threading.Event()
    others = [asyncio.create_task(runner.call(answered.wait, WAIT_S)) for _ in range(5)]

    await runner.call_urgently(answered.set)

    assert await asyncio.gather(*others) == [True] * 5


async def test_whoever_has_few_calls_left_waits_for_nobody_who_has_many(runner: Runner) -> None:
    begun: list[str] = []
    held = threading.Event()
    holding = asyncio.create_task(runner.call_each([partial(held.wait, WAIT_S)] * runner.at_once))
    many = asyncio.create_task(runner.call_each([partial(begun.append, "many")] * 1000))
    await _queued()
    few = asyncio.create_task(runner.call_each([partial(begun.append, "few")] * 2))
    await _queued()

    held.set()
    await asyncio.gather(holding, many, few)

    assert begun[:2] == ["few"] * 2


async def _queued() -> None:
    """Let tasks begin that begin tasks."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_whoever_has_many_calls_left_is_not_held_up_by_ever_more_small_work(runner: Runner) -> None:
    begun: list[str] = []
    over = asyncio.Event()

    async def little_by_little() -> None:
        while not over.is_set():
            await runner.call_each([partial(begun.append, "few")])

    little = [asyncio.create_task(little_by_little()) for _ in range(2 * runner.at_once)]
    async with asyncio.timeout(WAIT_S):
        await runner.call_each([partial(begun.append, "many")] * 20)
    over.set()
    await asyncio.gather(*little)

    assert begun.index("many") <= 2 * OVERTAKING * 20


async def test_a_call_that_waits_when_the_model_is_closed_is_cancelled(tmp_path: Path) -> None:
    write_sentence_encoder(tmp_path)
    write_hub_files(tmp_path)
    settings = ModelSettings(embedder=str(tmp_path), threads=1)
    async with Runner(settings, settings.embedder, ModelKind.EMBEDDER) as opened:
        held = threading.Event()
        calls = [asyncio.create_task(opened.call(held.wait, 0.2)) for _ in range(5)]
        await asyncio.sleep(0)

    async with asyncio.timeout(WAIT_S):
        endings = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(endings[-1], asyncio.CancelledError)


async def test_after_an_error_no_further_call_begins(runner: Runner) -> None:
    begun: list[int] = []

    def fail() -> None:
        raise ValueError("fails")

    with pytest.raises(ValueError, match="fails"):
        await runner.call_each([fail, *(partial(begun.append, number) for number in range(1000))])
    await runner.call(begun.append, -1)

    assert len(begun) < 1000
    assert begun.count(-1) == 1


async def test_a_model_without_calls_side_by_side_has_one_at_a_time(tmp_path: Path) -> None:
    write_sentence_encoder(tmp_path)
    write_hub_files(tmp_path)
    settings = ModelSettings(embedder=str(tmp_path), threads=2)
    running: list[int] = []

    def count() -> None:
        running.append(1)
        assert sum(running) == 1
        running.append(-1)

    async with Runner(settings, settings.embedder, ModelKind.EMBEDDER) as alone:
        await alone.call_each([count] * 10 * QUEUED)

    assert sum(running) == 0
