import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.streams.deliver import gather
from freki.streams.deliver.gather import Gathering


class Given:
    """Items that arrive when they are put."""

    def __init__(self, *, most: int = 8, wait_s: float = 0.0) -> None:
        self.items: asyncio.Queue[int] = asyncio.Queue()
        self.arriving = Gathering(self._each(), most=most, wait_s=wait_s)

    async def put(self, *items: int) -> None:
        for item in items:
            self.items.put_nowait(item)
            await asyncio.sleep(0)

    async def _each(self) -> AsyncIterator[int]:
        while True:
            yield await self.items.get()


async def first(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


@given(count=st.integers(0, 40), most=st.integers(1, 9), wait_s=st.sampled_from([0.0, 0.001]))
async def test_every_item_is_in_one_batch_in_order_and_no_batch_is_too_large(
    count: int, most: int, wait_s: float
) -> None:
    arriving = Gathering(first(count), most=most, wait_s=wait_s)

    batches = []
    while batch := await arriving.next():
        batches.append(batch)

    assert [item for batch in batches for item in batch] == list(range(count))
    assert all(len(batch) <= most for batch in batches)


async def test_what_arrives_while_a_batch_is_handled_is_one_batch() -> None:
    given_items = Given()
    await given_items.put(0)
    batch = await given_items.arriving.next()
    await given_items.put(1, 2, 3)

    assert (batch, await given_items.arriving.next()) == ([0], [1, 2, 3])


async def test_a_batch_does_not_wait_for_items_that_do_not_come() -> None:
    given_items = Given(wait_s=3600.0)
    await given_items.put(0)

    assert await given_items.arriving.next() == [0]


async def test_items_that_come_shortly_after_another_are_in_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, this is shortly.
    monkeypatch.setattr(gather, "GAP_S", 3600.0)
    given_items = Given(most=3, wait_s=3600.0)
    batch = asyncio.create_task(given_items.arriving.next())

    await given_items.put(0, 1, 2)

    assert await batch == [0, 1, 2]


async def test_nothing_runs_while_nothing_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    given_items = Given(wait_s=0.001)
    batch = asyncio.create_task(given_items.arriving.next())

    monkeypatch.delattr(asyncio.BaseEventLoop, "call_at")
    for _ in range(20):
        await asyncio.sleep(0)
    monkeypatch.undo()

    await given_items.put(1)
    assert await batch == [1]


async def test_an_error_follows_the_items_before_it() -> None:
    async def failing() -> AsyncIterator[int]:
        yield 1
        raise ConnectionError("down")

    arriving = Gathering(failing(), most=8, wait_s=0.0)

    assert await arriving.next() == [1]
    with pytest.raises(ConnectionError, match="down"):
        await arriving.next()


async def test_closed_it_takes_nothing_more() -> None:
    given_items = Given()
    given_items.arriving.close()

    await given_items.put(1, 2)

    assert given_items.items.qsize() == 2
