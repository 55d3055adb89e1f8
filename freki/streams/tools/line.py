"""A connection for questions that come now and then, over days."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Protocol, Self

from freki.schemas import ContextQuery, ContextResult


class Asks(Protocol):
    """Gives a question its answer."""

    async def ask(self, query: ContextQuery, *, patience_s: float) -> ContextResult:
        """Return the answer. Raises TimeoutError where none comes in time."""


class _Connection:
    """One asker; it closes once nobody asks by it and nobody will."""

    def __init__(self, asker: Asks, closing: AsyncExitStack) -> None:
        self.asker = asker
        self.closing = closing
        self.users = 0


class Line:
    """Opens a connection for the first question, and another one for the next after one broke.

    So it can be there before a broker is, and outlives it. Questions share a connection.
    """

    def __init__(
        self, opened: Callable[[], AbstractAsyncContextManager[Asks]], *, failures: tuple[type[Exception], ...]
    ) -> None:
        self._opened = opened
        self._failures: tuple[type[Exception], ...] = (*failures, TimeoutError)
        self._current: _Connection | None = None
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None:
            self._close(self._current)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def ask(self, query: ContextQuery, *, patience_s: float) -> ContextResult:
        """Return the answer. Raises what opening and asking raise; the next question finds another connection then."""
        connection = await self._connected()
        connection.users += 1
        try:
            return await connection.asker.ask(query, patience_s=patience_s)
        except self._failures:
            if self._current is connection:
                self._current = None
            raise
        finally:
            connection.users -= 1
            if connection is not self._current and not connection.users:
                self._close(connection)

    async def _connected(self) -> _Connection:
        async with self._opening:
            if self._current is None:
                async with AsyncExitStack() as opening:
                    asker = await opening.enter_async_context(self._opened())
                    self._current = _Connection(asker, opening.pop_all())
            return self._current

    def _close(self, connection: _Connection) -> None:
        """Begin to close: nobody waits for it, since a broker that is gone makes that long."""
        closing = asyncio.create_task(connection.closing.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closed)

    def _closed(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        # Who asked knows already that the connection broke.
        _ = closing.cancelled() or closing.exception()
