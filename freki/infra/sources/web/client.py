"""HTTP client of the crawler."""

import asyncio
import re
import zlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Self

import httpx

from freki.infra.http.retry_after import retry_after_s
from freki.infra.settings import CrawlSettings
from freki.infra.sources.web.guard import DEFAULT_PORTS, Guard
from freki.infra.sources.web.login import Login
from freki.infra.sources.web.upstream import NEEDS_LOGIN, refused, upstream_of
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.web import WebAnswer

_GZIP, _GZIP_WINDOW = "gzip", 31
_BY_LINES = ("x-robots-tag",)
_PACKED = re.compile(r"\b(?:br|compress|deflate|gzip|zstd)\b")
_NO_TEXT = ("image/", "video/", "audio/", "font/", "application/zip", "application/gzip", "application/x-")


class WebClient:
    """Sends one request at a time, without following redirects, which the crawler decides on."""

    def __init__(self, settings: CrawlSettings, guard: Guard, login: Login | None = None) -> None:
        """Create a client; login: what is sent to say who asks."""
        self._settings = settings
        self._guard = guard
        self._login = login or Login()
        self._upstream = upstream_of(settings)
        self._opened = AsyncExitStack()
        self._direct = _client(settings)
        self._proxied = None if self._upstream is None else _client(settings, self._upstream.for_httpx())

    async def __aenter__(self) -> Self:
        for client in (self._direct, self._proxied):
            if client is not None:
                await self._opened.enter_async_context(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def get(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        """Send a GET request.

        Headers of the login go with it only where they belong. Raises Unavailable without a complete response in time,
        Rejected for addresses that are not public and responses that are too large or of a type without text, and
        Misconfigured where the proxy asks for another user or password.
        """
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._get(url, headers, max_bytes)
        except TimeoutError as error:
            limit = f"FREKI_CRAWL__TIMEOUT_S={self._settings.timeout_s:g}"
            raise Unavailable(f"{url}: no whole answer within {limit}") from error
        except httpx.ProxyError as error:
            if self._upstream is not None and str(error).startswith(str(NEEDS_LOGIN)):
                raise refused(self._upstream.url) from error
            raise Unavailable(f"{url}: the proxy says: {error}") from error
        except httpx.ConnectError as error:
            # What a proxy cannot connect to it answers for.
            whom = f"the proxy {self._upstream.url}: " if self._by_proxy(httpx.URL(url)) and self._upstream else ""
            raise Unavailable(f"{url}: {whom}{str(error) or type(error).__name__}") from error
        except httpx.TransportError as error:
            raise Unavailable(f"{url}: {str(error) or type(error).__name__}") from error
        except (httpx.InvalidURL, zlib.error) as error:
            raise Rejected(f"{url}: {error}") from error

    def _by_proxy(self, url: httpx.URL) -> bool:
        return self._upstream is not None and self._upstream.serves(url.host)

    async def _get(self, url: str, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        asked = httpx.URL(url)
        sent = {
            "Host": asked.netloc.decode(),
            **self._login.headers_for(url),
            **self._login.cookies_for(url),
            **headers,
        }
        port = asked.port or DEFAULT_PORTS[asked.scheme]
        if self._proxied is not None and self._by_proxy(asked):
            await self._guard.check(asked.host, port)
            client, place = self._proxied, asked
        else:
            client, place = self._direct, asked.copy_with(host=await self._guard.address(asked.host, port))
        request = client.build_request("GET", place, headers=sent, extensions={"sni_hostname": asked.host})
        response = await client.send(request, stream=True)
        try:
            if response.status_code == NEEDS_LOGIN and self._upstream is not None and self._by_proxy(asked):
                raise refused(self._upstream.url)
            content = await _content(url, response, max_bytes) if response.status_code == httpx.codes.OK else b""
        finally:
            await response.aclose()
        self._login.take(url, response.headers.get_list("set-cookie"))
        found = {name.lower(): value for name, value in response.headers.items()}
        # Joined by commas, the rules of one line would go to the agent that another one names.
        found |= {name: "\n".join(response.headers.get_list(name)) for name in _BY_LINES if name in found}
        return WebAnswer(
            url=url,
            status=response.status_code,
            headers=found,
            content=content,
            retry_after_s=retry_after_s(found.get("retry-after", "")),
        )


def _client(settings: CrawlSettings, proxy: httpx.Proxy | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers={
            "User-Agent": settings.user_agent,
            "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
            "Accept-Encoding": _GZIP,
        },
        # Its own cookies would be of addresses, which several hosts may share.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        timeout=settings.timeout_s,
        follow_redirects=False,
        # A proxy of the environment would resolve host names without the guard.
        trust_env=False,
        proxy=proxy,
    )


async def _content(url: str, response: httpx.Response, max_bytes: int) -> bytes:
    kind = response.headers.get("content-type", "").lower()
    if kind.startswith(_NO_TEXT):
        raise Rejected(f"{url}: {kind} holds no text")
    # Some servers name a charset there; x-gzip is another name of gzip (RFC 9110).
    encoding = response.headers.get("content-encoding", "").strip().lower().removeprefix("x-")
    if encoding != _GZIP and _PACKED.search(encoding):
        raise Rejected(f"{url}: it is packed by {encoding}, which was not asked for")
    # httpx unpacks a piece as a whole, however many gigabytes it becomes.
    packed = zlib.decompressobj(_GZIP_WINDOW) if encoding == _GZIP else None
    content, piece = bytearray(), b""
    async for piece in response.aiter_raw():
        content += piece if packed is None else packed.decompress(piece, max_bytes + 1 - len(content))
        if len(content) > max_bytes:
            raise Rejected(f"{url}: more than {max_bytes} bytes; FREKI_CRAWL__MAX_PAGE_MB allows more")
    if packed is not None and piece and not packed.eof:
        # Its links would be gone, and with them other documents.
        raise Unavailable(f"{url}: what was sent packed ends too early")
    return bytes(content)
