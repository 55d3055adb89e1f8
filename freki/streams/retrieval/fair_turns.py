"""Lets queries compute one after the other, and shares out the time that they have."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class FairTurns:
    """One turn at a time, the most urgent first. What computes on all cores gains nothing from company."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._taken = False

    @asynccontextmanager
    async def turn(self, ends_at_s: float) -> AsyncIterator[None]:
        """Wait for a turn; `ends_at_s`: when it must be over, by the clock that `share_s` is asked by."""
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

    def share_s(self, ends_at_s: float, now_s: float) -> float:
        """Seconds that one whose turn it is may take, so that those who wait have as much, and all end in time.

        The least of what each who waits allows: the time until its end, divided by those who end no later and itself.
        """
        ends = sorted([ends_at_s, *(end for end, _, turn in self._waiting if not turn.done())])
        first = ends.index(ends_at_s)
        return min((end - now_s) / (place + 1) for place, end in enumerate(ends) if place >= first)

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
