"""Answer queries from the generation of the index that serves, and change over to another without a pause."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import NamedTuple, Protocol

import structlog

from freki.client.tasks import cancel_and_wait
from freki.schemas import ContextQuery, DocumentQuery
from freki.schemas.backoff import backoff
from freki.schemas.errors import InfraError, Unavailable
from freki.schemas.index import GenerationEntry, offered, serving
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.messages import Received
from freki.streams.observe.outage import OutageLog
from freki.streams.ports import GenerationLog

CHECK_INTERVAL_S = 0.4
"""Interval of looks at the log, in seconds: a switch is seen by every worker within a second."""
RETRY_S = 1.0
"""Wait before a generation that could not be opened is tried again, in seconds; doubles with each failure."""
LONGEST_RETRY_S = 30.0
"""Longest wait, in seconds: each try may load models."""

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


class _Failed(NamedTuple):
    """A generation that could not be opened."""

    tries: int
    again_s: float
    """When it is tried again, by the clock."""


class Serving:
    """Hands each batch to the generation that serves when it arrives, so that every answer is from one generation.

    All generations in the log are kept open, so that a switch takes one look at the log.
    """

    def __init__(
        self, log: GenerationLog, open_generation: Open, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._generations = log
        self._open_generation = open_generation
        self._opened: dict[str, _Opened] = {}
        self._replaced: list[_Opened] = []
        """Opened for settings that their entries do not have any more; closed once nothing is answered from them."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._clock = clock
        self._failed: dict[str, _Failed] = {}
        """By id of the entry: a later one of the generation may have other settings."""
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
        outages = OutageLog("switches of the generation are seen later")
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                await self.look()
            except Unavailable as error:
                outages.failed(error, now=self._current)
            else:
                outages.succeeded()
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
        now_s = self._clock()
        self._failed = {
            entry.entry_id: failed for entry in there.values() if (failed := self._failed.get(entry.entry_id))
        }
        for name, entry in there.items():
            failed = self._failed.get(entry.entry_id)
            is_due = failed is None or now_s >= failed.again_s
            if is_due and name not in self._opening and not self._is_opened(entry):
                self._opening[name] = asyncio.create_task(self._try(entry))

    async def _try(self, entry: GenerationEntry) -> None:
        try:
            await self._open(entry)
        except (InfraError, OSError) as error:
            # Its model or settings may be mended meanwhile; `freki generations switch` tells who lags behind.
            _log.error("a generation cannot be opened", generation=entry.generation, error=str(error))
            self._count_failure(entry)
        except Exception:  # noqa: BLE001 - a bug, or settings of another release; the others go on answering
            _log.exception("a generation cannot be opened", generation=entry.generation)
            self._count_failure(entry)
        finally:
            self._opening.pop(entry.generation, None)

    def _count_failure(self, entry: GenerationEntry) -> None:
        before = self._failed.get(entry.entry_id)
        tries = 1 if before is None else before.tries + 1
        wait_s = backoff(tries, first=RETRY_S, longest=LONGEST_RETRY_S)
        self._failed[entry.entry_id] = _Failed(tries, self._clock() + wait_s)

    async def _open(self, entry: GenerationEntry) -> None:
        async with AsyncExitStack() as closing:
            answering = await closing.enter_async_context(self._open_generation(entry))
            before = self._opened.get(entry.generation)
            if before is not None:
                self._replaced.append(before)
            self._opened[entry.generation] = _Opened(entry, answering, closing.pop_all())
