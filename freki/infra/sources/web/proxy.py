"""A SOCKS 5 proxy for the browser, which checks each connection with the guard.

All requests of a page pass through it, also of redirects, scripts and web sockets, and reach the checked address.
"""

import asyncio
from contextlib import suppress
from ipaddress import ip_address
from types import TracebackType
from typing import Self

from freki.infra.sources.web.guard import Guard
from freki.schemas.errors import InfraError

_VERSION, _CONNECT = 5, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_DONE, _REFUSED, _UNREACHABLE = 0, 2, 4
_PIECE_BYTES = 1 << 16
_CONNECT_S = 10.0


class GuardedProxy:
    """Listens on the loopback interface only. Source: RFC 1928, without authentication."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(bytes([_VERSION, 0]))
        version, wanted, _, kind = await reader.readexactly(4)
        host = await _host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2), "big")
        if (version, wanted) != (_VERSION, _CONNECT) or host is None:
            return
        try:
            address = await self._guard.address(host, port)
        except InfraError:
            _reply(writer, _REFUSED)
            return
        try:
            async with asyncio.timeout(_CONNECT_S):
                there_reader, there_writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            _reply(writer, _UNREACHABLE)
            return
        _reply(writer, _DONE)
        try:
            await asyncio.gather(_pass_on(reader, there_writer), _pass_on(there_reader, writer))
        finally:
            there_writer.close()


async def _host(reader: asyncio.StreamReader, kind: int) -> str | None:
    match kind:
        case 1 | 4:
            return str(ip_address(await reader.readexactly(4 if kind == _IPV4 else 16)))
        case 3:
            (length,) = await reader.readexactly(1)
            return (await reader.readexactly(length)).decode("ascii", errors="replace")
        case _:
            return None


def _reply(writer: asyncio.StreamWriter, code: int) -> None:
    writer.write(bytes([_VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0]))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
