"""Lock that queries take in the order of their deadlines."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class DeadlineLock:
    """Mutual exclusion, the most urgent first: computations that use all cores gain nothing from running at once."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._taken = False

    @asynccontextmanager
    async def turn(self, ends_at_s: float) -> AsyncIterator[None]:
        """Hold the lock; ends_at_s: when the turn must be over, by a clock that all share."""
        if self._taken:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (ends_at_s, next(self._numbers), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    # The turn was passed to this waiter when it was cancelled.
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
