"""Short functions that run as a batch in a thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.streams.ingest.short_calls import ShortCalls


class Thread:
    """Functions that note their order; one of them blocks the thread."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def block(self) -> str:
        self.begun.set()
        assert self.may_end.wait(60)
        return self.note("block")

    def note(self, name: str) -> str:
        self.ran.append(name)
        return name


async def test_each_caller_gets_its_result_or_its_error() -> None:
    calls = ShortCalls(100)

    functions = (lambda: 1, lambda: 1 // 0, lambda: 3)
    results = await asyncio.gather(*(calls.run(each, weight=1) for each in functions), return_exceptions=True)

    assert results[0] == 1
    assert isinstance(results[1], ZeroDivisionError)
    assert results[2] == 3


async def test_functions_run_in_another_thread() -> None:
    assert await ShortCalls(100).run(threading.get_ident, weight=1) != threading.get_ident()


@given(weights=st.lists(st.integers(0, 12), max_size=20), most=st.integers(0, 10))
async def test_functions_run_in_order_whatever_they_weigh(weights: list[int], most: int) -> None:
    calls = ShortCalls(most)
    seen: list[int] = []

    def function(index: int) -> int:
        seen.append(index)
        return index

    results = await asyncio.gather(*(calls.run(partial(function, i), weight=w) for i, w in enumerate(weights)))

    assert list(results) == seen == list(range(len(weights)))


@pytest.mark.parametrize(("most", "together"), [(10, True), (9, False)])
async def test_results_come_after_all_functions_of_a_batch_whose_weight_is_limited(
    most: int, *, together: bool
) -> None:
    calls, thread = ShortCalls(most), Thread()
    first = asyncio.create_task(calls.run(partial(thread.note, "a"), weight=5))
    second = asyncio.create_task(calls.run(thread.block, weight=5))

    await asyncio.to_thread(thread.begun.wait, 60)
    await asyncio.sleep(0.05)

    assert first.done() is not together
    thread.may_end.set()
    assert [await first, await second] == ["a", "block"]


async def test_what_comes_while_the_thread_is_busy_waits_for_it() -> None:
    calls, thread = ShortCalls(100), Thread()
    first = asyncio.create_task(calls.run(thread.block, weight=1))
    await asyncio.to_thread(thread.begun.wait, 60)
    others = [asyncio.create_task(calls.run(partial(thread.note, name), weight=1)) for name in "ab"]
    await asyncio.sleep(0.05)
    assert thread.ran == []

    thread.may_end.set()

    await asyncio.gather(first, *others)
    assert thread.ran == ["block", "a", "b"]


async def test_a_cancelled_call_does_not_run_and_harms_no_other() -> None:
    calls, thread = ShortCalls(100), Thread()
    first = asyncio.create_task(calls.run(thread.block, weight=1))
    await asyncio.to_thread(thread.begun.wait, 60)
    second, third = (asyncio.create_task(calls.run(partial(thread.note, name), weight=1)) for name in "ab")
    await asyncio.sleep(0)

    first.cancel()
    second.cancel()
    await asyncio.sleep(0)
    thread.may_end.set()

    assert await third == "b"
    assert thread.ran == ["block", "b"]
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(asyncio.CancelledError):
        await second


def test_calls_fail_where_no_thread_can_be_had() -> None:
    async def without_threads() -> list[type]:
        calls = ShortCalls(1)
        await asyncio.get_running_loop().shutdown_default_executor()
        async with asyncio.timeout(60):
            results = await asyncio.gather(*(calls.run(lambda: 1, weight=1) for _ in range(3)), return_exceptions=True)
        return [type(result) for result in results]

    # In a loop of its own: others need their threads.
    with ThreadPoolExecutor(1) as apart:
        assert apart.submit(asyncio.run, without_threads()).result() == [RuntimeError] * 3
