from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.operators.crawl import page as page_module
from freki.operators.crawl import sitemap as sitemap_module
from freki.schemas import Operation, TenantId, Timestamp
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.web import WebAnswer
from freki.streams.feed import crawl as crawl_module
from freki.streams.feed import crawl_sitemaps
from freki.streams.feed.crawl import Crawl
from freki.streams.feed.crawl_documents import document_id
from freki.streams.feed.crawl_records import CrawlPorts, CrawlScope, Report, Visit
from freki.streams.feed.page_study import PageStudy
from freki.streams.feed.page_study import study as study_page
from freki.streams.ingest.parse import ParseLimits
from tests.unit.published import Killed, World

HOME = "https://example.org"
SCOPE = CrawlScope(
    hosts=frozenset({"example.org"}),
    depth=5,
    pages=100,
    delay_s=1.0,
    max_bytes=1000,
    max_redirects=3,
    tenant=TenantId("t"),
    principals=("everyone",),
    priority=0,
)
LIMITS = ParseLimits(max_characters=10_000, max_pages=10, max_unpacked_bytes=10_000)

Page = str | int | Exception | tuple[int, dict[str, str]] | WebAnswer


@dataclass
class Site:
    """A web server: pages by path; a number is a status, an exception what asking leads to."""

    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    time: float = 1000.0
    lives: int = 1_000_000

    async def fetch(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        assert max_bytes == SCOPE.max_bytes
        path = url.removeprefix(HOME)
        if not self.lives:
            raise Killed
        self.lives -= 1
        self.asked.append(path)
        self.times.append(self.time)
        page = self.pages.get(path, 404)
        if isinstance(page, Exception):
            raise page
        if isinstance(page, int):
            page = (page, {})
        if isinstance(page, tuple):
            wait = page[1].get("retry-after")
            wait_s = None if wait is None else float(wait)
            return WebAnswer(url=url, status=page[0], headers=page[1], content=b"", retry_after_s=wait_s)
        if isinstance(page, WebAnswer):
            return replace(page, url=url)
        etag = f'"{hash(page)}"'
        if headers.get("If-None-Match") == etag:
            return WebAnswer(url=url, status=304, headers={}, content=b"")
        found = {"content-type": "text/html; charset=utf-8", "etag": etag}
        return WebAnswer(url=url, status=200, headers=found, content=page.encode())

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def page(text: str, *links: str, head: str = "") -> str:
    return f"<html lang=de><head>{head}</head><h1>{text}</h1>" + "".join(f'<a href="{link}">x</a>' for link in links)


async def studied(url: str, media_type: str | None, content: str | bytes) -> PageStudy:
    return study_page(url, media_type, content, limits=LIMITS)


async def crawl(
    site: Site,
    world: World,
    *seeds: str,
    render: Any = None,
    study: Any = studied,
    force: bool = False,
    delete_most: bool = False,
    **changes: Any,
) -> Report:
    """Crawl once, as a process does that was just started."""
    ports = CrawlPorts(
        fetch=site.fetch,
        render=render,
        study=study,
        publish=world.publish,
        now=lambda: Timestamp(int(site.time * 1000)),
        clock=lambda: site.time,
        sleep=site.sleep,
    )
    site.time += 1
    ledger = await world.open_ledger("crawl t/example.org", Visit)
    one = Crawl(ports, ledger, replace(SCOPE, **changes), force=force, delete_most=delete_most)
    return await one.walk([HOME + seed for seed in seeds or ("/",)])


def paths(world: World) -> list[str]:
    return sorted(url.removeprefix(HOME) for url in world.documents)


SMALL = {"/": page("Home", "/a", "/b", "https://elsewhere.example/"), "/a": page("A", "/"), "/b": page("B", "/c#x")}


@pytest.fixture
def site() -> Site:
    return Site({**SMALL, "/c": page("C")})


async def test_a_site_becomes_documents_with_what_is_known_of_each_page(site: Site) -> None:
    world = World()

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]
    first = world.changes[0]
    assert (first.document_id, first.source_uri, first.media_type) == (f"{HOME}/", f"{HOME}/", "text/html")
    assert first.attributes == {
        "source_url": f"{HOME}/",
        "crawl_timestamp": "1970-01-01T00:16:43+00:00",
        "lang": "de",
    }
    assert (report.published, report.complete) == (4, True)


