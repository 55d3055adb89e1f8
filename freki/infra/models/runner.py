"""Execution of a model in threads of its own."""

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.progress import Progress
from freki.infra.models.session import Model, open_model
from freki.infra.settings import ModelSettings

P = ParamSpec("P")
T = TypeVar("T")

QUEUED = 2
"""Calls in flight per thread: a thread goes on with the next one while the event loop is busy."""


class Runner:
    """A model in threads of its own, which do not block the event loop: onnxruntime and tokenizers release the GIL.

    side_by_side: run as many calls at once as the settings give threads, of one thread each, instead of one call of
    all threads. A batch then stays in the cache of a core, and a core that is taken away delays one call only.
    """

    def __init__(
        self, settings: ModelSettings, chosen: str, kind: ModelKind, progress: Progress, *, side_by_side: bool = False
    ) -> None:
        threads = settings.threads or os.cpu_count() or 1
        self.at_once = threads if side_by_side else 1
        self._open = partial(_obtain_and_open, settings, chosen, kind, progress, threads=threads // self.at_once)
        self._threads = ThreadPoolExecutor(self.at_once, thread_name_prefix=f"freki-{kind}")
        self._urgent = ThreadPoolExecutor(self.at_once, thread_name_prefix=f"freki-{kind}-urgent")
        self._model: Model | None = None

    async def __aenter__(self) -> Self:
        self._model = await self.call(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._model = None
        for threads in (self._threads, self._urgent):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    @property
    def model(self) -> Model:
        """The open model."""
        if self._model is None:
            raise RuntimeError("the model is not open: use `async with`")
        return self._model

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread of the model, after those queued before."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args, **kwargs))

    async def call_urgently(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function beside those of `call`, without waiting for them."""
        return await asyncio.get_running_loop().run_in_executor(self._urgent, partial(function, *args, **kwargs))

    async def call_each(self, functions: Iterable[Callable[[], object]], *, urgent: bool = False) -> None:
        """Run functions side by side; a few are queued at a time, so that those of other callers come between.

        Raises the first error, after which those that already run may go on.
        """
        call = self.call_urgently if urgent else self.call
        rest = iter(functions)

        async def work() -> None:
            for function in rest:
                await call(function)

        works = [asyncio.create_task(work()) for _ in range(QUEUED * self.at_once)]
        try:
            await asyncio.gather(*works)
        finally:
            for each in works:
                each.cancel()


def _obtain_and_open(
    settings: ModelSettings, chosen: str, kind: ModelKind, progress: Progress, *, threads: int
) -> Model:
    return open_model(obtain(settings, chosen, kind, progress), threads=threads, providers=settings.providers)
