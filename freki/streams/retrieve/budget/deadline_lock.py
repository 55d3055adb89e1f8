"""Lets queries compute one after the other."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class DeadlineLock:
    """One turn at a time, the most urgent first. What computes on all cores gains nothing from company."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._taken = False

    @asynccontextmanager
    async def turn(self, ends_at_s: float) -> AsyncIterator[None]:
        """Wait for a turn; `ends_at_s`: when it must be over, by a clock that all share."""
        if self._taken:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (ends_at_s, next(self._numbers), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    # It was just given the turn that it does not want any more.
                    self._pass_on()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
