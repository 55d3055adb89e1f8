"""Short functions in a thread."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Call(NamedTuple):
    function: Callable[[], Any]
    weight: int
    result: asyncio.Future[Any]


class ShortCalls:
    """Runner of short functions in a thread; those that wait when it is free run as one batch, one after the other.

    In a busy process each change of threads waits for the interpreter, by default up to 5 ms: more than such a function
    takes.
    """

    def __init__(self, max_weight: int) -> None:
        """Create a runner for one event loop; max_weight: of a batch; a heavier function is a batch by itself."""
        self._max_weight = max_weight
        self._waiting: deque[_Call] = deque()
        self._running: asyncio.Future[None] | None = None

    async def run(self, function: Callable[[], T], *, weight: int) -> T:
        """Run a function; its weight is a measure of the time that it takes."""
        loop = asyncio.get_running_loop()
        call = _Call(function, weight, loop.create_future())
        self._waiting.append(call)
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        result: T = await call.result
        return result

    async def _run(self) -> None:
        calls: list[_Call] = []
        try:
            while calls := self._next():
                outcomes = await asyncio.to_thread(_run_each, calls)
                for call, (result, error) in zip(calls, outcomes, strict=True):
                    if call.result.done():
                        continue
                    if error is None:
                        call.result.set_result(result)
                    else:
                        call.result.set_exception(error)
        except Exception as failure:  # noqa: BLE001 - such as no threads at the end of the process; callers would wait
            for call in (*calls, *self._waiting):
                if not call.result.done():
                    call.result.set_exception(failure)
            self._waiting.clear()
        finally:
            self._running = None

    def _next(self) -> list[_Call]:
        calls: list[_Call] = []
        weight = 0
        while self._waiting and (not calls or weight + self._waiting[0].weight <= self._max_weight):
            call = self._waiting.popleft()
            if not call.result.cancelled():
                calls.append(call)
                weight += call.weight
        return calls


def _run_each(calls: Sequence[_Call]) -> list[tuple[Any, Exception | None]]:
    """Run functions; return the result or the error of each."""
    return [_outcome(call.function) for call in calls]


def _outcome(function: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - raised where the function was called
        return None, error
