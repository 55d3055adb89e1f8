"""Publish the pages of a web site as documents: new, changed and deleted pages."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from urllib.parse import urljoin

from freki.operators.crawl import MAX_LINKS, decode_page, host_of, is_login, is_logout, normalise_url
from freki.operators.errors import UnreadableContent
from freki.operators.mass_deletion import is_mass_deletion
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.web import WebAnswer
from freki.streams.feed.crawl_documents import PAGES, deletion_of, followed, is_indexed, upsert_of, validators
from freki.streams.feed.crawl_frontier import Frontier
from freki.streams.feed.crawl_login import MAX_PROBES, PASSWORD, LoginWatch, Refusal, redirect_to, refusal_of
from freki.streams.feed.crawl_records import BATCH_DELETIONS, CrawlPorts, CrawlScope, Report, Visit
from freki.streams.feed.crawl_sitemaps import SitemapReader
from freki.streams.feed.ledger import ITSELF, SourceLedger
from freki.streams.feed.page_study import PageStudy
from freki.streams.feed.polite_fetch import (
    BUSY,
    ELSEWHERE,
    GONE,
    MAX_WAIT_S,
    MOVED,
    NOT_MODIFIED,
    OK,
    REFUSED,
    PoliteFetcher,
)

RESUME_MS = 24 * 60 * 60 * 1000
"""Maximum age of an interrupted crawl that is resumed, in milliseconds; an older one starts again."""
FAILING_MS = 7 * 24 * 60 * 60 * 1000
"""Time in milliseconds after which a URL that was never read counts as one that leads nowhere.

