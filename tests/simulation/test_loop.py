import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from tests.simulation.loop import Deadlock, Process, SimulatedLoop, Style


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(Random(1))  # noqa: S311 - its seed is the point
    yield loop
    loop.dispose()


def order_of(seed: int, style: Style) -> list[str]:
    loop, order = SimulatedLoop(Random(seed), style=style), list[str]()  # noqa: S311 - its seed is the point

    async def count(name: str) -> None:
        for number in range(5):
            order.append(f"{name}{number}")
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(loop.begin(Process(name), count(name)) for name in "ab"))

    loop.run_until_complete(main())
    loop.dispose()
    return order


@pytest.mark.parametrize("style", Style)
def test_a_seed_decides_the_order_of_processes(style: Style) -> None:
    orders = {tuple(order_of(seed, style)) for seed in range(20)}

    assert len(orders) > 3
    assert orders == {tuple(order_of(seed, style)) for seed in range(20)}


@pytest.mark.parametrize("style", Style)
def test_within_a_process_what_waits_longest_comes_first(style: Style) -> None:
    for seed in range(20):
        order = order_of(seed, style)

        assert [each for each in order if each[0] == "a"] == [f"a{number}" for number in range(5)]


def test_time_jumps_to_the_next_timer(loop: SimulatedLoop) -> None:
    loop.run_until_complete(asyncio.sleep(3600))

    assert loop.time() == 3600


def test_timers_go_off_in_the_order_of_their_times(loop: SimulatedLoop) -> None:
    woken: list[int] = []

    async def wake(second: int) -> None:
        await asyncio.sleep(second)
        woken.append(second)

    async def main() -> None:
        await asyncio.gather(*map(wake, (3, 1, 2)))

    loop.run_until_complete(main())

    assert woken == [1, 2, 3]


def test_a_paused_process_goes_on_where_it_was(loop: SimulatedLoop) -> None:
    process, seen = Process("p"), list[float]()

    async def tick() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def main() -> None:
        task = loop.begin(process, tick())
        await asyncio.sleep(1.5)
        loop.pause(process)
        await asyncio.sleep(10)
        loop.resume(process)
        await task

    loop.run_until_complete(main())

    assert seen == [1, 11.5, 12.5]


def test_a_crashed_process_does_nothing_any_more_not_even_clean_up(loop: SimulatedLoop) -> None:
    process, seen = Process("p"), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(2)
            seen.append("worked")
        finally:
            seen.append("cleaned up")

    async def main() -> None:
        loop.begin(process, work())
        await asyncio.sleep(1)
        loop.crash(process)
        await asyncio.sleep(10)

    loop.run_until_complete(main())

    assert seen == []


def test_threads_are_steps(loop: SimulatedLoop) -> None:
    assert loop.run_until_complete(asyncio.to_thread(lambda: 42)) == 42
    assert 0 < loop.time() < 1


def test_what_can_never_end_is_noticed(loop: SimulatedLoop) -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        loop.run_until_complete(main())
