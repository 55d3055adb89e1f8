"""Read the sitemaps of a host: the pages in them, and whether all could be read."""

from collections import deque
from collections.abc import AsyncIterator
from urllib.parse import urljoin

from freki.operators.crawl import MAX_ENTRIES, Sitemap, host_of, is_login, read_sitemap
from freki.operators.errors import UnreadableContent
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.streams.feed.crawl_records import MAX_SITEMAPS, CrawlScope, Report, Visit
from freki.streams.feed.ledger import SourceLedger
from freki.streams.feed.polite_fetch import GONE, OK, PoliteFetcher

SITEMAP = "sitemap "
"""Beginning of the key of a sitemap that was read; no URL begins with it."""


class SitemapReader:
    """Reads the sitemaps of the hosts of a crawl.

    The crawl is incomplete if some could not be read: pages to which nothing else leads would seem to be gone.
    """

    def __init__(self, fetcher: PoliteFetcher, ledger: SourceLedger[Visit], scope: CrawlScope, report: Report) -> None:
        """Create a reader; report: is told what could not be read."""
        self._fetcher = fetcher
        self._ledger = ledger
        self._scope = scope
        self._report = report

    async def pages(self, seed: str, *, run: str) -> AsyncIterator[str]:
        """Yield the pages in the sitemaps of the host of a start page; run: of the crawl, for the ledger."""
        robots = await self._fetcher.rules(seed)
        if robots is None:
            # Which sitemaps there are is unknown; the visit of the start page tells why.
            self._report.complete = False
            return
        waiting = deque(robots.sitemaps or [urljoin(seed, "/sitemap.xml")])
        seen: set[str] = set()
        while waiting:
            url = waiting.popleft()
            if url in seen or host_of(url) not in self._scope.hosts:
                continue
            if len(seen) == MAX_SITEMAPS:
                self._miss(f"{url} and further sitemaps were not read: there are more than {MAX_SITEMAPS}")
                return
            seen.add(url)
            sitemap = await self._sitemap(url, declared=bool(robots.sitemaps))
            if sitemap is not None:
                if not sitemap.is_whole:
                    self._miss(f"{url} has more than {MAX_ENTRIES:,} addresses, of which the first were read")
                await self._ledger.write({f"{SITEMAP}{url}": Visit(run=run)})
                waiting.extend(sitemap.sitemaps)
                for page in sitemap.pages:
                    yield page

    async def _sitemap(self, url: str, *, declared: bool) -> Sitemap | None:
        """Read a sitemap; None if there is none. One that robots.txt declares, or that was read before, is missed."""
        expected = declared or self._ledger[f"{SITEMAP}{url}"] is not None
        try:
            answer = await self._fetcher.follow(url)
            if is_login(answer.url):
                self._miss(f"{url} asks for a login", matters=expected or bool(self._scope.login))
            elif answer.status in GONE:
                self._miss(f"{url}: status {answer.status}", matters=declared)
            elif answer.status != OK:
                self._miss(f"{url}: status {answer.status}")
            else:
                return read_sitemap(answer.content, url=url)
        except Misconfigured:
            raise
        except Unavailable as error:
            self._miss(str(error))
        except (Rejected, UnreadableContent) as error:
            self._miss(str(error), matters=expected)
        return None

    def _miss(self, reason: str, *, matters: bool = True) -> None:
        if matters:
            self._report.failed.append(reason)
            self._report.complete = False
