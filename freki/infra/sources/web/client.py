"""HTTP client of the crawler."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from freki.infra.settings import CrawlSettings
from freki.infra.sources.web.guard import Guard
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.web import WebAnswer

_PORTS = {"http": 80, "https": 443}
_NO_TEXT = ("image/", "video/", "audio/", "font/", "application/zip", "application/gzip", "application/x-")


class WebClient:
    """Sends one request at a time, without following redirects, which the crawler decides on."""

    def __init__(self, settings: CrawlSettings, guard: Guard) -> None:
        self._settings = settings
        self._guard = guard
        self._client = httpx.AsyncClient(
            headers={"User-Agent": settings.user_agent, "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"},
            timeout=settings.timeout_s,
            follow_redirects=False,
            # A proxy of the environment would resolve host names without the guard.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        """Send a GET request.

        Raises Unavailable without a complete response in time, and Rejected for addresses that are not public and
        responses that are too large or of a type without text.
        """
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._get(url, headers, max_bytes)
        except TimeoutError as error:
            limit = f"FREKI_CRAWL__TIMEOUT_S={self._settings.timeout_s:g}"
            raise Unavailable(f"{url}: no whole answer within {limit}") from error
        except httpx.TransportError as error:
            raise Unavailable(f"{url}: {str(error) or type(error).__name__}") from error
        except (httpx.InvalidURL, httpx.DecodingError) as error:
            raise Rejected(f"{url}: {error}") from error

    async def _get(self, url: str, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        asked = httpx.URL(url)
        address = await self._guard.address(asked.host, asked.port or _PORTS[asked.scheme])
        request = self._client.build_request(
            "GET",
            asked.copy_with(host=address),
            headers={"Host": asked.netloc.decode(), **headers},
            extensions={"sni_hostname": asked.host},
        )
        response = await self._client.send(request, stream=True)
        try:
            content = await _content(url, response, max_bytes) if response.status_code == httpx.codes.OK else b""
        finally:
            await response.aclose()
        found = {name.lower(): value for name, value in response.headers.items()}
        return WebAnswer(url=url, status=response.status_code, headers=found, content=content)


async def _content(url: str, response: httpx.Response, max_bytes: int) -> bytes:
    kind = response.headers.get("content-type", "").lower()
    if kind.startswith(_NO_TEXT):
        raise Rejected(f"{url}: {kind} holds no text")
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > max_bytes:
            raise Rejected(f"{url}: more than {max_bytes} bytes; FREKI_CRAWL__MAX_PAGE_MB allows more")
    return bytes(content)
