"""A SOCKS 5 proxy for the browser, which checks each connection with the guard.

All requests of a page pass through it, also of redirects, scripts and web sockets, and reach the checked address or the
HTTP proxy of the settings.
"""

import asyncio
from contextlib import suppress
from ipaddress import ip_address
from typing import Self

from freki.client.tasks import cancel_and_wait
from freki.infra.sources.web.guard import Guard
from freki.infra.sources.web.upstream import Connection, Upstream
from freki.schemas.errors import InfraError

_VERSION, _CONNECT = 5, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_DONE, _REFUSED, _UNREACHABLE = 0, 2, 4
_PIECE_BYTES = 1 << 16
_CONNECT_S = 10.0
_HTTP = 80
_TLS, _END = b"\x16", b"\r\n\r\n"
_OF_CONNECTION = frozenset({b"connection:", b"proxy-connection:", b"proxy-authorization:"})


class GuardedProxy:
    """Listens on the loopback interface only. Source: RFC 1928, without authentication."""

    def __init__(self, guard: Guard, upstream: Upstream | None = None) -> None:
        """Create a proxy; upstream: the HTTP proxy behind it."""
        self._guard = guard
        self._upstream = upstream
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        await cancel_and_wait(self._tasks)

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
        upstream = self._upstream if self._upstream is not None and self._upstream.serves(host) else None
        try:
            address = await self._guard.address(host, port) if upstream is None else await self._checked(host, port)
        except InfraError:
            _reply(writer, _REFUSED)
            return
        if upstream is not None:
            # What the browser sends first says whether it is encrypted.
            _reply(writer, _DONE)
            first = await reader.read(_PIECE_BYTES)
            if not first:
                # A connection in advance, which was not needed.
                return
            async with asyncio.timeout(_CONNECT_S):
                there, first = await _by_proxy(upstream, (host, port), first, reader)
            await _join((reader, writer), there, first)
            return
        try:
            async with asyncio.timeout(_CONNECT_S):
                there = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            _reply(writer, _UNREACHABLE)
            return
        _reply(writer, _DONE)
        await _join((reader, writer), there, b"")

    async def _checked(self, host: str, port: int) -> str:
        await self._guard.check(host, port)
        return host


async def _by_proxy(
    upstream: Upstream, place: tuple[str, int], first: bytes, reader: asyncio.StreamReader
) -> tuple[Connection, bytes]:
    """Return a connection to a place through a proxy, and the first bytes for it.

    Proxies often open tunnels to encrypted ports only, so a plain request names its whole URL instead.
    """
    host, port = place
    if first.startswith(_TLS):
        return await upstream.tunnel(host, port), first
    while _END not in first and len(first) < _PIECE_BYTES and (more := await reader.read(_PIECE_BYTES)):
        first += more
    head, end, body = first.partition(_END)
    asked, *lines = (line.split(b" ") for line in head.split(b"\r\n"))
    is_plain = bool(end) and len(asked) == len(("method", "target", "version"))
    if not is_plain or any(line[0].lower() == b"upgrade:" for line in lines):
        return await upstream.tunnel(host, port), first
    method, target, version = asked
    where = (f"[{host}]" if ":" in host else host) + (f":{port}" if port != _HTTP else "")
    kept = [b" ".join(line) for line in lines if line[0].lower() not in _OF_CONNECTION]
    request = b" ".join((method, f"http://{where}".encode() + target, version))
    # A second request on the same connection would not name its URL.
    own = f"Connection: close\r\n{upstream.authorization}".encode()
    return await upstream.connect(), b"\r\n".join((request, *kept, own)) + b"\r\n" + body


async def _join(here: Connection, there: Connection, first: bytes) -> None:
    """Pass on bytes between two connections, the given ones first."""
    try:
        there[1].write(first)
        await asyncio.gather(_pass_on(here[0], there[1]), _pass_on(there[0], here[1]))
    finally:
        there[1].close()


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
