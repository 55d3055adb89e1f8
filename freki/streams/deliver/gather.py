"""Batches of what arrives."""

import asyncio
from collections.abc import AsyncIterable
from typing import Generic, TypeVar

T = TypeVar("T")

GAP_S = 0.001
"""A batch ends when nothing has arrived for so many seconds: records of one fetch follow each other faster."""


class Gathering(Generic[T]):
    """Reader of items that arrive one by one, in batches; nothing runs while nothing arrives."""

    def __init__(self, items: AsyncIterable[T], *, most: int, wait_s: float) -> None:
        """Begin to read.

        most: maximum items of a batch, and of those that are taken ahead while the caller has a batch. wait_s: maximum
        seconds from the first item of a batch to its end.
        """
        self._most = most
        self._wait_s = wait_s
        self._arrived: asyncio.Queue[T] = asyncio.Queue(most)
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read(items))
        self._reading.add_done_callback(lambda _: self._changed.set())

    async def next(self) -> list[T] | None:
        """Return the next items, in order; None after the last. Raises their error after the items before it."""
        while self._arrived.empty() and not self._reading.done():
            self._changed.clear()
            await self._changed.wait()
        if self._arrived.empty():
            self._reading.result()
            return None
        await self._fill()
        return [self._arrived.get_nowait() for _ in range(self._arrived.qsize())]

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    async def _read(self, items: AsyncIterable[T]) -> None:
        async for item in items:
            await self._arrived.put(item)
            self._changed.set()

    async def _fill(self) -> None:
        now = asyncio.get_running_loop().time
        ends = now() + self._wait_s
        while self._arrived.qsize() < self._most and not self._reading.done() and (left := ends - now()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(min(GAP_S, left)):
                    await self._changed.wait()
            except TimeoutError:
                return
