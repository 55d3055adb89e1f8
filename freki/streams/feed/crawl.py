"""A web site becomes documents, and follows it: new pages, changed pages, pages that are gone."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Protocol
from urllib.parse import urljoin

from freki.operators.crawl import Robots, decode_page, host_of, normalise_url, read_sitemap
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.names import record
from freki.schemas.web import WebAnswer
from freki.streams.feed.ledger import ITSELF, Ledger
from freki.streams.feed.page_study import PageStudy

AGENT = "freki"
"""Our name in robots.txt."""
MAX_ID_CHARS = 500
MAX_TRIES = 2
MAX_WAIT_S = 120.0
"""Longest time that a server may ask for with Retry-After."""
MAX_SITEMAPS = 50
RESUME_MS = 24 * 60 * 60 * 1000
"""A crawl that ended before its time goes on within a day; later it begins anew."""
AT_ONCE = 64

_OK, _NOT_MODIFIED = 200, 304
_MOVED = frozenset({301, 308})
_ELSEWHERE = frozenset({302, 303, 307})
_GONE = frozenset({404, 410})
_TOO_MANY = 429
_BUSY = frozenset({_TOO_MANY, 503})
_CLIENT_ERROR, _SERVER_ERROR = 400, 500
_PAGES = frozenset({"text/html", "application/xhtml+xml"})

Publish = Callable[[Sequence[DocumentChange]], Awaitable[None]]
"""Returns when the broker has the changes."""
Render = Callable[[str, str], Awaitable[str]]
"""Address and HTML as sent to HTML as a reader sees it."""
Study = Callable[[str, str | None, str | bytes], Awaitable[PageStudy]]
"""Address, media type and content; raises one of `unreadable` for what is no document."""


class Fetch(Protocol):
    """Asks a server."""

    async def __call__(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        """Raises one of `down` where no answer comes, one of `refused` where none is wanted."""


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
class Scope:
    """How far a crawl goes, and what its documents are made with."""

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
class Outside:
    """What a crawl needs of the world, and which of its errors mean what."""

    fetch: Fetch
    render: Render | None
    """None: pages are taken as the server sends them."""
    study: Study
    publish: Publish
    now: Callable[[], Timestamp]
    clock: Callable[[], float]
    """Seconds, never back."""
    sleep: Callable[[float], Awaitable[None]]
    down: tuple[type[Exception], ...]
    refused: tuple[type[Exception], ...]
    """Too much to take: what was published before stays."""
    unreadable: tuple[type[Exception], ...]
    """No document, or none any more."""


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


class Crawl:
    """One walk through a site, from its first pages to whatever they lead to."""

    def __init__(self, outside: Outside, ledger: Ledger[Visit], scope: Scope) -> None:
        self._outside = outside
        self._ledger = ledger
        self._scope = scope
        self._run = ""
        self.report = Report()
        self._queues: dict[str, deque[str]] = {}
        self._depths: dict[str, int] = {}
        self._redirects: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        self._robots: dict[str, Robots | None] = {}
        self._ready_at: dict[str, float] = {}

    async def walk(self, seeds: Sequence[str]) -> Report:
        """Publish what is new or has changed, and delete what is gone: see `Report.complete`."""
        await self._begin(tuple(seeds))
        for seed in seeds:
            self._found(seed, 0)
        for seed in {urljoin(seed, "/"): seed for seed in seeds}.values():
            await self._read_sitemaps(seed)
        while (url := self._next()) is not None:
            if self.report.pages >= self._scope.pages:
                self.report.complete = False
                break
            await self._visit(url)
        if self.report.complete:
            await self._sweep()
        await self._ledger.write({ITSELF: Visit(run=self._run)})
        return self.report

    async def _begin(self, seeds: tuple[str, ...]) -> None:
        last, now = self._ledger[ITSELF], self._outside.now()
        # An open run has links.
        if last is not None and last.links == seeds and now - int(last.run) < RESUME_MS:
            self._run = last.run
            return
        self._run = str(now)
        await self._ledger.write({ITSELF: Visit(run=self._run, links=seeds)})

    def _found(self, url: str, depth: int) -> None:
        """Queue an address, or what it led to where this run was there already; again where it is nearer now."""
        waiting = deque([(url, depth)])
        while waiting:
            url, depth = waiting.popleft()
            before = self._depths.get(url)
            is_near = depth <= self._scope.depth and (before is None or depth < before)
            if not is_near or host_of(url) not in self._scope.hosts:
                continue
            self._depths[url] = depth
            known = self._ledger[url]
            if known is not None and known.run == self._run:
                waiting.extend((link, depth + (not known.moved)) for link in known.links)
            elif before is None:
                self._queues.setdefault(host_of(url), deque()).append(url)

    def _next(self) -> str | None:
        """Take the next address of the host that may be asked first."""
        hosts = [host for host, queue in self._queues.items() if queue]
        if not hosts:
            return None
        return self._queues[min(hosts, key=lambda host: self._ready_at.get(host, 0.0))].popleft()

    async def _visit(self, url: str) -> None:
        known = self._ledger[url]
        robots = await self._rules(url)
        if robots is None:
            await self._keep(url, known, f"{url}: its robots.txt cannot be read")
            return
        if not robots.allows(url):
            self.report.by_robots += 1
            return
        self.report.pages += 1
        headers = {} if known is None or not self._may_ask_briefly(known) else known.validators
        try:
            answer = await self._ask(url, headers)
        except self._outside.down as error:
            if not self._try_later(url):
                await self._keep(url, known, str(error))
            return
        except self._outside.refused as error:
            self.report.left_out.append(str(error))
            await self._keep(url, known, "")
            return
        await self._take(answer, known)

    def _may_ask_briefly(self, known: Visit) -> bool:
        """What scripts write into a page may change while the page does not."""
        is_rendered = known.is_page and self._outside.render is not None
        return (
            bool(known.fingerprint) and not known.pending and known.readers == self._scope.readers and not is_rendered
        )

    async def _take(self, answer: WebAnswer, known: Visit | None) -> None:
        url, status = answer.url, answer.status
        if status == _OK:
            await self._read(answer, known)
        elif status == _NOT_MODIFIED and known is not None:
            self.report.unchanged += 1
            await self._arrive(url, replace(known, run=self._run))
        elif status in _MOVED | _ELSEWHERE:
            await self._redirect(answer, known)
        elif status in _GONE:
            await self._vanish(url, known, Visit(run=self._run))
        elif status not in _BUSY or not self._try_later(url, answer):
            await self._keep(url, known, f"{url}: status {status}")

    async def _read(self, answer: WebAnswer, known: Visit | None) -> None:
        url, is_page = answer.url, answer.media_type in _PAGES
        content: str | bytes = answer.content
        try:
            if is_page:
                content = decode_page(answer.content, answer.headers.get("content-type", ""))
                if self._outside.render is not None:
                    content = await self._outside.render(url, content)
            study = await self._outside.study(url, answer.media_type or None, content)
        except self._outside.down as error:
            await self._keep(url, known, str(error))
            return
        except self._outside.refused as error:
            self.report.left_out.append(str(error))
            await self._keep(url, known, "")
            return
        except self._outside.unreadable as error:
            self.report.left_out.append(f"{url}: {error}")
            await self._vanish(url, known, Visit(run=self._run))
            return
        visit = Visit(run=self._run, links=_followed(answer, study), is_page=is_page)
        canonical = self._elsewhere(url, study)
        if canonical is not None:
            # What the page shows is published where it would like to be known; its links lead on from there.
            await self._vanish(url, known, replace(visit, links=(canonical,), moved=True))
        elif not _is_indexed(answer, study):
            await self._vanish(url, known, visit)
        elif not study.fingerprint:
            await self._keep(url, known, f"{url}: no text; are scripts needed that did not run?")
        else:
            await self._document(answer, content, study, visit, known)

    async def _document(
        self, answer: WebAnswer, content: str | bytes, study: PageStudy, visit: Visit, known: Visit | None
    ) -> None:
        scope, now = self._scope, self._outside.now()
        visit = replace(
            visit, fingerprint=study.fingerprint, readers=scope.readers, validators=_validators(answer.headers)
        )
        published = None if known is None or known.pending else (known.fingerprint, known.readers)
        if known is not None and published == (visit.fingerprint, visit.readers):
            self.report.unchanged += 1
            await self._arrive(answer.url, replace(visit, version=known.version))
            return
        version = max(now, 1 + (0 if known is None else known.version))
        time = datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="seconds")
        change = DocumentChange(
            tenant=scope.tenant,
            document_id=document_id(answer.url),
            operation=Operation.UPSERT,
            version=version,
            occurred_at=now,
            media_type="text/html" if visit.is_page else answer.media_type or None,
            source_uri=answer.url,
            principals=scope.principals,
            attributes={"source_url": answer.url, "crawl_timestamp": time}
            | ({"lang": study.language} if study.language else {}),
            priority=scope.priority,
            content=content,
        )
        await self._ledger.write(
            {answer.url: Visit(run="", fingerprint=visit.fingerprint, version=version, pending=True)}
        )
        await self._outside.publish([change])
        self.report.published += 1
        await self._arrive(answer.url, replace(visit, version=version))

    def _elsewhere(self, url: str, study: PageStudy) -> str | None:
        """Give the address that the page would rather be known by, unless that one leads away as well."""
        canonical = None if study.links is None else study.links.canonical
        if canonical is None or canonical == url or host_of(canonical) not in self._scope.hosts:
            return None
        there = self._ledger[canonical]
        return None if there is not None and there.run == self._run and there.moved else canonical

    async def _redirect(self, answer: WebAnswer, known: Visit | None) -> None:
        url = answer.url
        target = normalise_url(answer.headers.get("location", ""), base=url)
        hops = self._redirects.get(url, 0) + 1
        if target is None or target == url or hops > self._scope.max_redirects:
            await self._keep(url, known, f"{url}: redirected to nowhere, or too often")
            return
        if host_of(target) not in self._scope.hosts:
            await self._lead_out(url, known, target)
            return
        self._redirects.setdefault(target, hops)
        if answer.status in _ELSEWHERE and known is not None and known.fingerprint:
            # For now only: what was published of it stays.
            self._found(target, self._depths[url])
            await self._arrive(url, replace(known, run=self._run))
        else:
            await self._vanish(url, known, Visit(run=self._run, links=(target,), moved=True))

    async def _lead_out(self, url: str, known: Visit | None, target: str) -> None:
        """Leave alone what now lies on another host: a site that moved there is not a site that is gone."""
        reason = f"{url} leads to {target}: --host {host_of(target)} would read it"
        if known is not None or self._depths[url] == 0:
            await self._keep(url, known, reason)
        else:
            self.report.left_out.append(reason)
            await self._arrive(url, Visit(run=self._run))

    async def _keep(self, url: str, known: Visit | None, reason: str) -> None:
        """Leave what was published of an address, and go on to where it led when it could be read."""
        if reason:
            self.report.failed.append(reason)
        if known is not None and not known.pending:
            await self._arrive(url, replace(known, run=self._run))
        elif reason:
            self.report.complete = False

    async def _vanish(self, url: str, known: Visit | None, visit: Visit) -> None:
        """There is no document at an address, or none any more."""
        if known is not None and known.fingerprint:
            await self._delete([(url, known)])
        await self._arrive(url, visit)

    async def _arrive(self, url: str, visit: Visit) -> None:
        """Remember what an address is, and go on to where it leads."""
        await self._ledger.write({url: visit})
        depth = self._depths[url] + (not visit.moved)
        for link in visit.links:
            self._found(link, depth)

    async def _sweep(self) -> None:
        """Delete what no link led to any more."""
        lost = [(url, visit) for url, visit in self._ledger if visit.run != self._run]
        for some in (lost[at : at + AT_ONCE] for at in range(0, len(lost), AT_ONCE)):
            await self._delete([(url, visit) for url, visit in some if visit.fingerprint])
            await self._ledger.write(dict.fromkeys((url for url, _ in some), None))

    async def _delete(self, gone: Sequence[tuple[str, Visit]]) -> None:
        now = self._outside.now()
        await self._ledger.write({url: replace(visit, run="", links=(), pending=True) for url, visit in gone})
        await self._outside.publish(
            [
                DocumentChange(
                    tenant=self._scope.tenant,
                    document_id=document_id(url),
                    operation=Operation.DELETE,
                    version=max(now, visit.version + 1),
                    occurred_at=now,
                    priority=self._scope.priority,
                )
                for url, visit in gone
            ]
        )
        self.report.deleted += len(gone)

    async def _read_sitemaps(self, seed: str) -> None:
        """Queue what the sitemaps of a host name, as if a first page did."""
        robots = await self._rules(seed)
        if robots is None:
            return
        named = robots.sitemaps
        waiting = deque(named or [urljoin(seed, "/sitemap.xml")])
        seen: set[str] = set()
        while waiting and len(seen) < MAX_SITEMAPS:
            url = waiting.popleft()
            if url in seen or host_of(url) not in self._scope.hosts:
                continue
            seen.add(url)
            try:
                answer = await self._follow(url)
                if answer.status != _OK:
                    # Where robots.txt names none, there may be none.
                    self._miss(f"{url}: status {answer.status}", matters=bool(named) or answer.status not in _GONE)
                    continue
                sitemap = read_sitemap(answer.content, url=url)
            except (*self._outside.down, *self._outside.refused, *self._outside.unreadable) as error:
                self._miss(str(error), matters=bool(named))
                continue
            waiting.extend(sitemap.sitemaps)
            for page in sitemap.pages:
                self._found(page, 0)

    def _miss(self, reason: str, *, matters: bool) -> None:
        if matters:
            self.report.failed.append(reason)
            self.report.complete = False

    async def _rules(self, url: str) -> Robots | None:
        """Give what robots.txt says of a host; None where it does not say: then it is not asked for anything."""
        origin = urljoin(url, "/")
        if origin not in self._robots:
            self._robots[origin] = await self._read_robots(urljoin(origin, "/robots.txt"))
        return self._robots[origin]

    async def _read_robots(self, url: str) -> Robots | None:
        """Source: RFC 9309, 2.3.1: no robots.txt means no rules, a server in trouble means stay away."""
        try:
            answer = await self._follow(url)
        except (*self._outside.down, *self._outside.refused):
            return None
        if answer.status == _OK:
            return Robots(answer.content, AGENT)
        return (
            Robots(b"", AGENT)
            if _CLIENT_ERROR <= answer.status < _SERVER_ERROR and answer.status != _TOO_MANY
            else None
        )

    async def _follow(self, url: str) -> WebAnswer:
        """Ask, and follow redirects, for what is no document."""
        answer = await self._ask(url, {})
        for _ in range(self._scope.max_redirects):
            target = normalise_url(answer.headers.get("location", ""), base=url)
            if answer.status not in _MOVED | _ELSEWHERE or target is None:
                break
            answer = await self._ask(target, {})
        return answer

    async def _ask(self, url: str, headers: Mapping[str, str]) -> WebAnswer:
        """Ask when the host may be asked again."""
        host = host_of(url)
        wait_s = self._ready_at.get(host, 0.0) - self._outside.clock()
        if wait_s > 0:
            await self._outside.sleep(wait_s)
        try:
            return await self._outside.fetch(url, headers=headers, max_bytes=self._scope.max_bytes)
        finally:
            robots = self._robots.get(urljoin(url, "/"))
            delay_s = max(self._scope.delay_s, 0.0 if robots is None else robots.delay_s)
            self._ready_at[host] = self._outside.clock() + delay_s

    def _try_later(self, url: str, answer: WebAnswer | None = None) -> bool:
        """Put an address back into its queue, unless it had its turns; the server may say how long to wait."""
        self._tries[url] = self._tries.get(url, 1) + 1
        if self._tries[url] > MAX_TRIES:
            return False
        asked = "" if answer is None else answer.headers.get("retry-after", "")
        if asked.isascii() and asked.isdecimal():
            host = host_of(url)
            self._ready_at[host] = max(self._ready_at[host], self._outside.clock() + min(int(asked), MAX_WAIT_S))
        self._queues[host_of(url)].append(url)
        return True


def document_id(url: str) -> DocumentId:
    """Give an address as an id; a long one is cut, and told apart by its hash."""
    if len(url) <= MAX_ID_CHARS:
        return DocumentId(url)
    digest = blake2b(url.encode(), digest_size=16).hexdigest()
    return DocumentId(f"{url[: MAX_ID_CHARS - len(digest) - 1]}#{digest}")


def _followed(answer: WebAnswer, study: PageStudy) -> tuple[str, ...]:
    return () if study.links is None or "nofollow" in _rules_of(answer) else study.links.links


def _is_indexed(answer: WebAnswer, study: PageStudy) -> bool:
    return (study.links is None or study.links.is_indexed) and _rules_of(answer).isdisjoint({"noindex", "none"})


def _rules_of(answer: WebAnswer) -> set[str]:
    return {rule.strip().lower() for rule in answer.headers.get("x-robots-tag", "").split(",")}


def _validators(headers: Mapping[str, str]) -> dict[str, str]:
    pairs = (("If-None-Match", headers.get("etag")), ("If-Modified-Since", headers.get("last-modified")))
    return {name: value for name, value in pairs if value}
