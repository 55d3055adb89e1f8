"""Batches of what is read in full, such as all documents of the index."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import TypeVar

T = TypeVar("T")


async def batched(items: AsyncIterable[T], size: int) -> AsyncIterator[list[T]]:
    """Yield consecutive lists of `size` items, of which the last may be shorter and none is empty.

    A list that is not full waits for the next item, however long; `deliver.gather` also ends one by time.
    """
    batch: list[T] = []
    async for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