async def test_a_page_that_has_not_changed_publishes_nothing(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/a"] = page("A", "/").replace("<html", "<html data-token=1")

    report = await crawl(site, world)

    assert (report.published, report.unchanged, len(world.changes)) == (0, 4, 4)


async def test_a_page_that_has_not_changed_is_published_again_if_it_is_forced(site: Site) -> None:
    world = World()
    await crawl(site, world)

    forced = await crawl(site, world, force=True)
    after = await crawl(site, world)

    assert (forced.published, after.published, len(world.changes)) == (4, 0, 8)
    assert {change.document_id for change in world.changes[4:]} == world.documents.keys()
    assert min(change.version for change in world.changes[4:]) > max(change.version for change in world.changes[:4])


async def test_a_forced_crawl_publishes_what_an_interrupted_one_has_published(site: Site) -> None:
    world = World()
    site.lives = 4
    with pytest.raises(Killed):
        await crawl(site, world)
    site.lives = 1_000_000

    assert (await crawl(site, world, force=True)).published == 4


async def test_a_page_that_has_changed_is_published_again(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/c"] = page("New")

    await crawl(site, world)

    assert "New" in world.documents[f"{HOME}/c"]
    assert len(world.changes) == 5


@pytest.mark.parametrize("status", [404, 410])
async def test_a_page_that_is_gone_is_deleted(site: Site, status: int) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/a"] = status

    await crawl(site, world)

    assert paths(world) == ["/", "/b", "/c"]


async def test_a_page_that_nothing_leads_to_any_more_is_deleted(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/"] = page("Home", "/a")

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a"]
    assert report.deleted == 2


@pytest.mark.parametrize("trouble", [Unavailable("down"), 500, 503, 403, 429, (302, {"location": "/sorry"})])
async def test_a_server_in_trouble_deletes_nothing(site: Site, trouble: Page) -> None:
    world = World()
    await crawl(site, world)
    site.pages.update(dict.fromkeys(("/", "/a", "/b", "/c"), trouble))

    await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]


async def test_a_page_in_trouble_still_leads_to_where_it_led(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/b"] = 500
    del site.pages["/a"]

    report = await crawl(site, world)

    assert paths(world) == ["/", "/b", "/c"]
    assert report.complete


async def test_a_new_page_in_trouble_keeps_all_that_may_lie_behind_it(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages.update({"/": page("Home", "/a", "/menu"), "/menu": Unavailable("down")})

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert (report.complete, report.failed) == (False, ["down"])


TEXTLESS = "<html><script>render()</script>"
DAY_S = 24 * 60 * 60


@pytest.mark.parametrize("trouble", [500, 401, 403, Unavailable("down"), TEXTLESS, (301, {"location": "/menu"})])
async def test_a_new_page_that_stays_in_trouble_keeps_nothing_after_a_week(site: Site, trouble: Page) -> None:
    world = World()
    await crawl(site, world)
    site.pages.update({"/": page("Home", "/a", "/menu"), "/menu": trouble})
    reports = []
    for days in (0, 3, 3, 2, 0):
        site.time += days * DAY_S
        reports.append(await crawl(site, world))

    assert [(report.deleted, report.complete) for report in reports] == [(0, False)] * 3 + [(2, True), (0, True)]
    assert [len(report.failed) for report in reports] == [1] * 5
    assert paths(world) == ["/", "/a"]


@pytest.mark.parametrize("start", [500, (301, {"location": "/new"})])
async def test_a_start_that_was_never_read_keeps_all_for_ever(site: Site, start: Page) -> None:
    world = World()
    await crawl(site, world)
    site.pages.update({"/start": start, "/new": 500})
    for days in (0, 8, 8):
        site.time += days * DAY_S
        assert not (await crawl(site, world, "/start")).complete

    assert paths(world) == ["/", "/a", "/b", "/c"]


async def test_a_page_in_trouble_is_told_again_after_an_interruption_and_what_it_leads_to_stays(site: Site) -> None:
    world = World()
    site.pages.update({"/": page("Home", "/a", "/menu"), "/menu": TEXTLESS + '<a href="/b"><img></a>'})
    await crawl(site, world)
    site.time += 8 * DAY_S
    await crawl(site, world)
    del site.asked[:]
    site.lives = 5
    with pytest.raises(Killed):
        await crawl(site, world)
    assert site.asked[-1] == "/menu"
    site.lives = 1_000_000

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert len(report.failed) == 1


async def test_a_page_that_lost_its_text_leads_on_after_an_interruption(site: Site) -> None:
    world = World()
    site.pages["/"] = page("Home", "/a")
    site.pages["/a"] = page("A", "/b")
    await crawl(site, world)
    site.pages.update({"/a": TEXTLESS + '<a href="/c"><img></a>', "/b": page("B")})
    site.lives = 4
    with pytest.raises(Killed):
        await crawl(site, world)
    site.lives = 1_000_000

    await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]


async def test_a_limit_of_pages_deletes_nothing(site: Site) -> None:
    world = World()
    await crawl(site, world)

    report = await crawl(site, world, pages=2)

    assert (len(paths(world)), report.pages, report.complete) == (4, 2, False)


async def test_links_are_followed_as_deep_as_asked(site: Site) -> None:
    world = World()

    await crawl(site, world, depth=1)

    assert paths(world) == ["/", "/a", "/b"]


async def test_robots_are_obeyed(site: Site) -> None:
    site.pages["/robots.txt"] = "User-agent: freki\nDisallow: /b\nCrawl-delay: 9"
    world = World()

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a"]
    assert "/b" not in site.asked
    assert report.by_robots == 1
    assert min(after - before for before, after in zip(site.times[1:], site.times[2:], strict=False)) == 9


async def test_a_delay_with_which_no_crawl_ends_is_shortened_and_said(site: Site) -> None:
    site.pages["/robots.txt"] = "User-agent: *\nCrawl-delay: 86400"
    world, begin = World(), site.time

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert site.time - begin < 15 * 60
    assert report.delays == [f"{HOME}/robots.txt asks for 86400 s between two requests; 120 s were kept"]


async def test_a_host_whose_robots_cannot_be_read_is_left_alone(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/robots.txt"] = 503
    del site.asked[:]

    await crawl(site, world)

    assert site.asked == ["/robots.txt"]
    assert len(paths(world)) == 4


async def test_a_host_is_asked_no_faster_than_it_should(site: Site) -> None:
    await crawl(site, World())

    assert all(after - before >= 1 for before, after in zip(site.times, site.times[1:], strict=False))


async def test_a_busy_server_says_when_to_come_back(site: Site) -> None:
    site.pages["/a"] = (429, {"retry-after": "30"})
    world = World()

    report = await crawl(site, world)

    first, second = (time for path, time in zip(site.asked, site.times, strict=True) if path == "/a")
    assert second - first >= 30
    assert report.failed == [f"{HOME}/a: status 429"]


async def test_a_host_that_wants_to_be_left_alone_for_long_is_not_asked_again(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages |= {"/": page("Home", "/a"), "/a": (503, {"retry-after": "3600"})}
    del site.asked[:], site.times[:]

    report = await crawl(site, world)

    assert (site.asked[-1], site.asked.count("/a")) == ("/a", 1)
    assert report.failed == [f"{HOME}/a: status 503; its host wants to be left alone for 3600 s"]
    assert (paths(world), report.complete) == (["/", "/a", "/b", "/c"], False)


async def test_sitemaps_lead_to_pages_that_no_link_does(site: Site) -> None:
    site.pages["/robots.txt"] = f"Sitemap: {HOME}/index.xml"
    site.pages["/index.xml"] = "<sitemapindex><sitemap><loc>/map.xml</loc></sitemap></sitemapindex>"
    site.pages["/map.xml"] = "<urlset><url><loc>/hidden</loc></url><url><loc>https://x.example/</loc></url></urlset>"
    site.pages["/hidden"] = page("Hidden")
    world = World()

    await crawl(site, world)

    assert "/hidden" in paths(world)


DOWN = Unavailable("no answer within 30 s")


async def test_each_redirect_of_a_sitemap_is_relative_to_the_one_before(site: Site) -> None:
    world = World()
    site.pages |= {
        "/sitemap.xml": (302, {"location": "/maps/index.xml"}),
        "/maps/index.xml": (302, {"location": "all.xml"}),
        "/maps/all.xml": "<urlset><url><loc>/hidden</loc></url></urlset>",
        "/hidden": page("Hidden"),
    }

    await crawl(site, world)

    assert "/hidden" in paths(world)


@pytest.mark.parametrize(
    "down",
    [
        {"/sitemap.xml": 500},
        {"/sitemap.xml": DOWN},
        {"/sitemap.xml": page("We shall be back soon")},
        {"/robots.txt": 503},
        {"/robots.txt": DOWN},
        dict.fromkeys(("/", "/a", "/b", "/c", "/hidden", "/robots.txt", "/sitemap.xml"), DOWN),
    ],
)
async def test_a_sitemap_that_cannot_be_read_deletes_nothing(site: Site, down: Mapping[str, Page]) -> None:
    site.pages["/sitemap.xml"] = "<urlset><url><loc>/hidden</loc></url></urlset>"
    site.pages["/hidden"] = page("Hidden")
    world = World()
    await crawl(site, world)
    site.pages |= down

    report = await crawl(site, world)

    assert "/hidden" in paths(world)
    assert not report.complete
    assert report.failed


async def test_pages_of_a_sitemap_that_is_gone_are_deleted_and_a_site_needs_none(site: Site) -> None:
    site.pages["/sitemap.xml"] = "<urlset><url><loc>/hidden</loc></url></urlset>"
    site.pages["/hidden"] = page("Hidden")
    world = World()
    await crawl(site, world)
    site.pages["/sitemap.xml"] = 404

    report = await crawl(site, world)

    assert (paths(world), report.complete) == (["/", "/a", "/b", "/c"], True)

    # Many sites answer with a page instead of 404.
    site.pages["/sitemap.xml"] = page("There is no such page")
    assert (await crawl(site, world)).complete


async def test_of_very_many_sitemaps_the_rest_is_missed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_sitemaps, "MAX_SITEMAPS", 2)
    site.pages["/robots.txt"] = "".join(f"Sitemap: {HOME}/{number}.xml\n" for number in range(3))
    site.pages |= {f"/{number}.xml": "<urlset></urlset>" for number in range(3)}

    report = await crawl(site, World())

    assert not report.complete
    assert report.failed == [f"{HOME}/2.xml and further sitemaps were not read: there are more than 2"]


async def test_a_page_is_known_by_its_canonical_address() -> None:
    canonical = page("Tea", head='<link rel=canonical href="/tea">')
    site = Site({"/": page("Home", "/tea?from=home", "/tea?from=menu"), "/tea": canonical})
    site.pages |= {"/tea?from=home": canonical, "/tea?from=menu": canonical}
    world = World()

    await crawl(site, world)

    assert paths(world) == ["/", "/tea"]


@pytest.mark.parametrize("there", [404, 503, page("x", head='<link rel=canonical href="/y">')])
async def test_a_new_page_whose_canonical_address_leads_nowhere_is_named(there: Page) -> None:
    site = Site({"/": page("Home", "/a"), "/a": page("A", head='<link rel=canonical href="/x">'), "/x": there})
    world = World()

    report = await crawl(site, world)

    assert paths(world) == ["/"]
    assert f"{HOME}/a: its canonical address {HOME}/x led to no page" in report.left_out


async def test_pages_that_point_at_each_other_are_one_document() -> None:
    site = Site(
        {"/": page("1", head='<link rel=canonical href="/x">'), "/x": page("1", head='<link rel=canonical href="/">')}
    )
    world = World()

    await crawl(site, world)

    assert paths(world) == ["/x"]


async def test_a_page_that_moved_is_known_by_its_new_address(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages |= {"/a": (301, {"location": "/new"}), "/new": page("A")}

    await crawl(site, world)

    assert paths(world) == ["/", "/b", "/c", "/new"]


async def test_redirects_end() -> None:
    site = Site({f"/{number or ''}": (302, {"location": f"/{number + 1}"}) for number in range(20)})

    report = await crawl(site, World())

    assert report.pages == SCOPE.max_redirects + 1
    assert "redirected without a valid target, or too often" in report.failed[0]


async def test_a_site_that_moved_to_another_host_deletes_nothing_and_names_it(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages = {"/": (301, {"location": "https://www.example.org/"})}

    report = await crawl(site, world)

    assert "/" in paths(world)
    assert report.failed == [f"{HOME}/ redirects to https://www.example.org/; add --host www.example.org to crawl it"]


async def test_a_page_that_leads_to_another_host_hinders_nothing(site: Site) -> None:
    site.pages["/a"] = (302, {"location": "https://elsewhere.example/"})
    world = World()

    report = await crawl(site, world)

    assert paths(world) == ["/", "/b", "/c"]
    assert report.complete


async def test_a_page_that_takes_too_much_to_parse_stays_as_it_was(site: Site) -> None:
    async def too_much(url: str, *_: object) -> PageStudy:
        raise Rejected(f"{url}: took more than 60 s to parse")

    world = World()
    await crawl(site, world)
    site.pages["/a"] = page("Much", "/")

    report = await crawl(site, world, study=too_much)

    assert len(paths(world)) == 4
    assert report.left_out == [f"{HOME}/a: took more than 60 s to parse"]


@pytest.mark.parametrize(
    "secret",
    [
        page("Secret", "/c", head='<meta name=robots content="noindex">'),
        WebAnswer(
            url="",
            status=200,
            headers={"content-type": "text/html", "x-robots-tag": "noindex"},
            content=page("Secret", "/c").encode(),
        ),
        WebAnswer(
            url="",
            status=200,
            headers={"content-type": "text/html", "x-robots-tag": "otherbot: nofollow, Freki: noindex"},
            content=page("Secret", "/c").encode(),
        ),
    ],
    ids=["meta", "header", "header for freki"],
)
async def test_a_page_that_asks_not_to_be_indexed_is_no_document(site: Site, secret: Page) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/b"] = secret

    await crawl(site, world)

    assert paths(world) == ["/", "/a", "/c"]


async def test_what_a_header_asks_of_another_crawler_is_not_obeyed(site: Site) -> None:
    headers = {"content-type": "text/html", "x-robots-tag": "otherbot: noindex, nofollow"}
    site.pages["/b"] = WebAnswer(url="", status=200, headers=headers, content=page("B", "/c").encode())
    world = World()

    await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]


@pytest.mark.parametrize("rules", ["nofollow", "None", "freki: nofollow"])
async def test_links_of_a_page_that_asks_so_are_not_followed(site: Site, rules: str) -> None:
    headers = {"content-type": "text/html", "x-robots-tag": rules}
    site.pages["/b"] = WebAnswer(url="", status=200, headers=headers, content=page("B", "/c").encode())

    await crawl(site, World())

    assert "/c" not in site.asked


async def test_files_are_documents_and_what_no_parser_reads_is_none() -> None:
    site = Site({"/": page("Home", "/notes.md", "/data.bin", "/big")})
    site.pages["/notes.md"] = WebAnswer(
        url="", status=200, headers={"content-type": "text/markdown"}, content=b"# Notes"
    )
    site.pages["/data.bin"] = WebAnswer(url="", status=200, headers={}, content=b"\0\1")
    site.pages["/big"] = Rejected("more than 1000 bytes")
    world = World()

    report = await crawl(site, world)

    assert paths(world) == ["/", "/notes.md"]
    assert [reason.removeprefix(HOME)[:9] for reason in report.left_out] == ["/data.bin", "more than"]
    assert report.complete


async def test_a_file_without_text_is_no_document_and_hinders_no_deletion(site: Site) -> None:
    world = World()
    full = WebAnswer(url="", status=200, headers={"content-type": "text/plain"}, content=b"text")
    empty = replace(full, content=b" \n")
    site.pages |= {"/full.txt": full, "/empty.txt": empty}
    site.pages["/"] = page("Home", "/a", "/b", "/full.txt", "/empty.txt")
    await crawl(site, world)
    site.pages["/full.txt"] = empty
    site.pages["/b"] = page("B")

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b"]
    assert report.left_out == [f"{HOME}/full.txt: no text", f"{HOME}/empty.txt: no text"]
    assert (report.failed, report.complete) == ([], True)


async def test_links_beyond_the_most_that_are_read_lead_to_documents_that_stay(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (page_module, crawl_module):
        monkeypatch.setattr(module, "MAX_LINKS", 3)
    world = World()
    await crawl(site, world)
    site.pages |= {f"/{name}": page(name) for name in "xyz"}
    site.pages["/"] = page("Home", "/x", "/y", "/z", "/a", "/b")

    reports = [await crawl(site, world), await crawl(site, world)]

    assert paths(world) == ["/", "/a", "/b", "/c", "/x", "/y", "/z"]
    assert [report.complete for report in reports] == [False, False]
    assert reports[0].failed == [f"{HOME}/: of its links, no more than the first 3 are followed"]


async def test_pages_beyond_the_most_that_are_read_of_a_sitemap_stay(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    site.pages |= {"/lone": page("Lone"), "/sitemap.xml": "<urlset><url><loc>/lone</loc></url></urlset>"}
    await crawl(site, world)
    for module in (sitemap_module, crawl_sitemaps):
        monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    entries = "<url><loc>/new</loc></url><url><loc>/lone</loc></url>"
    site.pages |= {"/new": page("New"), "/sitemap.xml": f"<urlset>{entries}</urlset>"}

    report = await crawl(site, world)

    assert {"/lone", "/new"} <= set(paths(world))
    assert report.failed == [f"{HOME}/sitemap.xml has more than 1 addresses, of which the first were read"]


async def test_a_page_whose_publishing_was_interrupted_stays_when_it_is_too_large_then(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/c"] = page("C, longer")
    world.lives = 5
    with pytest.raises(Killed):
        await crawl(site, world)
    world.lives = 1_000_000
    site.pages["/c"] = Rejected("more than 1000 bytes")

    await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]


async def test_a_page_that_scripts_fill_is_read_as_they_leave_it(site: Site) -> None:
    async def render(url: str, html: str) -> str:
        return html.replace("</h1>", " from a script</h1>") if url.endswith("/a") else html

    world = World()
    await crawl(site, world, render=render)
    again = await crawl(site, world, render=render)

    assert "from a script" in world.documents[f"{HOME}/a"]
    assert again.unchanged == 4


async def test_a_page_without_text_is_not_taken_for_an_empty_document(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages["/a"] = "<html><script>render()</script>"

    report = await crawl(site, world)

    assert "/a" in paths(world)
    assert "scripts" in report.failed[0]


async def test_a_page_that_only_leads_on_is_no_document_and_hinders_no_deletion(site: Site) -> None:
    world = World()
    site.pages |= {"/start": '<meta http-equiv="Refresh" content="0; URL=\'/\'">'}

    report = await crawl(site, world, "/start")

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert (report.failed, report.complete) == ([], True)


async def test_links_of_a_page_without_text_are_followed(site: Site) -> None:
    world = World()
    site.pages |= {"/start": '<a href="/"><img src="arms.png"></a>'}

    report = await crawl(site, world, "/start")

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert report.failed


async def test_other_readers_are_a_change_of_every_document(site: Site) -> None:
    world = World()
    await crawl(site, world)

    await crawl(site, world, principals=("staff",))

    assert [change.principals for change in world.changes[4:]] == [("staff",)] * 4


async def test_an_unfinished_crawl_goes_on_where_it_ended(site: Site) -> None:
    world = World()
    site.lives = 4
    with pytest.raises(Killed):
        await crawl(site, world)
    asked = set(site.asked) - {"/robots.txt", "/sitemap.xml"}
    del site.asked[:]
    site.lives = 100

    await crawl(site, world)

    assert len(asked) == 2
    assert asked.isdisjoint(site.asked)
    assert paths(world) == ["/", "/a", "/b", "/c"]


async def test_a_crawl_for_other_readers_does_not_go_on_with_an_unfinished_one(site: Site) -> None:
    world = World()
    site.lives = 4
    with pytest.raises(Killed):
        await crawl(site, world)
    assert world.changes
    site.lives = 100

    await crawl(site, world, principals=("staff",))

    last = {change.document_id: change.principals for change in world.changes}
    assert set(last.values()) == {("staff",)}
    assert paths(world) == ["/", "/a", "/b", "/c"]


webs = st.dictionaries(st.sampled_from("abcde"), st.lists(st.sampled_from("abcde"), max_size=3), max_size=5)


@settings(max_examples=60)
@given(before=webs, after=webs, first=st.integers(0, 12), lives=st.integers(0, 14))
async def test_a_crawl_that_is_killed_anywhere_ends_with_the_site_after_a_restart(
    before: dict[str, list[str]], after: dict[str, list[str]], first: int, lives: int
) -> None:
    def pages(web: dict[str, list[str]]) -> dict[str, Page]:
        return {f"/{name}": page(name + "".join(links), *links) for name, links in web.items()}

    site, world = Site(pages(before)), World(lives=first)
    for then, killed_after in ((before, lives), (after, 1_000_000)):
        site.pages = pages(then)
        try:
            await crawl(site, world, "/a")
        except Killed:
            world.lives = killed_after
    site.time += 100_000
    world.lives = 1_000_000
    await crawl(site, world, "/a")

    reached, waiting = set(), ["a"]
    while waiting:
        name = waiting.pop()
        if name in after and name not in reached:
            reached.add(name)
            waiting += after[name]
    assert paths(world) == sorted(f"/{name}" for name in reached)
    assert all(name[1:] + "".join(after[name[1:]]) in world.documents[HOME + name] for name in paths(world))


def test_a_long_address_has_an_id_of_its_own() -> None:
    long = [document_id(f"{HOME}/{'x' * 600}{end}") for end in "ab"]

    assert len(set(long)) == 2
    assert all(len(one) <= 512 for one in long)


async def test_deletions_come_with_a_version_above_what_was_published(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.time -= 500
    site.pages["/c"] = 404

    await crawl(site, world)

    assert world.changes[-1].operation is Operation.DELETE
    assert "/c" not in paths(world)


@pytest.mark.parametrize("accident", ["gone", "no link", "killed"])
async def test_a_page_that_comes_back_wins_over_its_deletion_whatever_the_clock_says(site: Site, accident: str) -> None:
    there, world = dict(site.pages), World()
    await crawl(site, world)
    site.time += 10_000_000
    if accident == "gone":
        site.pages["/c"] = 404
    else:
        site.pages["/b"] = page("B")
    await crawl(site, world)
    if accident == "killed":
        # Before the deletion and the end of the crawl were recorded.
        del world.ledger[-2:]
    assert "/c" not in paths(world)
    site.time -= 5_000_000
    site.pages = there

    # The first one goes on with the crawl that was killed.
    for _ in range(2):
        await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]


@pytest.mark.parametrize(
    "trouble",
    [
        {"/a": (301, {"location": "/b"}), "/b": (308, {"location": "/a"})},
        {"/": (301, {"location": "/start"}), "/start": (301, {"location": "/"})},
        {f"/{name}": (301, {"location": f"/{after}"}) for name, after in ("a1", "12", "23", "34", "45")},
        {"/a": (301, {"location": "/new"}), "/new": 500},
        {"/a": (301, {"location": "/new"}), "/new": Unavailable("refused")},
        {"/a": page("A", head='<link rel=canonical href="/new">'), "/new": 503},
        {"/a": page("A", head='<link rel=canonical href="/new">'), "/new": 404},
        {"/a": (301, {"location": "/new"}), "/new": Rejected("larger than FREKI_CRAWL__MAX_PAGE_MB")},
        {"/a": (301, {"location": "/new"}), "/robots.txt": "User-agent: *\nDisallow: /new"},
    ],
    ids=["loop", "loop of the start", "too many", "error", "down", "canonical", "canonical 404", "large", "robots"],
)
async def test_a_page_that_moved_stays_until_its_new_address_was_read(site: Site, trouble: Mapping[str, Page]) -> None:
    world = World()
    await crawl(site, world)
    site.pages |= trouble

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert report.failed

    site.pages |= {**SMALL, "/c": page("C"), "/robots.txt": 404, "/a": (301, {"location": "/new"}), "/new": page("A")}
    await crawl(site, world)
    assert paths(world) == ["/", "/b", "/c", "/new"]


NAMES = [f"/{number:02}" for number in range(19)]
LARGE: Mapping[str, Page] = {
    "/": page("Home", *NAMES),
    "/other": page("Other"),
    **{name: page(f"Page {name}", "/") for name in NAMES},
}
CANONICAL = '<link rel="canonical" href="/">'
NOINDEX = '<meta name="robots" content="noindex">'
ACCIDENTS: Mapping[str, Mapping[str, Page]] = {
    "a page without links": {"/": page("Maintenance")},
    "no page is found": dict.fromkeys(["/", *NAMES], 404),
    "not to be indexed": {name: page("x", "/", head=NOINDEX) for name in NAMES},
    "one canonical address": {name: page("x", "/", head=CANONICAL) for name in NAMES},
    "moved to the start": {name: (301, {"location": "/"}) for name in NAMES},
    "some lost, some gone": {"/": page("Home", *NAMES[5:]), **dict.fromkeys(NAMES[13:], 410)},
}


@pytest.mark.parametrize("accident", ACCIDENTS)
async def test_a_site_that_seems_to_lose_most_of_its_pages_loses_none(accident: str) -> None:
    world, site = World(), Site({**LARGE})
    await crawl(site, world)
    site.pages |= ACCIDENTS[accident]

    first = await crawl(site, world)
    again = await crawl(site, world)
    held = paths(world)
    allowed = await crawl(site, world, delete_most=True)

    assert held == ["/", *NAMES]
    assert (first.deleted, first.known, len(first.held_back) > 10) == (0, 20, True)
    assert again.held_back == first.held_back
    assert (allowed.deleted, allowed.held_back) == (len(first.held_back), [])
    assert paths(world) == sorted({"/", *NAMES} - {url.removeprefix(HOME) for url in first.held_back})


async def test_another_start_publishes_what_it_finds_and_deletes_nothing() -> None:
    world, site = World(), Site({**LARGE})
    await crawl(site, world)

    report = await crawl(site, world, "/other")

    assert paths(world) == ["/", *NAMES, "/other"]
    assert (report.published, len(report.held_back), report.known) == (1, 20, 20)


async def test_a_site_that_recovers_needs_no_permission() -> None:
    world, site = World(), Site({**LARGE})
    await crawl(site, world)
    site.pages |= ACCIDENTS["no page is found"]
    await crawl(site, world)
    site.pages |= {**LARGE, "/": page("Home", *NAMES[1:])}

    report = await crawl(site, world)

    assert (report.deleted, report.held_back) == (1, [])
    assert paths(world) == ["/", *NAMES[1:]]


async def test_half_of_the_pages_and_those_of_a_small_site_go_as_asked(site: Site) -> None:
    world, small = World(), World()
    large = Site({**LARGE})
    await crawl(large, world)
    large.pages["/"] = page("Home", *NAMES[10:])
    await crawl(site, small)
    site.pages["/"] = page("Home")

    half, most = await crawl(large, world), await crawl(site, small)

    assert (half.deleted, paths(world)) == (10, ["/", *NAMES[10:]])
    assert (most.deleted, paths(small)) == (3, ["/"])


async def test_an_interrupted_crawl_that_found_most_pages_gone_deletes_none_when_it_goes_on() -> None:
    world, site = World(), Site({**LARGE})
    await crawl(site, world)
    site.pages |= dict.fromkeys(NAMES, 404)
    site.lives = 15
    with pytest.raises(Killed):
        await crawl(site, world)
    site.lives = 1_000_000

    report = await crawl(site, world)

    assert (paths(world), len(report.held_back)) == (["/", *NAMES], 19)
