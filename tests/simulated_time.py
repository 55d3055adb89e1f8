"""An event loop whose time passes only while all wait, so that deadlines do not depend on the speed of a machine."""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from itertools import count
from typing import Any, ParamSpec

P = ParamSpec("P")

_BEGAN_NS = time.time_ns()


class SimulatedTimeLoop(asyncio.SelectorEventLoop):
    """A loop that computes in no time, and skips what is waited for. Not for threads: they would take hours."""

    def __init__(self) -> None:
        """Begin at time 0."""
        self._selector_of_time = _SkippingSelector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        """Return the simulated time, in seconds."""
        return self._selector_of_time.now_s


class _SkippingSelector(selectors.DefaultSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        ready = super().select(0)
        if not ready:
            self.now_s += max(timeout, 0)
        return ready


def time_ns() -> int:
    """Return the time, in nanoseconds since 1970, in the running loop if its time is simulated."""
    loop = asyncio._get_running_loop()  # None without one
    if isinstance(loop, SimulatedTimeLoop):
        return _BEGAN_NS + round(loop.time() * 1e9)
    return time.time_ns()


def clock_of_quick_machine() -> Callable[[], int]:
    """Return a clock for durations, in nanoseconds: that of the running loop if its time is simulated.

    Otherwise a microsecond passes with each look: what is done once more where a step took long never is by chance.
    """
    if isinstance(asyncio._get_running_loop(), SimulatedTimeLoop):
        return time_ns
    ticks = count(time.time_ns(), 1_000)
    return lambda: next(ticks)


def in_simulated_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in a loop with simulated time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=SimulatedTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
