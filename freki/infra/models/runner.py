"""Execution of a model in its own thread."""

import asyncio
from collections.abc import Callable
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


class Runner:
    """A model in its own thread, which does not block the event loop: onnxruntime releases the GIL."""

    def __init__(self, settings: ModelSettings, chosen: str, kind: ModelKind, progress: Progress) -> None:
        self._open = partial(_obtain_and_open, settings, chosen, kind, progress)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"freki-{kind}")
        self._model: Model | None = None

    async def __aenter__(self) -> Self:
        self._model = await self.call(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._model = None
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    @property
    def model(self) -> Model:
        """The open model."""
        if self._model is None:
            raise RuntimeError("the model is not open: use `async with`")
        return self._model

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the thread of the model, after those queued before."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(function, *args, **kwargs))


def _obtain_and_open(settings: ModelSettings, chosen: str, kind: ModelKind, progress: Progress) -> Model:
    return open_model(obtain(settings, chosen, kind, progress), threads=settings.threads)
