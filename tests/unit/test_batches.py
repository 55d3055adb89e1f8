"""Items in lists of a size."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from freki.streams.batches import batched


@given(st.lists(st.integers(), max_size=30), st.integers(1, 10))
async def test_the_lists_are_the_items_in_order_and_all_but_the_last_are_full(items: list[int], size: int) -> None:
    async def read() -> AsyncIterator[int]:
        for item in items:
            yield item

    found = [batch async for batch in batched(read(), size)]

    assert [item for batch in found for item in batch] == items
    assert all(len(batch) == size for batch in found[:-1])
    assert all(found)
