"""The HTTP proxy that the settings name, between the crawler and web servers."""

import asyncio
import base64
import ssl
from urllib.parse import urlsplit

import httpx

from freki.infra.settings import CrawlSettings
from freki.infra.sources.web.guard import DEFAULT_PORTS
from freki.schemas.errors import Misconfigured

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

NEEDS_LOGIN = 407
"""Status of a proxy that does not know who asks."""
_OK = b"200"


class Upstream:
    """An HTTP proxy, and which hosts are asked through it."""

    def __init__(self, settings: CrawlSettings, url: str) -> None:
        self.url = url
        self._without = tuple(host.lower() for host in settings.no_proxy)
        password = settings.proxy_password
        self._user = (
            None
            if password is None or settings.proxy_user is None
            else (settings.proxy_user, password.get_secret_value())
        )

    def serves(self, host: str) -> bool:
        """Return whether a host is asked through the proxy."""
        name = host.lower().strip("[]")
        return not any(
            f".{name}".endswith(f".{rule.lstrip('.')}") if rule.startswith(".") else name == rule
            for rule in self._without
        )

    def for_httpx(self) -> httpx.Proxy:
        """Return the proxy as httpx takes it."""
        return httpx.Proxy(self.url, auth=self._user)

    @property
    def authorization(self) -> str:
        """The line of a request that says who asks; empty if nobody needs to know."""
        if self._user is None:
            return ""
        return f"Proxy-Authorization: Basic {base64.b64encode(':'.join(self._user).encode()).decode()}\r\n"

    async def connect(self) -> Connection:
        """Connect to the proxy. Raises OSError if that fails."""
        parts = urlsplit(self.url)
        context = ssl.create_default_context() if parts.scheme == "https" else None
        return await asyncio.open_connection(parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme], ssl=context)

    async def tunnel(self, host: str, port: int) -> Connection:
        """Return a connection to a host, through the proxy. Raises OSError where it cannot be had."""
        reader, writer = await self.connect()
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        writer.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{self.authorization}\r\n".encode())
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise ConnectionError("the proxy does not answer") from error
        if answer.split(b" ", 2)[1:2] != [_OK]:
            writer.close()
            raise ConnectionError("the proxy refuses")
        return reader, writer


def refused(url: str) -> Misconfigured:
    """Return the error of a proxy that asks for another user or password."""
    return Misconfigured(
        f"the proxy {url} asks who it is: FREKI_CRAWL__PROXY_USER and FREKI_CRAWL__PROXY_PASSWORD say it"
    )


def upstream_of(settings: CrawlSettings) -> Upstream | None:
    """Return the proxy that the settings name; None without one."""
    return None if settings.proxy is None else Upstream(settings, settings.proxy)
