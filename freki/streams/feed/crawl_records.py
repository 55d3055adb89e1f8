"""Values of a crawl: its scope, what it remembers of each address, what it reports, and what it needs from outside."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from freki.schemas import DocumentChange, TenantId, Timestamp
from freki.schemas.names import record
from freki.streams.feed.page_study import PageStudy
from freki.streams.ports import Fetch

Publish = Callable[[Sequence[DocumentChange]], Awaitable[None]]
"""Returns when the broker has the changes."""
Render = Callable[[str, str], Awaitable[str]]
"""Address and HTML as sent to HTML as a reader sees it."""
Study = Callable[[str, str | None, str | bytes], Awaitable[PageStudy]]
"""Address, media type and content; raises UnreadableContent for what is no document."""


@record
class Visit:
    """What the ledger keeps of an address; of the crawl itself the addresses that it began with."""

    run: str
    """The crawl that reached it last."""
    fingerprint: str = ""
    """Of the document that was published of it; empty: there is none."""
    version: int = 0
    readers: str = ""
    links: tuple[str, ...] = ()
    moved: bool = False
    """It leads elsewhere: its one link stands in its place."""
    is_page: bool = False
    validators: Mapping[str, str] = field(default_factory=dict)
    """Headers that ask for it only if it has changed."""
    pending: bool = False
    """It was about to be published or deleted: whether it was, nobody knows."""


@record
class CrawlScope:
    """How far a crawl goes, and the fields that all of its documents have."""

    hosts: frozenset[str]
    """Host, with the port where it is not the usual one."""
    depth: int
    """Links from a first page, or from what a sitemap names."""
    pages: int
    delay_s: float
    max_bytes: int
    max_redirects: int
    tenant: TenantId
    principals: tuple[str, ...]
    priority: int

    @property
    def readers(self) -> str:
        """The principals as one text."""
        return " ".join(sorted(self.principals))


@record
class CrawlPorts:
    """What a crawl needs from outside."""

    fetch: Fetch
    render: Render | None
    """None: pages are taken as the server sends them."""
    study: Study
    publish: Publish
    now: Callable[[], Timestamp]
    clock: Callable[[], float]
    """Seconds, never back."""
    sleep: Callable[[float], Awaitable[None]]


@dataclass
class Report:
    """What a crawl led to."""

    pages: int = 0
    published: int = 0
    unchanged: int = 0
    deleted: int = 0
    by_robots: int = 0
    """Addresses that robots.txt kept us from."""
    failed: list[str] = field(default_factory=list)
    """What could not be read, and why: what was published of it stays."""
    left_out: list[str] = field(default_factory=list)
    """What is no document, and why."""
    complete: bool = True
    """All that can be reached was; only then what was not reached is deleted."""
