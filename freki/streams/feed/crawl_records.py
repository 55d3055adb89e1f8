"""Values of a crawl: scope, ledger entries, report and ports."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from freki.schemas import DocumentChange, TenantId, Timestamp
from freki.schemas.names import record
from freki.streams.feed.page_study import PageStudy
from freki.streams.ports import Fetch

Publish = Callable[[Sequence[DocumentChange]], Awaitable[None]]
"""Publisher of changes; returns when the broker has stored them."""
Render = Callable[[str, str], Awaitable[str]]
"""Renderer of a page, by URL and HTML as sent, to HTML after its scripts."""
Study = Callable[[str, str | None, str | bytes], Awaitable[PageStudy]]
"""Study of URL, media type and content. Raises UnreadableContent if the content cannot be a document."""
MAX_SITEMAPS = 50
"""Maximum sitemaps per host."""
BATCH_DELETIONS = 64
"""Maximum URLs deleted together."""


@record
class Visit:
    """Ledger entry of a URL, or of the crawl itself: with the highest version of its deletions.

    That of an unfinished crawl has the start pages as links, and its readers.
    """

    run: str
    """Last crawl that reached the URL."""
    fingerprint: str = ""
    """Fingerprint of the published document; empty if there is none."""
    version: int = 0
    readers: str = ""
    links: tuple[str, ...] = ()
    moved: bool = False
    """Whether the URL redirects; its only link replaces it."""
    is_page: bool = False
    validators: Mapping[str, str] = field(default_factory=dict)
    """Headers of a conditional request."""
    pending: bool = False
    """Whether publishing or deletion was started and its result is unknown."""
    asks_password: bool = False
    """Whether the published page has a field for a password."""
    failing_since: Timestamp = Timestamp(0)
    """When a URL that was never read failed first, in milliseconds since 1970; 0: it did not fail."""


@record
class CrawlScope:
    """Limits of a crawl, and the common fields of its documents."""

    hosts: frozenset[str]
    """Hosts, with the port if it is not the default one."""
    depth: int
    """Maximum number of links from a start page or a page of a sitemap."""
    pages: int
    """Maximum pages per crawl."""
    delay_s: float
    """Minimum delay between two requests to a host, in seconds."""
    max_bytes: int
    """Maximum size of a response, in bytes."""
    max_redirects: int
    tenant: TenantId
    principals: tuple[str, ...]
    priority: int
    login: str = ""
    """What is sent to say who asks, in words and without its values; empty: nothing."""

    @property
    def readers(self) -> str:
        """Principals, sorted and joined by spaces."""
        return " ".join(sorted(self.principals))


@record
class CrawlPorts:
    """Ports of a crawl."""

    fetch: Fetch
    render: Render | None
    """None: use pages as sent by the server."""
    study: Study
    publish: Publish
    now: Callable[[], Timestamp]
    clock: Callable[[], float]
    """Monotonic clock, in seconds."""
    sleep: Callable[[float], Awaitable[None]]


@dataclass
class Report:
    """Result of a crawl."""

    pages: int = 0
    published: int = 0
    unchanged: int = 0
    deleted: int = 0
    known: int = 0
    """Number of documents before the crawl."""
    held_back: list[str] = field(default_factory=list)
    """URLs whose documents would have been deleted, and stay because they are most of those known."""
    by_robots: int = 0
    """Number of URLs disallowed by robots.txt."""
    failed: list[str] = field(default_factory=list)
    """URL and reason of each page that could not be read; its published document stays."""
    left_out: list[str] = field(default_factory=list)
    """URL and reason of each page that cannot be a document."""
    delays: list[str] = field(default_factory=list)
    """What each robots.txt asks for between two requests if that is more than is kept, and what is kept."""
    complete: bool = True
    """Whether every reachable page was visited; only then documents of unreached pages are deleted."""

    @property
    def has_read(self) -> bool:
        """Whether any page is, or was, a document."""
        return bool(self.published + self.unchanged + self.deleted)
