"""Execution of a model in threads of its own."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from heapq import heappop, heappush
from itertools import count
from threading import Lock
from typing import Any, ParamSpec, Self, TypeVar

from freki.infra.cores import usable_cores
from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.session import Model, open_model
from freki.infra.settings import ModelSettings

P = ParamSpec("P")
T = TypeVar("T")

QUEUED = 2
"""Calls in flight per thread: a thread goes on with the next one while the event loop is busy."""
OVERTAKING = 4
"""Later calls that a call lets pass at most, for each one that its caller has left."""


class Runner:
    """A model in threads of its own, which do not block the event loop: onnxruntime and tokenizers release the GIL.

    side_by_side: run as many calls at once as the settings give threads, of one thread each, instead of one call of
    all threads. A batch then stays in the cache of a core, and a core that is taken away delays one call only.
    """

    def __init__(self, settings: ModelSettings, chosen: str, kind: ModelKind, *, side_by_side: bool = False) -> None:
        threads = settings.threads or usable_cores()
        self.at_once = threads if side_by_side else 1
        self._open = partial(_obtain_and_open, settings, chosen, kind, threads=threads // self.at_once)
        self._threads = ThreadPoolExecutor(self.at_once, thread_name_prefix=f"freki-{kind}")
        self._waiting = _Waiting(self._threads)
        self._urgent = ThreadPoolExecutor(self.at_once, thread_name_prefix=f"freki-{kind}-urgent")
        self._model: Model | None = None

    async def __aenter__(self) -> Self:
        self._model = await self.call(self._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._model = None
        for threads in (self._threads, self._urgent):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)
        self._waiting.cancel()

    @property
    def model(self) -> Model:
        """The open model."""
        if self._model is None:
            raise RuntimeError("the model is not open: use `async with`")
        return self._model

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread of the model, as soon as one is free."""
        return await self._waiting.run(partial(function, *args, **kwargs), left=1)

    async def call_urgently(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function beside those of `call`, without waiting for them."""
        return await asyncio.get_running_loop().run_in_executor(self._urgent, partial(function, *args, **kwargs))

    async def call_each(self, functions: Sequence[Callable[[], object]], *, urgent: bool = False) -> None:
        """Run functions side by side; whoever has fewest left is served first, so that little work waits for no large.

        Raises the first error, after which those that already run may go on.
        """
        rest = iter(functions)
        left = len(functions)

        async def work() -> None:
            nonlocal left
            for function in rest:
                await (self.call_urgently(function) if urgent else self._waiting.run(function, left=left))
                left -= 1

        works = [asyncio.create_task(work()) for _ in range(QUEUED * self.at_once)]
        try:
            await asyncio.gather(*works)
        finally:
            for each in works:
                each.cancel()


class _Waiting:
    """Functions that wait for a thread, in the order of the work that their callers have left.

    How long they have waited counts too, so that small work, however much comes, holds up large work for a while only.
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._heap: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._lock = Lock()
        self._numbers = count()

    async def run(self, function: Callable[[], T], *, left: int) -> T:
        """Run a function of a caller that has so many left."""
        done: Future[T] = Future()
        with self._lock:
            number = next(self._numbers)
            heappush(self._heap, (number + OVERTAKING * left, number, done, function))
        self._threads.submit(self._run_first)
        return await asyncio.wrap_future(done)

    def cancel(self) -> None:
        """Cancel all that wait: no thread will come."""
        with self._lock:
            waiting, self._heap = self._heap, []
        for _, _, done, _ in waiting:
            done.cancel()

    def _run_first(self) -> None:
        with self._lock:
            _, _, done, function = heappop(self._heap)
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the caller's
            done.set_exception(error)


def _obtain_and_open(settings: ModelSettings, chosen: str, kind: ModelKind, *, threads: int) -> Model:
    return open_model(obtain(settings, chosen, kind), threads=threads, providers=settings.providers)
