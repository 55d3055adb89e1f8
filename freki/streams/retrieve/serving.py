"""Answer queries from the generation of the index that serves, and change over to another without a pause."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from typing import Protocol

import structlog

from freki.client.tasks import cancel_and_wait
from freki.schemas import ContextQuery, DocumentQuery
from freki.schemas.errors import InfraError, Unavailable
from freki.schemas.index import GenerationEntry, offered, serving
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.messages import Received
from freki.streams.ports import GenerationLog

LOOK_S = 0.4
"""Interval of looks at the log, in seconds: a switch is seen by every worker within a second."""
RETRY_S = 30.0
"""Wait before a generation that could not be opened is tried again, in seconds."""

_log = structlog.get_logger(__name__)


class Answering(Protocol):
    """Answers batches of queries from one generation."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is answered outside of `handle`."""

    async def handle(self, batch: Sequence[Received[ContextQuery]]) -> None:
        """Answer a batch."""

    async def report(self, batch: Sequence[Received[DocumentQuery]]) -> None:
        """Answer a batch of document queries."""

    async def give_up(self, letter: DeadLetter, received: Received[ContextQuery] | None) -> None:
        """Tell who asked that a query became a dead letter."""

    def check(self) -> None:
        """Raise the error of a background task that failed."""


Open = Callable[[GenerationEntry], AbstractAsyncContextManager[Answering]]


class _Opened:
    """A generation that is ready to answer."""

    def __init__(self, entry: GenerationEntry, answering: Answering, closing: AsyncExitStack) -> None:
        self.made_for = entry.settings
        self.answering = answering
        self.closing = closing
        self.batches = 0

    @property
    def is_idle(self) -> bool:
        return not self.batches and self.answering.is_idle


class Serving:
    """Hands each batch to the generation that serves when it arrives, so that every answer is from one generation.

    All generations in the log are kept open, so that a switch takes one look at the log.
    """

    def __init__(self, log: GenerationLog, open_generation: Open) -> None:
        self._generations = log
        self._open_generation = open_generation
        self._opened: dict[str, _Opened] = {}
        self._replaced: list[_Opened] = []
        """Opened for settings that their entries do not have any more; closed once nothing is answered from them."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, float] = {}
        self._current = ""

    @property
    def generation(self) -> str:
        """Name of the generation that serves."""
        return self._current

    async def start(self, first: GenerationEntry) -> None:
        """Open the generation that serves, `first` where none has served yet, and those that are offered."""
        if serving(await self._generations.entries()) is None:
            await self._generations.append(first)
        tried: set[str] = set()
        while True:
            # Opening loads models: another generation may serve by now.
            entries = await self._generations.entries()
            there, entry = offered(entries), serving(entries) or first
            if entry.generation not in self._opened:
                await self._open(entry)
            elif further := there.keys() - self._opened.keys() - tried:
                tried |= further
                await asyncio.gather(*(self._try(there[name]) for name in further))
            else:
                self._current = entry.generation
                return

    async def aclose(self) -> None:
        """Close all generations."""
        await cancel_and_wait(self._opening.values())
        self._replaced += self._opened.values()
        self._opened.clear()
        while self._replaced:
            await self._replaced.pop().closing.aclose()

    async def handle(self, batch: Sequence[Received[ContextQuery]]) -> None:
        """Answer a batch."""
        with self._in_use() as answering:
            await answering.handle(batch)

    async def report(self, batch: Sequence[Received[DocumentQuery]]) -> None:
        """Answer a batch of document queries."""
        with self._in_use() as answering:
            await answering.report(batch)

    async def give_up(self, letter: DeadLetter, received: Received[ContextQuery] | None) -> None:
        """Tell who asked that a query became a dead letter."""
        with self._in_use() as answering:
            await answering.give_up(letter, received)

    @contextmanager
    def _in_use(self) -> Iterator[Answering]:
        """Keep the generation that serves open for a batch."""
        opened = self._opened[self._current]
        opened.batches += 1
        try:
            yield opened.answering
        finally:
            opened.batches -= 1

    async def follow(self) -> None:
        """Follow the log: open what is offered, change over to what serves, close what was dropped."""
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(Unavailable):
                await self.look()
            for opened in self._opened.values():
                opened.answering.check()

    async def look(self) -> None:
        """Look at the log once."""
        entries = await self._generations.entries()
        there, last = offered(entries), serving(entries)
        # At first, and to its end: what is still being opened may create collections that are dropped next.
        await cancel_and_wait([self._opening.pop(name) for name in self._opening.keys() - there.keys()])
        self._open_missing(there)
        if last is not None and last.generation != self._current and self._is_opened(there[last.generation]):
            _log.info("answering from another generation", before=self._current, now=last.generation)
            self._current = last.generation
        for name in self._opened.keys() - there.keys() - {self._current}:
            self._replaced.append(self._opened.pop(name))
        for opened in [each for each in self._replaced if each.is_idle]:
            self._replaced.remove(opened)
            await opened.closing.aclose()

    def _is_opened(self, entry: GenerationEntry) -> bool:
        """Return whether a generation is open, and not one of its name that was dropped and made for other settings."""
        opened = self._opened.get(entry.generation)
        return opened is not None and opened.made_for == entry.settings

    def _open_missing(self, there: Mapping[str, GenerationEntry]) -> None:
        now_s = asyncio.get_running_loop().time()
        for name, entry in there.items():
            if name not in self._opening and not self._is_opened(entry) and now_s >= self._failed.get(name, 0.0):
                self._opening[name] = asyncio.create_task(self._try(entry))

    async def _try(self, entry: GenerationEntry) -> None:
        try:
            await self._open(entry)
        except (InfraError, OSError) as error:
            # Its model or settings may be mended meanwhile; `freki generations switch` tells who lags behind.
            _log.error("a generation cannot be opened", generation=entry.generation, error=str(error))
            self._failed[entry.generation] = asyncio.get_running_loop().time() + RETRY_S
        finally:
            self._opening.pop(entry.generation, None)

    async def _open(self, entry: GenerationEntry) -> None:
        async with AsyncExitStack() as closing:
            answering = await closing.enter_async_context(self._open_generation(entry))
            before = self._opened.get(entry.generation)
            if before is not None:
                self._replaced.append(before)
            self._opened[entry.generation] = _Opened(entry, answering, closing.pop_all())
