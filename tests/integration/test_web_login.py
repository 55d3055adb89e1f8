"""Logins, proxies and delays of the crawler: its client and its browser, against servers of our own."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from freki.infra.settings import CrawlSettings
from freki.infra.sources.web import Browser, Guard, Login, WebClient, read_cookies, read_headers
from freki.infra.sources.web.proxy import GuardedProxy
from freki.infra.sources.web.upstream import upstream_of
from freki.schemas import Timestamp
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.streams.feed.crawl import Crawl
from freki.streams.feed.crawl_records import CrawlPorts, Report, Visit
from tests.chromium import chromium_of_tests
from tests.unit.published import World
from tests.unit.test_crawling import SCOPE, studied
from tests.web_proxy import WebProxy, serving_proxy
from tests.web_site import WebSite

SETTINGS = CrawlSettings(settle_s=0.2, timeout_s=20)
MOST = 10_000
TOKEN = "Bearer t0ps3cret"  # noqa: S105 - of this test
HERE = ("127.0.0.1", "localhost")


@pytest.fixture
def proxy() -> Iterator[WebProxy]:
    with serving_proxy() as opened:
        yield opened


@pytest.fixture(scope="module")
def chromium() -> str:
    return chromium_of_tests()


def cookies(folder: Path, *lines: str) -> Path:
    file = folder / "cookies.txt"
    file.write_text("# Netscape HTTP Cookie File\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def session(value: str = "s1", domain: str = "127.0.0.1", *, path: str = "/", secure: str = "FALSE") -> str:
    return "\t".join(("#HttpOnly_" + domain, "FALSE", path, secure, "0", "session", value))


def has_session(headers: Any) -> bool:
    return "session=s1" in headers.get("Cookie", "")


def token_for(site: WebSite) -> Login:
    return Login(read_headers([f"Authorization: {TOKEN}"], origins=[site.url], place="--header"))


def with_token(site: WebSite) -> set[tuple[str, str]]:
    """Give host and path of each request that had the token."""
    lower = [(path, {name.lower(): value for name, value in headers.items()}) for path, headers in site.sent]
    return {(sent["host"].partition(":")[0], path) for path, sent in lower if TOKEN in sent.values()}


@asynccontextmanager
async def rendering(chromium: str, login: Login | None = None, **settings: Any) -> AsyncIterator[Browser]:
    changed = SETTINGS.model_copy(update=settings)
    async with Browser(changed, Guard(HERE), chromium, login) as browser:
        yield browser


async def test_a_page_that_needs_a_cookie_is_read_with_the_cookie_alone(site: WebSite, tmp_path: Path) -> None:
    site.page("/", "<p>inside")
    site.opens = has_session
    login = Login(cookies=read_cookies(cookies(tmp_path, session()), hosts=[f"127.0.0.1:{site.port}"]))

    async with WebClient(SETTINGS, Guard(HERE), login) as client, WebClient(SETTINGS, Guard(HERE)) as stranger:
        inside = await client.get(f"{site.url}/", headers={}, max_bytes=MOST)
        foreign = await client.get(f"http://localhost:{site.port}/", headers={}, max_bytes=MOST)
        outside = await stranger.get(f"{site.url}/", headers={}, max_bytes=MOST)

    assert (inside.status, foreign.status, outside.status) == (200, 302, 302)
    assert [has_session(headers) for _, headers in site.sent] == [True, False, False]


async def test_a_rendered_page_loads_with_its_cookie_and_other_hosts_get_none(
    site: WebSite, tmp_path: Path, chromium: str
) -> None:
    foreign = f"http://localhost:{site.port}"
    site.pages["/data"] = (200, {"Content-Type": "text/plain"}, b"from inside")
    site.pages["/away"] = (302, {"Location": f"{foreign}/after-redirect.js"}, b"")
    site.opens = lambda headers: has_session(headers) or headers["Host"].startswith("localhost")
    login = Login(cookies=read_cookies(cookies(tmp_path, session()), hosts=["127.0.0.1"]))
    html = f"""<p id=p></p><script src="/away"></script><script src="{foreign}/other.js"></script>
    <p id=seen></p><script>document.all.seen.textContent = `cookies: ${{document.cookie}}.`
    fetch("/data").then(answer => answer.text()).then(text => {{ document.all.p.textContent = text }})</script>"""

    async with rendering(chromium, login) as browser:
        shown = await browser.render(f"{site.url}/page", html)

    assert "from inside" in shown
    assert "cookies: ." in shown, "scripts do not see a cookie that is for HTTP only"
    sent = {(headers["Host"].partition(":")[0], path): has_session(headers) for path, headers in site.sent}
    assert sent == {
        ("127.0.0.1", "/data"): True,
        ("127.0.0.1", "/away"): True,
        ("localhost", "/after-redirect.js"): False,
        ("localhost", "/other.js"): False,
    }


async def test_a_header_goes_to_the_origin_of_the_start_page_alone(site: WebSite) -> None:
    async with WebClient(SETTINGS, Guard(HERE), token_for(site)) as client:
        for url in (f"{site.url}/mine", f"http://localhost:{site.port}/foreign"):
            await client.get(url, headers={}, max_bytes=MOST)
        with pytest.raises(Unavailable):
            await client.get(f"https://127.0.0.1:{site.port}/", headers={}, max_bytes=MOST)

    assert with_token(site) == {("127.0.0.1", "/mine")}
    assert token_for(site).headers_for(f"https://127.0.0.1:{site.port}/") == {}
    assert token_for(site).headers_for("http://127.0.0.1/") == {}


async def test_a_rendered_page_sends_its_header_to_no_other_host(site: WebSite, chromium: str) -> None:
    foreign = f"http://localhost:{site.port}"
    site.pages["/data"] = (200, {"Content-Type": "text/plain"}, b"from inside")
    for path, target in (
        ("/away", f"{foreign}/after-redirect.js"),
        ("/near", "/after-own-redirect.js"),
        ("/twice", f"{foreign}/back"),
        ("/back", f"{site.url}/returned.js"),
    ):
        site.pages[path] = (302, {"Location": target}, b"")
    site.page("/frame", f'<script src="{foreign}/of-frame.js"></script>')
    site.page("/foreign-frame", '<script src="/of-foreign-frame.js"></script>')
    html = f"""<p></p><script src="/away"></script><script src="/near"></script><script src="/twice"></script>
    <script src="{foreign}/other.js"></script><link rel=stylesheet href="{foreign}/style.css">
    <iframe src="/frame"></iframe><iframe src="{foreign}/foreign-frame"></iframe><a href="{foreign}/link">x</a><script>
    fetch("{foreign}/fetched", {{mode: "no-cors"}}).catch(() => 0)
    new Worker(URL.createObjectURL(new Blob(["fetch('{foreign}/of-worker', {{mode: 'no-cors'}})"])))
    fetch("/data").then(answer => answer.text()).then(text => {{ document.querySelector("p").textContent = text }})
    </script>"""

    async with rendering(chromium, token_for(site)) as browser:
        shown = await browser.render(f"{site.url}/page", html)
        await browser.render(f"{foreign}/page", f'<script src="{site.url}/asked-by-foreign.js"></script>')

    assert "from inside" in shown
    hosts = {host for host, _ in with_token(site)}
    assert hosts == {"127.0.0.1"}
    assert {"/data", "/away", "/near", "/after-own-redirect.js", "/frame"} <= {path for _, path in with_token(site)}
    assert ("127.0.0.1", "/asked-by-foreign.js") not in with_token(site), "a page of another host uses no login"
    reached = {"/after-redirect.js", "/other.js", "/style.css", "/of-frame.js", "/of-foreign-frame.js", "/fetched"}
    assert reached | {"/back", "/asked-by-foreign.js"} <= set(site.asked)


def said_by_processes(argument: bytes) -> tuple[int, bytes]:
    """Count the processes with an argument, and give their command lines and environments."""
    found = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if argument in path.read_bytes()]
    return len(found), b"".join((each / name).read_bytes() for each in found for name in ("cmdline", "environ"))


async def test_no_secret_is_in_the_command_line_or_environment_of_the_browser(
    site: WebSite, proxy: WebProxy, chromium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREKI_CRAWL__HEADERS", f"Authorization: {TOKEN}")
    given = {"proxy": proxy.url, "proxy_user": "ada", "proxy_password": TOKEN}
    settings = CrawlSettings(**given)  # type: ignore[arg-type]
    async with Browser(settings, Guard(HERE), chromium, token_for(site)) as browser:
        shown = f"socks5://127.0.0.1:{browser._proxy.port}".encode()
        started, said = said_by_processes(shown)

    assert started
    assert b"PATH=" in said
    assert TOKEN.encode() not in said


async def test_a_session_that_a_server_renews_goes_on(site: WebSite, tmp_path: Path) -> None:
    site.pages["/"] = (200, {"Content-Type": "text/html", "Set-Cookie": "session=s2; Path=/; HttpOnly"}, b"<p>x")
    login = Login(cookies=read_cookies(cookies(tmp_path, session()), hosts=["127.0.0.1"]))

    async with WebClient(SETTINGS, Guard(HERE), login) as client:
        for host in ("127.0.0.1", "127.0.0.1", "localhost"):
            await client.get(f"http://{host}:{site.port}/", headers={}, max_bytes=MOST)

    assert [headers.get("Cookie") for _, headers in site.sent] == ["session=s1", "session=s2", None]
    assert "s2" not in (tmp_path / "cookies.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["client", "browser"])
async def test_a_proxy_is_used_and_names_are_its_own(
    kind: str, site: WebSite, proxy: WebProxy, request: pytest.FixtureRequest
) -> None:
    site.pages["/data"] = (200, {"Content-Type": "text/plain"}, b"from inside")
    proxy.user = "ada:pass:word"
    given = {"proxy": proxy.url, "proxy_user": "ada", "proxy_password": "pass:word"}
    settings = CrawlSettings(settle_s=0.2, timeout_s=20, **given)  # type: ignore[arg-type]
    place = f"http://nowhere.example:{site.port}"
    html = """<p></p><script>fetch("/data").then(answer => answer.text())
    .then(text => { document.querySelector("p").textContent = text })</script>"""

    if kind == "client":
        async with WebClient(settings, Guard([])) as client:
            answer = await client.get(f"{place}/data", headers={}, max_bytes=MOST)
        assert answer.content == b"from inside"
    else:
        async with Browser(settings, Guard([]), request.getfixturevalue("chromium")) as browser:
            assert "from inside" in await browser.render(f"{place}/page", html)

    assert proxy.asked == [f"GET {place}/data"]
    assert [headers["Host"] for _, headers in site.sent] == [f"nowhere.example:{site.port}"]
    assert not any("Proxy-Authorization" in headers for _, headers in site.sent)


async def test_the_browser_reaches_encrypted_sites_through_a_tunnel(proxy: WebProxy, chromium: str) -> None:
    async with rendering(chromium, proxy=proxy.url, no_proxy=()) as browser:
        await browser.render("https://nowhere.example/", '<script src="https://other.example:8443/x.js"></script>')

    assert "CONNECT other.example:8443" in proxy.asked


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::ffff:10.0.0.1]", "2130706433", "intranet", "db.internal"]
)
async def test_a_proxy_is_not_asked_for_private_hosts(host: str, proxy: WebProxy, chromium: str) -> None:
    settings = SETTINGS.model_copy(update={"proxy": proxy.url})
    async with WebClient(settings, Guard([])) as client, Browser(settings, Guard([]), chromium) as browser:
        with pytest.raises(Rejected, match="--private-host"):
            await client.get(f"http://{host}:{proxy.port}/", headers={}, max_bytes=MOST)
        await browser.render("http://nowhere.example/", f'<script src="http://{host}:{proxy.port}/x.js"></script>')

    assert proxy.asked == []


async def test_some_hosts_are_asked_without_the_proxy(site: WebSite, proxy: WebProxy, chromium: str) -> None:
    given = {"proxy": proxy.url, "no_proxy": ("127.0.0.1",)}
    settings = SETTINGS.model_copy(update=given)
    async with WebClient(settings, Guard(HERE)) as client, Browser(settings, Guard(HERE), chromium) as browser:
        await client.get(f"{site.url}/direct", headers={}, max_bytes=MOST)
        await browser.render(f"{site.url}/page", '<script src="/script.js"></script>')

    assert proxy.asked == []
    assert site.asked == ["/direct", "/script.js"]


async def test_a_proxy_that_asks_who_it_is_ends_the_crawl_with_the_settings_to_set(proxy: WebProxy) -> None:
    proxy.user = "ada:password"
    settings = SETTINGS.model_copy(update={"proxy": proxy.url})
    async with WebClient(settings, Guard([])) as client:
        for scheme in ("http", "https"):
            with pytest.raises(Misconfigured, match="FREKI_CRAWL__PROXY_USER"):
                await client.get(f"{scheme}://nowhere.example/", headers={}, max_bytes=MOST)


async def test_proxies_of_the_environment_are_not_used(
    site: WebSite, proxy: WebProxy, chromium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)

    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(WebClient(SETTINGS, Guard(HERE)))
        browser = await opened.enter_async_context(Browser(SETTINGS, Guard(HERE), chromium))
        await client.get(f"{site.url}/direct", headers={}, max_bytes=MOST)
        await browser.render(f"{site.url}/page", '<script src="/script.js"></script>')

    assert (proxy.asked, site.asked) == ([], ["/direct", "/script.js"])


async def test_a_connection_of_the_browser_passes_through_a_tunnel_as_it_is(site: WebSite, proxy: WebProxy) -> None:
    settings = SETTINGS.model_copy(update={"proxy": proxy.url})
    async with GuardedProxy(Guard([]), upstream_of(settings)) as guarded:
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
        name = b"nowhere.example"
        writer.write(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(name)]) + name + site.port.to_bytes(2, "big"))
        await reader.readexactly(12)
        # Not TLS, but an upgrade is no request that a proxy can pass on either.
        writer.write(b"GET /socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n")
        answer = await reader.read()
        writer.close()

    assert answer.startswith(b"HTTP/1.0 404")
    assert proxy.asked == [f"CONNECT nowhere.example:{site.port}"]


async def crawled(site: WebSite, **changes: Any) -> Report:
    """Crawl the site with the client, without a browser."""
    world = World()
    async with WebClient(SETTINGS, Guard(HERE)) as client:
        ports = CrawlPorts(
            fetch=client.get,
            render=None,
            study=studied,
            publish=world.publish,
            now=lambda: Timestamp(int(time.time() * 1000)),
            clock=time.monotonic,
            sleep=asyncio.sleep,
        )
        hosts = frozenset([f"127.0.0.1:{site.port}"])
        scope = replace(SCOPE, hosts=hosts, delay_s=0.0, max_bytes=MOST, **changes)
        ledger = await world.open_ledger("crawl", Visit)
        return await Crawl(ports, ledger, scope).walk([f"{site.url}/"])


def pauses(site: WebSite) -> list[float]:
    return [after - before for before, after in pairwise(site.times)]


async def test_the_delay_that_a_site_asks_for_is_kept(site: WebSite) -> None:
    site.pages["/robots.txt"] = (200, {"Content-Type": "text/plain"}, b"User-agent: freki\nCrawl-delay: 0.4\n")
    site.page("/", '<p>home</p><a href="/a">a</a>')
    site.page("/a", "<p>a</p>")

    report = await crawled(site)

    assert (report.published, report.complete) == (2, True)
    assert min(pauses(site)[1:]) >= 0.39


async def test_a_server_that_is_busy_is_asked_again_when_it_says(site: WebSite) -> None:
    due = int(time.time()) + 4
    site.page("/", '<p>home</p><a href="/a">a</a><a href="/b">b</a>')
    site.pages["/a"] = (429, {"Retry-After": "1"}, b"")
    site.pages["/b"] = (503, {"Retry-After": formatdate(due, usegmt=True)}, b"")

    report = await crawled(site)

    last = dict(zip(site.asked, site.times, strict=True))
    assert site.asked.count("/a") == site.asked.count("/b") == 2
    assert last["/a"] - site.times[site.asked.index("/a")] >= 0.99
    assert last["/b"] >= time.monotonic() - time.time() + due - 0.05
    assert report.failed == [f"{site.url}/a: status 429", f"{site.url}/b: status 503"]


@pytest.mark.parametrize(
    ("line", "matched"),
    [
        ("no header", "line 2: no header"),
        ("Authorization: s3cr3t\x07", "line 2: no header"),
        ("Authorization: s3cr3tä", "line 2: no header"),
        ("Cookie: s3cr3t=1", "--cookies"),
        ("Host: s3cr3t", "sets Host itself"),
    ],
)
def test_a_header_that_cannot_be_sent_is_named_without_its_value(line: str, matched: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(matched)) as refused:
        read_headers(["# comment", line], origins=["https://a.example"], place="headers.txt")

    assert "s3cr3t" not in str(refused.value)


def test_a_header_may_be_for_one_host_alone() -> None:
    lines = ["https://B.example:443 X-Key: 1", "", "X-Key: 2", "http://a.example/  Authorization: Bearer: x"]

    login = Login(read_headers(lines, origins=["https://a.example"], place="x"))

    assert login.headers_for("https://b.example/x") == {"X-Key": "1"}
    assert login.headers_for("https://a.example/x") == {"X-Key": "2"}
    assert login.headers_for("http://a.example/x") == {"Authorization": "Bearer: x"}
    assert login.headers_for("https://b.example.evil.example/") == {}
    assert login.headers_for("https://a.example:444/") == {}


def test_cookies_go_by_domain_path_scheme_and_time(tmp_path: Path) -> None:
    lines = [
        ".wiki.example\tTRUE\t/\tFALSE\t0\tbelow\t1",
        "wiki.example\tTRUE\t/\tFALSE\t4102444800\twithout-dot\t1",
        "wiki.example\tFALSE\t/\tFALSE\t0\thost\t1",
        "wiki.example\tFALSE\t/docs\tFALSE\t0\tpath\t1",
        "wiki.example\tFALSE\t/\tTRUE\t0\tsecure\t1",
        "wiki.example\tFALSE\t/\tFALSE\t1000\texpired\t1",
        "bank.example\tFALSE\t/\tFALSE\t0\tbank\t1",
        "wiki\tFALSE\t/\tFALSE\t0\tshort\t1",
        "wiki.example\tFALSE\t/\tFALSE\t0\tempty",
    ]
    login = Login(cookies=read_cookies(cookies(tmp_path, *lines), hosts=["wiki.example:8080", "wiki"]))

    def names(url: str) -> set[str]:
        sent = login.cookies_for(url).get("Cookie", "")
        return {pair.partition("=")[0] for pair in sent.split("; ") if pair}

    everywhere = {"below", "without-dot", "host", "empty"}
    assert names("http://wiki.example/") == everywhere
    assert names("https://wiki.example/docs/x") == everywhere | {"path", "secure"}
    assert names("http://wiki.example/docsearch") == everywhere
    assert names("https://a.wiki.example/") == {"below", "without-dot"}
    assert names("https://bank.example/") == names("https://notwiki.example/") == set()
    assert names("http://wiki/") == {"short"}
    assert {"wiki", "wiki.example", ".wiki.example"} == {one["domain"] for one in login.for_browser("http://wiki/")}


@pytest.mark.parametrize(
    ("lines", "matched"),
    [
        (['[{"domain": "wiki.example", "value": "s3cr3t"}]'], "line 2: no cookie in the Netscape format"),
        (["wiki.example FALSE / FALSE 0 a s3cr3t"], "line 2: no cookie in the Netscape format"),
        (["wiki.example\tFALSE\t/\tFALSE\tnever\ta\ts3cr3t"], "line 2: no cookie in the Netscape format"),
        (["wiki.example\tFALSE\t/\tFALSE\t1000\ta\ts3cr3t"], "have expired"),
        (["bank.example\tFALSE\t/\tFALSE\t0\ta\ts3cr3t"], "no cookie for wiki.example"),
    ],
)
def test_cookies_that_cannot_help_are_named_without_their_values(
    lines: list[str], matched: str, tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured, match=re.escape(matched)) as refused:
        read_cookies(cookies(tmp_path, *lines), hosts=["wiki.example"])

    assert "s3cr3t" not in str(refused.value)


def test_a_file_of_cookies_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No such file"):
        read_cookies(tmp_path / "none.txt", hosts=["wiki.example"])
