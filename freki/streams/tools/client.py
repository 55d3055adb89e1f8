"""A client for queries that come now and then, over days."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self

from freki.schemas import ContextQuery, ContextResult, TenantId
from freki.schemas.avro import UndecodableError
from freki.schemas.errors import InfraError
from freki.streams.ports import QueryClient


class _Connection:
    """One client; it is closed once nobody uses it and nobody will."""

    def __init__(self, client: QueryClient, closing: AsyncExitStack) -> None:
        self.client = client
        self.closing = closing
        self.users = 0


class ClientsByTenant:
    """A client for each tenant that asks, where tenants have topics of their own for answers."""

    def __init__(self, connect: Callable[[TenantId], AbstractAsyncContextManager[QueryClient]]) -> None:
        self._connect = connect
        self._clients: dict[TenantId, ReconnectingClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(client.__aexit__(kind, error, trace) for client in self._clients.values()))

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Return the result, as the client of the tenant does."""
        if query.tenant not in self._clients:
            self._clients[query.tenant] = ReconnectingClient(partial(self._connect, query.tenant))
        return await self._clients[query.tenant].ask(query, patience_s=patience_s, token=token)


class ReconnectingClient:
    """Connects at the first query, and again at the next query after a failure. Queries share a connection.

    So the client can be opened before the broker is up, and survives its outages.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[QueryClient]]) -> None:
        self._connect = connect
        self._current: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None:
            self._close(self._current)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Return the result. Raises failures of connecting and asking; the next query gets another connection then."""
        connection = await self._connected()
        connection.users += 1
        try:
            return await connection.client.ask(query, patience_s=patience_s, token=token)
        except (InfraError, TimeoutError, UndecodableError):
            if self._current is connection:
                self._current = None
            raise
        finally:
            connection.users -= 1
            if connection is not self._current and not connection.users:
                self._close(connection)

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._current is None:
                async with AsyncExitStack() as opening:
                    client = await opening.enter_async_context(self._connect())
                    self._current = _Connection(client, opening.pop_all())
            return self._current

    def _close(self, connection: _Connection) -> None:
        """Close in the background: with a broker that is gone, closing takes long."""
        closing = asyncio.create_task(connection.closing.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closed)

    def _closed(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        # The failure was raised to the query already.
        _ = closing.cancelled() or closing.exception()
