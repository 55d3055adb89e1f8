"""HTTP fetches that obey robots.txt and the delays of hosts."""

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from urllib.parse import urljoin

from freki.operators.crawl import Robots, host_of, normalise_url
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.web import WebAnswer
from freki.streams.feed.crawl_records import CrawlPorts, CrawlScope
from freki.streams.ports import Fetch

AGENT = "freki"
"""Name of the crawler in robots.txt."""
MAX_WAIT_S = 120.0
"""Maximum Retry-After that is waited for, in seconds; with a longer one the host is left alone until the next crawl.

Also the maximum Crawl-delay that is kept: a longer one would end no crawl, and mostly milliseconds are meant."""

OK, NOT_MODIFIED = 200, 304
MOVED = frozenset({301, 308})
ELSEWHERE = frozenset({302, 303, 307})
GONE = frozenset({404, 410})
FORBIDDEN = 403
REFUSED = frozenset({401, FORBIDDEN})
TOO_MANY = 429
BUSY = frozenset({TOO_MANY, 503})
_CLIENT_ERROR, _SERVER_ERROR = 400, 500


class PoliteFetcher:
    """Fetcher with a minimum delay between two requests to a host."""

    def __init__(self, ports: CrawlPorts, scope: CrawlScope) -> None:
        self._fetch: Fetch = ports.fetch
        self._clock: Callable[[], float] = ports.clock
        self._sleep: Callable[[float], Awaitable[None]] = ports.sleep
        self._scope = scope
        self._robots: dict[str, Robots | None] = {}
        self._why_unread: dict[str, str] = {}
        self._ready_at: dict[str, float] = {}
        self.shortened: dict[str, float] = {}
        """Crawl-delay of each robots.txt that asks for more than is kept, in seconds."""

    def ready_at(self, host: str) -> float:
        """Return when the next request to a host is allowed, by the clock, in seconds."""
        return self._ready_at.get(host, 0.0)

    def wait_longer(self, host: str, seconds: float) -> None:
        """Delay requests to a host by its Retry-After; leave it alone if that is above `MAX_WAIT_S`."""
        until = inf if seconds > MAX_WAIT_S else self._clock() + seconds
        self._ready_at[host] = max(self.ready_at(host), until)

    def is_closed(self, host: str) -> bool:
        """Return whether a host is left alone for the rest of the crawl."""
        return self.ready_at(host) == inf

    async def rules(self, url: str) -> Robots | None:
        """Return the robots.txt of a host; None if it cannot be read: then the host must not be crawled."""
        origin = urljoin(url, "/")
        if origin not in self._robots:
            found = self._robots[origin] = await self._read_robots(urljoin(origin, "/robots.txt"))
            if found is not None and found.delay_s > MAX_WAIT_S:
                self.shortened[urljoin(origin, "/robots.txt")] = found.delay_s
        return self._robots[origin]

    def why_unread(self, url: str) -> str:
        """Return why `rules` has none of the host of a URL."""
        return self._why_unread.get(urljoin(url, "/"), "")

    async def _read_robots(self, url: str) -> Robots | None:
        """Return the rules of a robots.txt; none if it does not exist; None after a server error (RFC 9309, 2.3.1)."""
        try:
            answer = await self.follow(url)
        except Misconfigured:
            raise
        except (Unavailable, Rejected) as error:
            self._why_unread[urljoin(url, "/")] = str(error).removeprefix(f"{url}: ")
            return None
        if answer.status == OK:
            return Robots(answer.content, AGENT)
        if _CLIENT_ERROR <= answer.status < _SERVER_ERROR and answer.status != TOO_MANY:
            return Robots(b"", AGENT)
        self._why_unread[urljoin(url, "/")] = f"status {answer.status}"
        return None

    async def follow(self, url: str) -> WebAnswer:
        """Fetch a file such as robots.txt or a sitemap, following redirects."""
        answer = await self.ask(url, {})
        for _ in range(self._scope.max_redirects):
            target = normalise_url(answer.headers.get("location", ""), base=url)
            if answer.status not in MOVED | ELSEWHERE or target is None:
                break
            url = target
            answer = await self.ask(url, {})
        return answer

    async def ask(self, url: str, headers: Mapping[str, str]) -> WebAnswer:
        """Fetch a URL once the delay of its host has passed. Raises Unavailable if the host is left alone."""
        host = host_of(url)
        if self.is_closed(host):
            raise Unavailable(f"{url} was not asked: its host wants to be left alone for longer than {MAX_WAIT_S:g} s")
        wait_s = self.ready_at(host) - self._clock()
        if wait_s > 0:
            await self._sleep(wait_s)
        try:
            return await self._fetch(url, headers=headers, max_bytes=self._scope.max_bytes)
        finally:
            robots = self._robots.get(urljoin(url, "/"))
            delay_s = max(self._scope.delay_s, 0.0 if robots is None else min(robots.delay_s, MAX_WAIT_S))
            self._ready_at[host] = self._clock() + delay_s
