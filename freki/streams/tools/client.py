"""A client for queries that come now and then, over days."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Self

from freki.client.exchange import NOT_TAKEN, NotSent
from freki.client.tasks import cancel_and_wait
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
        self.answers = 0
        """How many it has given."""


MOST_CLIENTS = 64
"""Clients that stay open beyond their queries: each has two consumers and a producer."""


class ClientsByTenant:
    """A client for each tenant that asks, where tenants have topics of their own for answers.

    Those of the tenants that asked last stay open.
    """

    def __init__(
        self, connect: Callable[[TenantId], AbstractAsyncContextManager[QueryClient]], *, most: int = MOST_CLIENTS
    ) -> None:
        """Create it; most: clients that stay open beyond their queries."""
        self._connect = connect
        self._most = most
        self._clients: OrderedDict[TenantId, ReconnectingClient] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(client.aclose() for client in self._clients.values()), *self._closing)

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Return the result, as the client of the tenant does."""
        if query.tenant not in self._clients:
            self._clients[query.tenant] = ReconnectingClient(partial(self._connect, query.tenant))
        self._clients.move_to_end(query.tenant)
        try:
            return await self._clients[query.tenant].ask(query, patience_s=patience_s, token=token)
        finally:
            self._close_surplus()

    def _close_surplus(self) -> None:
        """Close clients that nobody waits for, those used longest ago first, in the background."""
        surplus = max(0, len(self._clients) - self._most)
        for tenant in [tenant for tenant, client in self._clients.items() if client.is_idle][:surplus]:
            closing = asyncio.create_task(self._clients.pop(tenant).aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class ReconnectingClient:
    """Connects at the first query, and again at the next query after a failure. Queries share a connection.

    So the client can be opened before the broker is up, and survives its outages.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[QueryClient]]) -> None:
        self._connect = connect
        self._current: _Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._asking = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self._asking

    async def aclose(self) -> None:
        """Close the connection. Never raises: failures were raised to the queries already."""
        if self._opening is not None:
            await cancel_and_wait([self._opening])
        if self._current is not None:
            self._close(self._current)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Return the result. Raises failures of connecting and asking; the next query gets another connection then.

        Raises NotSent where connecting takes longer than `patience_s` seconds; it goes on for the next query.
        """
        self._asking += 1
        try:
            return await self._ask(query, patience_s=patience_s, token=token)
        finally:
            self._asking -= 1

    async def _ask(self, query: ContextQuery, *, patience_s: float, token: str | None) -> ContextResult:
        now = asyncio.get_running_loop().time
        ends_s = now() + patience_s
        try:
            async with asyncio.timeout(patience_s):
                connection = await self._connected()
        except TimeoutError as error:
            raise NotSent(NOT_TAKEN) from error
        connection.users += 1
        answers = connection.answers
        try:
            result = await connection.client.ask(query, patience_s=ends_s - now(), token=token)
        except (InfraError, TimeoutError, UndecodableError) as error:
            # Where others were answered meanwhile the worker is slow, and another connection would burden it more.
            is_slow = isinstance(error, TimeoutError) and connection.answers > answers
            if self._current is connection and not is_slow:
                self._current = None
            raise
        else:
            connection.answers += 1
            return result
        finally:
            connection.users -= 1
            if connection is not self._current and not connection.users:
                self._close(connection)

    async def _connected(self) -> _Connection:
        # Again, where another query has met a failure of the new connection before this one goes on.
        while self._current is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(self._opened)
            await asyncio.shield(self._opening)
        return self._current

    async def _open(self) -> None:
        async with AsyncExitStack() as opening:
            client = await opening.enter_async_context(self._connect())
            self._current = _Connection(client, opening.pop_all())

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        # Whoever waits for it is told of the failure.
        _ = opening.cancelled() or opening.exception()

    def _close(self, connection: _Connection) -> None:
        """Close in the background: with a broker that is gone, closing takes long."""
        closing = asyncio.create_task(connection.closing.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closed)

    def _closed(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        # The failure was raised to the query already.
        _ = closing.cancelled() or closing.exception()