Until then documents that no other link leads to may lie behind it; without an end one broken link would keep all."""


class Crawl:
    """One crawl of a site, from its start pages along their links."""

    def __init__(
        self,
        ports: CrawlPorts,
        ledger: SourceLedger[Visit],
        scope: CrawlScope,
        *,
        force: bool = False,
        delete_most: bool = False,
    ) -> None:
        """Create a crawl; force: publish unchanged pages too; delete_most: hold no deletion back."""
        self._ports = ports
        self._fetcher = PoliteFetcher(ports, scope)
        self._ledger = ledger
        self._scope = scope
        self._force = force
        self._delete_most = delete_most
        self._run = ""
        self._deleted = 0
        """Highest version of a deletion: the ledger has no entry of what is deleted."""
        self.report = Report()
        self._frontier = Frontier(scope, self._fetcher.ready_at)
        self._redirects: dict[str, int] = {}
        self._seeds: Sequence[str] = ()
        self._refused: dict[str, Visit] = {}
        """Visits of pages that ask for a login or have no text."""
        self._moves: dict[str, Visit] = {}
        """Visits of documents that moved, until it is known whether their new addresses can be read."""
        self._replaced: dict[str, str] = {}
        """Canonical addresses of pages that are no documents yet."""
        self._gone: dict[str, Visit] = {}
        """Visits of documents that are to be deleted, until it is known how many these are."""
        self._unread: set[str] = set()
        self._watch = LoginWatch(scope.login, ())
        self._sitemaps = SitemapReader(self._fetcher, ledger, scope, self.report)

    async def walk(self, seeds: Sequence[str]) -> Report:
        """Publish new and changed pages, then delete pages that are gone, unless these are too many (see `Report`).

        Raises Misconfigured where the login of the scope does not open the site; `report` then says what was done.
        """
        self._seeds, self._watch = seeds, LoginWatch(self._scope.login, seeds)
        await self._begin(tuple(seeds))
        for seed in seeds:
            self._found(seed, 0)
        for seed in {urljoin(seed, "/"): seed for seed in seeds}.values():
            async for page in self._sitemaps.pages(seed, run=self._run):
                self._found(page, 0)
        while (url := self._frontier.next()) is not None or self._moves:
            if url is None:
                await self._settle_moves()
            elif self.report.pages >= self._scope.pages:
                self.report.complete = False
                self._unread |= {url, *self._frontier}
                await self._settle_moves()
                break
            else:
                await self._visit(url)
        self.report.left_out += [
            f"{url}: its canonical address {canonical} led to no page"
            for url, canonical in self._replaced.items()
            if self._leads_nowhere(url)
        ]
        self.report.delays = [
            f"{robots} asks for {delay_s:.12g} s between two requests; {MAX_WAIT_S:g} s were kept"
            for robots, delay_s in self._fetcher.shortened.items()
        ]
        self._watch.finish()
        # Not before: a crawl that stops asks for them again when it goes on.
        await self._ledger.write(self._refused)
        await self._sweep()
        await self._ledger.write({ITSELF: Visit(run=self._run, version=self._deleted)})
        return self.report

    @property
    def is_refused(self) -> bool:
        """Whether as many pages asked for a login as were read, or more."""
        return self._watch.is_refused

    async def _begin(self, seeds: tuple[str, ...]) -> None:
        self.report.known = sum(bool(visit.fingerprint) for _, visit in self._ledger)
        last, now = self._ledger[ITSELF], self._ports.now()
        readers = self._scope.readers
        self._deleted = 0 if last is None else last.version
        # Only an unfinished run has links.
        is_same = last is not None and (last.links, last.readers) == (seeds, readers)
        if not self._force and last is not None and is_same and now - int(last.run) < RESUME_MS:
            self._run = last.run
            return
        self._run = str(now)
        await self._ledger.write({ITSELF: Visit(run=self._run, version=self._deleted, links=seeds, readers=readers)})

    def _found(self, url: str, depth: int) -> None:
        """Queue a URL, or its links if this run has visited it; again if it is now reachable at a smaller depth."""
        waiting = deque([(url, depth)])
        while waiting:
            url, depth = waiting.popleft()
            is_new = url not in self._frontier
            if not self._frontier.reach(url, depth):
                continue
            if self._scope.login and is_logout(url):
                if is_new:
                    self.report.left_out.append(f"{url} was not asked: it may end the login")
                continue
            known = self._standing(url)
            if known is not None and known.run == self._run:
                waiting.extend((link, depth + (not known.moved)) for link in known.links)
            elif is_new:
                self._frontier.add(url)

    def _standing(self, url: str) -> Visit | None:
        return self._moves.get(url) or self._gone.get(url) or self._refused.get(url) or self._ledger[url]

    async def _visit(self, url: str) -> None:
        known = self._ledger[url]
        robots = await self._fetcher.rules(url)
        if robots is None:
            await self._keep(url, known, f"{url}: its robots.txt cannot be read: {self._fetcher.why_unread(url)}")
            return
        if not robots.allows(url):
            self.report.by_robots += 1
            self._unread.add(url)
            return
        if self._fetcher.is_closed(host_of(url)):
            await self._keep(url, known, "")
            return
        self.report.pages += 1
        headers = {} if known is None or not self._may_revalidate(known) else known.validators
        try:
            answer = await self._fetcher.ask(url, headers)
        except Unavailable as error:
            if not self._try_later(url):
                await self._keep(url, known, str(error))
            return
        except Misconfigured:
            raise
        except Rejected as error:
            self.report.left_out.append(str(error))
            await self._keep(url, known, "")
            return
        await self._take(answer, known)

    def _may_revalidate(self, known: Visit) -> bool:
        """Return whether a conditional request suffices: not for rendered pages, whose scripts may load other data."""
        is_rendered = known.is_page and self._ports.render is not None
        return (
            not (self._force or known.pending or is_rendered)
            and bool(known.fingerprint)
            and known.readers == self._scope.readers
        )

    async def _take(self, answer: WebAnswer, known: Visit | None) -> None:
        url, status = answer.url, answer.status
        self._watch.miss(url, status)
        if (refusal := refusal_of(answer)) is not None:
            await self._refuse(answer, known, refusal)
        elif status == OK:
            await self._read(answer, known)
        elif status == NOT_MODIFIED and known is not None:
            self._watch.read()
            self.report.unchanged += 1
            await self._arrive(url, replace(known, run=self._run))
        elif status in MOVED | ELSEWHERE:
            await self._redirect(answer, known)
        elif status in GONE:
            await self._vanish(url, known, Visit(run=self._run))
        elif status not in BUSY or not self._try_later(url, answer):
            await self._keep(url, known, f"{url}: status {status}{self._pause(answer)}")

    def _pause(self, answer: WebAnswer) -> str:
        """Return what is told of a host that is left alone; empty for others."""
        if not self._fetcher.is_closed(host_of(answer.url)):
            return ""
        return f"; its host wants to be left alone for {answer.retry_after_s or inf:g} s"

    async def _read(self, answer: WebAnswer, known: Visit | None) -> None:
        url = answer.url
        try:
            content, study = await self._study(answer)
        except Unavailable as error:
            await self._keep(url, known, str(error))
            return
        except Rejected as error:
            self.report.left_out.append(str(error))
            await self._keep(url, known, "")
            return
        except UnreadableContent as error:
            self.report.left_out.append(f"{url}: {error}")
            await self._vanish(url, known, Visit(run=self._run))
            return
        asks_password = study.links is not None and study.links.asks_password
        if asks_password and self._shut(known):
            await self._refuse(answer, known, PASSWORD)
            return
        self._watch.read()
        visit = Visit(
            run=self._run,
            links=followed(answer, study),
            is_page=answer.media_type in PAGES,
            asks_password=asks_password,
        )
        canonical = self._canonical(url, study)
        if canonical is not None:
            # The content is published under its canonical URL, and links are followed from there.
            if known is None or not known.fingerprint:
                self._replaced[url] = canonical
            await self._move(url, known, replace(visit, links=(canonical,), moved=True))
        elif not is_indexed(answer, study):
            await self._vanish(url, known, visit)
        elif not study.fingerprint and study.links is None:
            # A file leads nowhere, and needs no script to have text.
            self.report.left_out.append(f"{url}: no text")
            await self._vanish(url, known, visit)
        elif not study.fingerprint:
            await self._lead_on(
                url, known, visit, refreshes=study.links is not None and study.links.refresh is not None
            )
        else:
            await self._document(answer, content, study, visit, known)

    async def _lead_on(self, url: str, known: Visit | None, visit: Visit, *, refreshes: bool) -> None:
        """Follow the links of a page without text, and keep its document; refreshes: it leads on by itself."""
        if refreshes and (known is None or not known.fingerprint):
            await self._arrive(url, visit)
            return
        reason = f"{url}: no text; the page may need scripts that did not run"
        if known is not None and known.pending:
            await self._keep(url, known, reason)
        else:
            self._unread.add(url)
            self.report.failed.append(reason)
            if known is None or known.failing_since:
                known = replace(visit, failing_since=self._ports.now() if known is None else known.failing_since)
                self.report.complete &= not self._may_lead_on(url, known)
            # Not in the ledger yet: when an interrupted crawl goes on, it knows no links but those of the ledger.
            self._refused[url] = replace(known, run=self._run)
            self._follow(url, known)
        self._follow(url, visit)

    async def _study(self, answer: WebAnswer) -> tuple[str | bytes, PageStudy]:
        """Return the content of a response, a page after its scripts, and its study."""
        content: str | bytes = answer.content
        if answer.media_type in PAGES:
            content = decode_page(answer.content, answer.headers.get("content-type", ""))
            if self._ports.render is not None:
                content = await self._ports.render(answer.url, content)
        return content, await self._ports.study(answer.url, answer.media_type or None, content)

    def _shut(self, known: Visit | None) -> bool:
        """Return whether a page that asks for a password now was a document that a login had opened."""
        return bool(self._scope.login and known is not None and known.fingerprint and not known.asks_password)

    async def _refuse(self, answer: WebAnswer, known: Visit | None, refusal: Refusal) -> None:
        """Keep the document of a page that asks for a login, and stop if the login of the crawl has ended."""
        url, message = answer.url, f"{answer.url} {refusal.why}"
        is_for_others = bool(self._scope.login) and refusal.is_forbidden
        is_document = known is not None and bool(known.fingerprint) and not known.pending
        is_suspect = self._watch.refuse(url, refusal, is_document=is_document)
        if known is not None and is_document:
            self.report.failed.append(message)
            self._refused[url] = replace(known, run=self._run)
            self._follow(url, known)
        elif (known is not None and known.pending) or (answer.status in REFUSED and not is_for_others):
            await self._keep(url, known, message)
        else:
            self.report.left_out.append(message)
            self._refused[url] = Visit(run=self._run)
        if is_suspect:
            for seed in self._seeds:
                if await self._ask_for_refusal(seed, self._ledger[seed]):
                    self._watch.end()

    async def _ask_for_refusal(self, url: str, known: Visit | None) -> Refusal | None:
        """Ask for a page; return how it, or where it redirects to, asks for a login. None if it cannot be read."""
        try:
            answer = await self._fetcher.follow(url)
            if (refusal := refusal_of(answer)) is not None:
                return refusal
            if is_login(answer.url) and not is_login(url):
                return redirect_to(answer.url)
            if answer.status != OK or not self._shut(known):
                return None
            _, study = await self._study(answer)
        except Misconfigured:
            raise
        except (Unavailable, Rejected, UnreadableContent):
            return None
        return PASSWORD if study.links is not None and study.links.asks_password else None

    async def _document(
        self, answer: WebAnswer, content: str | bytes, study: PageStudy, visit: Visit, known: Visit | None
    ) -> None:
        scope, now = self._scope, self._ports.now()
        visit = replace(
            visit, fingerprint=study.fingerprint, readers=scope.readers, validators=validators(answer.headers)
        )
        published = None if known is None or known.pending or self._force else (known.fingerprint, known.readers)
        if known is not None and published == (visit.fingerprint, visit.readers):
            self.report.unchanged += 1
            await self._arrive(answer.url, replace(visit, version=known.version))
            return
        version = max(now, 1 + max(self._deleted, 0 if known is None else known.version))
        change = upsert_of(answer, content, scope, version=version, now=now, language=study.language)
        await self._ledger.write(
            {answer.url: Visit(run="", fingerprint=visit.fingerprint, version=version, pending=True)}
        )
        await self._ports.publish([change])
        self.report.published += 1
        await self._arrive(answer.url, replace(visit, version=version))

    def _canonical(self, url: str, study: PageStudy) -> str | None:
        """Return the canonical URL of a page if it is another one in scope; None if that one moved in this run too."""
        canonical = None if study.links is None else study.links.canonical
        if canonical is None or canonical == url or host_of(canonical) not in self._scope.hosts:
            return None
        target = self._standing(canonical)
        return None if target is not None and target.run == self._run and target.moved else canonical

    async def _redirect(self, answer: WebAnswer, known: Visit | None) -> None:
        url = answer.url
        target = normalise_url(answer.headers.get("location", ""), base=url)
        hops = self._redirects.get(url, 0) + 1
        if target is None or target == url or hops > self._scope.max_redirects:
            await self._keep(url, known, f"{url}: redirected without a valid target, or too often")
            return
        if host_of(target) not in self._scope.hosts:
            await self._lead_out(url, known, target)
            return
        if answer.status in MOVED and self._shut(known) and await self._ask_for_refusal(target, known) is not None:
            await self._refuse(answer, known, redirect_to(target))
            return
        self._redirects.setdefault(target, hops)
        if answer.status in ELSEWHERE and known is not None and known.fingerprint:
            # A temporary redirect: the published document stays.
            self._found(target, self._frontier.depth(url))
            await self._arrive(url, replace(known, run=self._run))
        else:
            await self._move(url, known, Visit(run=self._run, links=(target,), moved=True))

    async def _lead_out(self, url: str, known: Visit | None, target: str) -> None:
        """Keep the document of a page that redirects to another host: the site may have moved, so it is not deleted."""
        reason = f"{url} redirects to {target}; add --host {host_of(target)} to crawl it"
        was_read = known is not None and not known.failing_since
        if was_read or self._frontier.depth(url) == 0:
            await self._keep(url, known, reason)
        else:
            self.report.left_out.append(reason)
            await self._arrive(url, Visit(run=self._run))

    async def _move(self, url: str, known: Visit | None, visit: Visit) -> None:
        """Record that another URL replaces this one, whose document stays until that one was read."""
        if known is None or not known.fingerprint:
            await self._arrive(url, visit)
            return
        # Not in the ledger yet: a crawl that is interrupted asks again when it goes on.
        self._moves[url] = visit
        self._follow(url, visit)

    async def _settle_moves(self) -> None:
        """Let the documents of URLs that moved go; keep those whose new address led nowhere, and follow their links."""
        moves = {url: (visit, self._leads_nowhere(url)) for url, visit in self._moves.items()}
        self._moves.clear()
        for url, (visit, is_lost) in moves.items():
            known = self._ledger[url]
            if is_lost:
                await self._keep(url, known, f"{url} moved to {visit.links[0]}, which could not be read")
            else:
                await self._vanish(url, known, visit)

    def _leads_nowhere(self, url: str) -> bool:
        """Return whether a URL that moved leads back to itself, or to one without document that could not be read.

        A page that is still there also leads nowhere if its canonical address is none of a page.
        """
        passed: set[str] = set()
        visit = self._standing(url)
        # Redirects are no pages.
        is_there = visit is not None and visit.is_page
        while visit is not None and visit.run == self._run and visit.moved:
            if url in passed:
                return True
            passed.add(url)
            url = visit.links[0]
            visit = self._standing(url)
        if visit is not None and visit.fingerprint:
            return False
        if url in self._unread or url in self._refused or (visit is not None and visit.failing_since):
            return True
        return is_there and not (visit is not None and visit.is_page)

    async def _keep(self, url: str, known: Visit | None, reason: str) -> None:
        """Keep the published document of a URL that cannot be read, and follow its last known links."""
        self._unread.add(url)
        if reason:
            self.report.failed.append(reason)
        if known is not None and not (known.pending or self._may_lead_on(url, known)):
            await self._arrive(url, replace(known, run=self._run))
            return
        if known is not None or reason:
            self.report.complete = False
        if known is None and reason:
            # Of no run: a crawl that is interrupted asks again when it goes on.
            await self._ledger.write({url: Visit(run="", failing_since=self._ports.now())})

    def _may_lead_on(self, url: str, known: Visit) -> bool:
        """Return whether a URL that was never read has not failed for long enough to be given up; a start never is."""
        is_start = url in self._seeds or (self._frontier.depth(url) == 0 and url in self._redirects)
        return bool(known.failing_since) and (is_start or self._ports.now() - known.failing_since < FAILING_MS)

    async def _vanish(self, url: str, known: Visit | None, visit: Visit) -> None:
        """Record that a URL has no document; the one that was published goes at the end."""
        if known is None or not known.fingerprint:
            await self._arrive(url, visit)
            return
        # Not in the ledger yet: a crawl that is interrupted, or may not delete it, asks again.
        self._gone[url] = visit
        self._follow(url, visit)

    async def _arrive(self, url: str, visit: Visit) -> None:
        """Record a visit, and queue its links."""
        await self._ledger.write({url: visit})
        self._follow(url, visit)

    def _follow(self, url: str, visit: Visit) -> None:
        depth = self._frontier.depth(url) + (not visit.moved)
        for link in visit.links:
            self._found(link, depth)

    async def _sweep(self) -> None:
        """Delete the documents of URLs that have none any more, after a complete crawl also those it did not reach.

        All of them stay if they are most of what is known: then the site, or the start of the crawl, may be wrong.
        """
        after: dict[str, Visit | None] = {**self._gone, **dict.fromkeys(await self._unreached())}
        gone = {url: visit for url in after if (visit := self._ledger[url]) is not None and visit.fingerprint}
        if not self._delete_most and is_mass_deletion(len(gone), self.report.known):
            self.report.held_back = sorted(gone)
            return
        urls = list(after)
        for start in range(0, len(urls), BATCH_DELETIONS):
            batch = urls[start : start + BATCH_DELETIONS]
            await self._delete([(url, gone[url]) for url in batch if url in gone])
            await self._ledger.write({url: after[url] for url in batch})

    async def _unreached(self) -> Sequence[str]:
        """Return what the ledger has and this run did not reach; nothing if it may have been there to reach."""
        self._miss_links()
        if not self.report.complete:
            return ()
        unreached = [(url, visit) for url, visit in self._ledger if visit.run != self._run and url not in self._gone]
        if self._scope.login and await self._is_hidden([one for one in unreached if one[1].fingerprint]):
            return ()
        return [url for url, _ in unreached]

    def _miss_links(self) -> None:
        """Let the crawl count as incomplete where a page had more links than are read."""
        for url, visit in [*self._ledger, *self._gone.items()]:
            if visit.run == self._run and len(visit.links) >= MAX_LINKS:
                self.report.failed.append(f"{url}: of its links, no more than the first {MAX_LINKS:,} are followed")
                self.report.complete = False

    async def _is_hidden(self, documents: Sequence[tuple[str, Visit]]) -> bool:
        """Ask for a few of the documents that no link leads to: return whether one asks for a login.

        Pages may show fewer links to strangers. Raises Misconfigured if the login seems to have ended.
        """
        step = max(1, len(documents) // MAX_PROBES)
        for url, known in documents[::step][:MAX_PROBES]:
            robots = await self._fetcher.rules(url)
            if robots is None or not robots.allows(url):
                continue
            refusal = await self._ask_for_refusal(url, known)
            if refusal is not None:
                self._watch.refuse(url, refusal, is_document=True)
                if not refusal.is_forbidden:
                    self._watch.end()
                self.report.failed.append(f"{url} {refusal.why}")
                self.report.complete = False
        return not self.report.complete

    async def _delete(self, gone: Sequence[tuple[str, Visit]]) -> None:
        now = self._ports.now()
        versions = {url: max(now, visit.version + 1) for url, visit in gone}
        self._deleted = max([self._deleted, *versions.values()])
        itself = self._ledger[ITSELF]
        if itself is not None:
            await self._ledger.write({ITSELF: replace(itself, version=self._deleted)})
        await self._ledger.write({url: replace(visit, run="", links=(), pending=True) for url, visit in gone})
        await self._ports.publish(
            [deletion_of(url, self._scope, version=version, now=now) for url, version in versions.items()]
        )
        self.report.deleted += len(gone)

    def _try_later(self, url: str, answer: WebAnswer | None = None) -> bool:
        """Queue a URL again, after the server's Retry-After; return False where it was asked often enough."""
        if not self._frontier.may_retry(url):
            return False
        if answer is not None and answer.retry_after_s is not None:
            self._fetcher.wait_longer(host_of(url), answer.retry_after_s)
        if self._fetcher.is_closed(host_of(url)):
            self.report.complete = False
            return False
        self._frontier.add(url)
        return True
