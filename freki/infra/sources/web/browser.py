"""Rendering of pages in an installed Chromium, including content written by scripts."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from freki.client.tasks import ends_within
from freki.infra.extras import require
from freki.infra.processes.environment import without_settings
from freki.infra.settings import CrawlSettings
from freki.infra.sources.web.guard import Guard
from freki.infra.sources.web.login import Login, origin_of
from freki.infra.sources.web.proxy import GuardedProxy
from freki.infra.sources.web.upstream import upstream_of
from freki.schemas.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext, Page, Request, Route

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OF_PLAYWRIGHT = ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/*/*headless[-_]shell")
"""Where Playwright puts its browsers, below their folder."""
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    # Otherwise it asks two services of Google of its own accord, whatever else is disabled. Nobody listens here.
    "--component-updater=url-source=http://127.0.0.1:1/",
    "--gaia-url=http://127.0.0.1:1",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # UDP would bypass the proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
_AWAITED = frozenset({"script", "xhr", "fetch"})
_UNSEEN = frozenset({"image", "media", "font"})
_QUIET_JS = """([quiet, most]) => new Promise(done => {
    const begin = () => {
        const finish = () => { watch.disconnect(); clearTimeout(last); clearTimeout(next); done() }
        const watch = new MutationObserver(() => { clearTimeout(next); next = setTimeout(finish, quiet) })
        let next = setTimeout(finish, quiet)
        const last = setTimeout(finish, most)
        watch.observe(document, {subtree: true, childList: true, characterData: true, attributes: true})
    }
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin, {once: true})
    else begin()
})"""
"""Script that waits, from DOMContentLoaded on, for a period without changes."""
_CLOSE_S = 5.0


def find_chromium(settings: CrawlSettings) -> str:
    """Return the path of the browser: the configured one, one of the usual names in PATH, or one of Playwright's.

    Raises Misconfigured where there is none, or where playwright is not installed.
    """
    require("crawl")
    if settings.chromium is not None:
        return str(settings.chromium)
    found = next((path for name in _NAMES if (path := shutil.which(name))), None) or next(_of_playwright(), None)
    if found is None:
        raise Misconfigured(
            "there is no Chromium in PATH, none of `playwright install chromium`, and FREKI_CRAWL__CHROMIUM names none"
        )
    return found


def _of_playwright() -> Iterator[str]:
    """Give the browsers that Playwright has downloaded: whole ones first, newest first."""
    import playwright  # noqa: PLC0415 - an extra

    place = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if place == "0":
        folder = Path(playwright.__file__).parent / "driver" / "package" / ".local-browsers"
    else:
        folder = (
            Path(place)
            if place
            else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ms-playwright"
        )
    for pattern in _OF_PLAYWRIGHT:
        yield from (
            str(path) for path in sorted(folder.glob(pattern), key=_build, reverse=True) if os.access(path, os.X_OK)
        )


def _build(path: Path) -> int:
    """Return the number in the name of the folder of a browser."""
    return int("".join(re.findall(r"\d+", path.parents[1].name)) or 0)


class Browser:
    """Renders pages one by one, each in a separate context that keeps nothing."""

    def __init__(self, settings: CrawlSettings, guard: Guard, chromium: str, login: Login | None = None) -> None:
        """Create a browser; login: what it sends to say who asks."""
        self._settings = settings
        self._chromium = chromium
        self._login = login or Login()
        self._proxy = GuardedProxy(guard, upstream_of(settings))
        self._opened = AsyncExitStack()
        self._running = AsyncExitStack()
        self._browser: Chromium | None = None

    async def __aenter__(self) -> Self:
        """Raises Unavailable where the browser does not start."""
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self._proxy)
            opened.push_async_callback(self._stop)
            await self._started()
            self._opened = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def render(self, url: str, html: str) -> str:
        """Return the HTML of a page after its scripts have settled; html: response of the server for `url`.

        A page has settled after a period without changes and requests, or at the timeout. Images, media and fonts are
        not loaded, and navigation is not followed. Raises Unavailable where the page hangs or crashes the browser,
        which is then restarted.
        """
        from playwright.async_api import Error  # noqa: PLC0415 - an extra

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._rendered(await self._started(), url, html)
        except (Error, TimeoutError) as error:
            await self._stop()
            reason = str(error).partition("\n")[0] or f"not within FREKI_CRAWL__TIMEOUT_S={self._settings.timeout_s:g}"
            raise Unavailable(f"{url} could not be rendered: {reason}") from error

    async def _rendered(self, browser: "Chromium", url: str, html: str) -> str:
        context = await browser.new_context(
            user_agent=self._settings.user_agent, service_workers="block", accept_downloads=False
        )
        page = await context.new_page()
        visit = _Visit(page, url, html)
        await context.route("**/*", visit.decide)
        await self._log_in(context, page, url)
        # Playwright misses DOMContentLoaded of a page that tried to navigate before it.
        await page.goto(url, wait_until="commit")
        await self._settle(page, visit)
        content = await page.content()
        # After an error nothing is closed: the browser may not respond, and is ended as a whole.
        await context.close()
        return content

    async def _log_in(self, context: "BrowserContext", page: "Page", url: str) -> None:
        """Let requests of a page have cookies, and those to its own origin the headers of the login."""
        from playwright.async_api import Error  # noqa: PLC0415 - an extra

        for cookie in self._login.for_browser(url):
            # One that Chromium does not take must not hinder others.
            with suppress(Error):
                await context.add_cookies([cookie])  # type: ignore[list-item] # as its documentation describes them
        added = [{"name": name, "value": value} for name, value in self._login.headers_for(url).items()]
        if not added:
            return
        # Headers that Playwright sets go along with redirects to other hosts. Those of the protocol below it do not:
        # each hop is paused by itself, here those to the origin of the page.
        session = await context.new_cdp_session(page)

        async def send(paused: dict[str, Any]) -> None:
            headers = [{"name": name, "value": value} for name, value in paused["request"]["headers"].items()]
            with suppress(Error):  # the page may be gone
                await session.send(
                    "Fetch.continueRequest", {"requestId": paused["requestId"], "headers": headers + added}
                )

        session.on("Fetch.requestPaused", send)
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": f"{origin_of(url)}/*"}]})

    async def _settle(self, page: "Page", visit: "_Visit") -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.settle_limit_s
        while (left_s := end - loop.time()) > 0:
            await page.evaluate(_QUIET_JS, [self._settings.settle_s * 1000, left_s * 1000])
            if not visit.loading:
                return

    async def _started(self) -> "Chromium":
        if self._browser is not None:
            return self._browser
        from playwright.async_api import Error, async_playwright  # noqa: PLC0415 - an extra

        try:
            playwright = await async_playwright().start()
            self._running.push_async_callback(playwright.stop)
            self._browser = await playwright.chromium.launch(
                executable_path=self._chromium,
                headless=True,
                env={**without_settings()},
                # With it Chromium refuses to start as root.
                chromium_sandbox=self._settings.sandbox and os.geteuid() != 0,
                args=[
                    *_FLAGS,
                    f"--proxy-server=socks5://127.0.0.1:{self._proxy.port}",
                    # Otherwise Chromium connects to localhost without the proxy.
                    "--proxy-bypass-list=<-loopback>",
                ],
            )
        except Error as error:
            await self._stop()
            raise Unavailable(
                f"{self._chromium} does not start; FREKI_CRAWL__CHROMIUM names another, FREKI_CRAWL__SANDBOX=false"
                f" does without user namespaces: {error}"
            ) from error
        return self._browser

    async def _stop(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            with suppress(Exception):  # otherwise it ends with its driver
                await ends_within(_CLOSE_S, browser.close())
        await self._running.aclose()


class _Visit:
    """Decides which requests a page may make, and tracks pending ones."""

    def __init__(self, page: "Page", url: str, html: str) -> None:
        self._page = page
        self._url = url
        self._html = html
        self.loading: set[Request] = set()
        page.on("requestfinished", self.loaded)
        page.on("requestfailed", self.loaded)

    def loaded(self, request: "Request") -> None:
        """Mark a request as finished or failed."""
        self.loading.discard(request)

    async def decide(self, route: "Route") -> None:
        """Fulfil the request for the page once, continue permitted requests, and abort all others."""
        request = route.request
        if request.is_navigation_request() and request.frame == self._page.main_frame:
            html, self._html = self._html, ""
            if request.url == self._url and html:
                await route.fulfill(status=200, content_type="text/html; charset=utf-8", body=html)
            else:
                # Any other error would replace the page.
                await route.abort("aborted")
        elif request.resource_type in _UNSEEN or not request.url.startswith(("http:", "https:")):
            await route.abort()
        else:
            if request.resource_type in _AWAITED:
                self.loading.add(request)
            await route.continue_()
