"""The client and the browser of the crawler, against a server of our own."""

import gzip
import os
import shutil
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zstandard

from freki.infra.settings import CrawlSettings
from freki.infra.sources.web import Browser, Guard, WebClient, find_chromium
from freki.infra.sources.web.guard import is_public
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from tests.chromium import chromium_of_tests
from tests.stack import free_port
from tests.web_site import WebSite

SETTINGS = CrawlSettings(settle_s=0.1, timeout_s=20)
MOST = 10_000
HEADLESS = (
    "chromium_headless_shell-1235/chrome-headless-shell-linux64/chrome-headless-shell",
    "chromium_headless_shell-1100/chrome-linux/headless_shell",
)


@pytest.fixture
async def client() -> AsyncIterator[WebClient]:
    async with WebClient(SETTINGS, Guard(["127.0.0.1"])) as opened:
        yield opened


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with Browser(SETTINGS, Guard(["127.0.0.1"]), chromium_of_tests()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::10.0.0.1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_only_addresses_of_the_internet_are_public(address: str, *, public: bool) -> None:
    assert is_public(address) is public


async def test_a_page_comes_with_its_status_and_headers(client: WebClient, site: WebSite) -> None:
    site.pages["/a"] = (200, {"Content-Type": "text/html; charset=utf-8", "ETag": '"1"'}, b"<p>A")
    site.pages["/b"] = (302, {"Location": "/a"}, b"")

    page = await client.get(f"{site.url}/a", headers={}, max_bytes=MOST)
    redirect = await client.get(f"{site.url}/b", headers={}, max_bytes=MOST)
    missing = await client.get(f"{site.url}/c", headers={}, max_bytes=MOST)

    assert (page.status, page.media_type, page.headers["etag"], page.content) == (200, "text/html", '"1"', b"<p>A")
    assert (redirect.status, redirect.headers["location"]) == (302, "/a")
    assert (missing.status, missing.content) == (404, b"")


async def test_rules_of_a_page_that_come_in_several_headers_stay_apart(client: WebClient, site: WebSite) -> None:
    site.pages["/a"] = (200, {"X-Robots-Tag": "otherbot: noarchive", "x-robots-tag": "noindex"}, b"<p>A")

    page = await client.get(f"{site.url}/a", headers={}, max_bytes=MOST)

    assert page.headers["x-robots-tag"] == "otherbot: noarchive\nnoindex"


async def test_a_private_address_is_refused_unless_it_was_allowed(site: WebSite) -> None:
    async with WebClient(SETTINGS, Guard([])) as client:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            with pytest.raises(Rejected, match="--private-host"):
                await client.get(f"http://{host}:{site.port}/", headers={}, max_bytes=MOST)

    assert site.asked == []


async def test_what_is_too_large_or_holds_no_text_is_refused(client: WebClient, site: WebSite) -> None:
    site.pages["/large"] = (200, {"Content-Type": "text/html"}, b"x" * (MOST + 1))
    site.pages["/image"] = (200, {"Content-Type": "image/png"}, b"x")

    with pytest.raises(Rejected, match="FREKI_CRAWL__MAX_PAGE_MB"):
        await client.get(f"{site.url}/large", headers={}, max_bytes=MOST)
    with pytest.raises(Rejected, match="holds no text"):
        await client.get(f"{site.url}/image", headers={}, max_bytes=MOST)


async def test_no_more_of_a_page_is_unpacked_than_is_read(client: WebClient, site: WebSite) -> None:
    packed = gzip.compress(bytes(50_000_000))
    site.pages["/gzip"] = (200, {"Content-Type": "text/html", "Content-Encoding": "gzip"}, packed)
    tracemalloc.start()

    try:
        with pytest.raises(Rejected, match="FREKI_CRAWL__MAX_PAGE_MB"):
            await client.get(f"{site.url}/gzip", headers={}, max_bytes=MOST)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < MOST + 10_000_000


@pytest.mark.parametrize("encoding", ["gzip, gzip", "zstd", "br"])
async def test_a_page_that_is_packed_as_nobody_asked_is_refused(
    client: WebClient, site: WebSite, encoding: str
) -> None:
    site.pages["/a"] = (200, {"Content-Type": "text/html", "Content-Encoding": encoding}, zstandard.compress(b"<p>A"))

    with pytest.raises(Rejected, match="not asked for"):
        await client.get(f"{site.url}/a", headers={}, max_bytes=MOST)


async def test_a_page_is_unpacked_and_one_whose_encoding_is_a_charset_is_read(client: WebClient, site: WebSite) -> None:
    site.pages["/gzip"] = (200, {"Content-Type": "text/html", "Content-Encoding": "gzip"}, gzip.compress(b"<p>A"))
    site.pages["/x-gzip"] = (200, {"Content-Type": "text/html", "Content-Encoding": "X-Gzip"}, gzip.compress(b"<p>A"))
    site.pages["/utf"] = (200, {"Content-Type": "text/html", "Content-Encoding": "utf-8"}, b"<p>A")
    site.pages["/damaged"] = (200, {"Content-Type": "text/html", "Content-Encoding": "gzip"}, b"<p>A")

    for path in ("/gzip", "/x-gzip", "/utf"):
        assert (await client.get(f"{site.url}{path}", headers={}, max_bytes=MOST)).content == b"<p>A"
    with pytest.raises(Rejected, match="incorrect header"):
        await client.get(f"{site.url}/damaged", headers={}, max_bytes=MOST)


async def test_a_packed_page_that_ends_too_early_is_not_taken_for_the_whole(client: WebClient, site: WebSite) -> None:
    packed = gzip.compress(b"<p>A" + bytes(1000))
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    site.pages |= {"/cut": (200, headers, packed[:-10]), "/empty": (200, headers, b"")}

    with pytest.raises(Unavailable, match="ends too early"):
        await client.get(f"{site.url}/cut", headers={}, max_bytes=MOST)
    assert (await client.get(f"{site.url}/empty", headers={}, max_bytes=MOST)).content == b""


async def test_a_server_that_is_not_there_is_unavailable(client: WebClient) -> None:
    with pytest.raises(Unavailable):
        await client.get(f"http://127.0.0.1:{free_port()}/", headers={}, max_bytes=MOST)


SCRIPTED = """<html><body><main></main><script>
fetch("/data.json").then(answer => answer.json()).then(data => setTimeout(() => {
  document.querySelector("main").innerHTML = `<h1>${data.title}</h1><a href="/more">more</a>`
}, 50))
</script></body></html>"""


async def test_a_page_is_rendered_with_what_its_scripts_load(browser: Browser, site: WebSite) -> None:
    site.pages["/data.json"] = (200, {"Content-Type": "application/json"}, b'{"title": "From a script"}')

    html = await browser.render(f"{site.url}/app", SCRIPTED)

    assert "<h1>From a script</h1>" in html
    assert site.asked == ["/data.json"]


async def test_a_page_reaches_no_private_address_by_itself(browser: Browser, site: WebSite) -> None:
    inside = f"http://localhost:{site.port}/inside"
    site.pages["/redirect"] = (302, {"Location": inside, "Access-Control-Allow-Origin": "*"}, b"")
    html = f"""<p>before</p><script src="{inside}"></script><iframe src="{inside}"></iframe>
    <iframe src="file:///etc/hostname"></iframe><script>
    fetch("/redirect", {{mode: "no-cors"}}).catch(() => 0)
    new WebSocket("ws://localhost:{site.port}/inside"); document.write("<p>after</p>")</script>"""

    rendered = await browser.render(f"{site.url}/hostile", html)

    assert "<p>after</p>" in rendered
    assert "/redirect" in site.asked
    assert "/inside" not in site.asked


async def test_a_page_that_goes_elsewhere_is_not_followed(browser: Browser, site: WebSite) -> None:
    site.page("/elsewhere", "<p>elsewhere")

    html = await browser.render(f"{site.url}/here", "<p>here</p><script>location = '/elsewhere'</script>")

    assert "<p>here</p>" in html
    assert "/elsewhere" not in site.asked


async def test_a_page_that_never_ends_is_given_up_and_the_next_one_is_rendered(site: WebSite) -> None:
    impatient = SETTINGS.model_copy(update={"timeout_s": 10.0})
    async with Browser(impatient, Guard(["127.0.0.1"]), chromium_of_tests()) as browser:
        with pytest.raises(Unavailable, match="could not be rendered"):
            await browser.render(f"{site.url}/endless", "<p>x</p><script>for (;;) {}</script>")
        html = await browser.render(f"{site.url}/fine", "<p>fine</p>")

    assert "<p>fine</p>" in html


def test_a_browser_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", os.devnull)

    with pytest.raises(Misconfigured, match=r"FREKI_CRAWL__CHROMIUM|freki\[crawl\]"):
        find_chromium(SETTINGS)
    assert shutil.which("chromium") is None


@pytest.mark.parametrize("variable", ["PLAYWRIGHT_BROWSERS_PATH", "XDG_CACHE_HOME", "HOME"])
def test_the_newest_browser_of_playwright_is_found(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    for name in ("PLAYWRIGHT_BROWSERS_PATH", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    below = {"PLAYWRIGHT_BROWSERS_PATH": "", "XDG_CACHE_HOME": "ms-playwright", "HOME": ".cache/ms-playwright"}
    newest = "chromium-1234/chrome-linux64/chrome"
    for path in (newest, "chromium-999/chrome-linux/chrome", *HEADLESS):
        file = tmp_path / below[variable] / path
        file.parent.mkdir(parents=True)
        file.touch(mode=0o755)
    folder = tmp_path / below[variable]

    assert find_chromium(SETTINGS) == str(folder / newest)
    for path in (newest, "chromium-999/chrome-linux/chrome"):
        (folder / path).chmod(0o600)
    # As root every file may be read, but not run.
    assert find_chromium(SETTINGS) == str(folder / HEADLESS[0])
