"""`freki crawl`: publish the pages of web sites as document changes."""

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import ArgumentGroup, expanded, given_path, not_empty
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.mass_deletion import DeleteMost, show_held_back
from freki.cli.show import show_error
from freki.cli.sources import Feed, SourceArguments, open_feed, poll_repeatedly, show_first
from freki.cli.words import counted
from freki.infra.processes.child import Children
from freki.infra.settings import CrawlSettings, Settings
from freki.infra.settings.feed import check_proxy
from freki.infra.sources.web import (
    Browser,
    Guard,
    Login,
    WebClient,
    find_chromium,
    origin_of,
    read_cookies,
    read_headers,
)
from freki.operators.crawl import host_of, normalise_url
from freki.schemas import TenantId
from freki.schemas.errors import Misconfigured
from freki.streams.feed.crawl import Crawl
from freki.streams.feed.crawl_records import CrawlPorts, CrawlScope, Render, Report, Visit
from freki.streams.feed.page_study import study
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.rules import parse_limits_of


@dataclass(frozen=True, kw_only=True)
class CrawlArguments(ArgumentGroup):
    """Options for the scope of a crawl."""

    depth: Annotated[int, typer.Option(help="Maximum link distance from a start page or a sitemap entry", min=0)] = 5
    pages: Annotated[int, typer.Option(help="Maximum number of requested addresses", min=1)] = 1000
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host[:port] to read as well; may be repeated; default: the hosts of the URLs", callback=not_empty
        ),
    ] = None
    private_host: Annotated[
        list[str] | None,
        typer.Option(help="Host that may have a private network address; may be repeated", callback=not_empty),
    ] = None
    browser: Annotated[bool, typer.Option(help="Run the pages' scripts in Chromium")] = True
    header: Annotated[
        list[str] | None,
        typer.Option(
            help="`Name: value` for the hosts of the URLs, or @FILE with such lines: other users of this machine see"
            " options; may be repeated"
        ),
    ] = None
    cookies: Annotated[
        Path | None,
        typer.Option(parser=given_path, help="File with cookies as browsers' extensions and curl write it (Netscape)"),
    ] = None
    proxy: Annotated[str | None, typer.Option(help="HTTP proxy, such as http://proxy:3128", callback=not_empty)] = None
    name: Annotated[
        str | None,
        typer.Option(help="Name under which later crawls find this one; default: the first host", callback=not_empty),
    ] = None
    delete_most: DeleteMost = False

    def over(self, settings: CrawlSettings) -> CrawlSettings:
        """Return the settings with the options that replace some; end the command for a proxy that is none."""
        given = {name: value for name, value in (("cookies", self.cookies), ("proxy", self.proxy)) if value is not None}
        if self.proxy is not None:
            try:
                check_proxy(self.proxy)
            except ValueError as error:
                fail(f"--proxy: {error}", code=2)
        return settings.model_copy(update=given)


@command
@expanded
async def crawl(
    urls: Annotated[list[str], typer.Argument(help="First pages", show_default=False)],
    *,
    crawled: CrawlArguments,
    publishing: SourceArguments,
) -> None:
    """Publish pages and files of web sites, and their changes and deletions since the last crawl."""
    settings = load_settings()
    settings = settings.model_copy(update={"crawl": crawled.over(settings.crawl)})
    seeds = [_seed(url) for url in urls]
    hosts = frozenset([*map(host_of, seeds), *(one.lower() for one in crawled.host or ())])
    login, sent = _login(settings.crawl, crawled.header or (), seeds, hosts)
    whose = TenantId(publishing.tenant or settings.tenant)
    scope = CrawlScope(
        hosts=hosts,
        depth=crawled.depth,
        pages=crawled.pages,
        delay_s=settings.crawl.delay_s,
        max_bytes=min(settings.crawl.max_page_mb << 20, settings.claims.max_bytes),
        max_redirects=settings.crawl.max_redirects,
        tenant=whose,
        principals=publishing.readers(settings),
        priority=publishing.priority,
        login=sent,
    )
    name = crawled.name or host_of(seeds[0])
    async with AsyncExitStack() as opened:
        feed = await opened.enter_async_context(
            open_feed(settings, f"crawl {whose}/{name}", Visit, wait=publishing.wait)
        )
        web = _Web(settings.crawl, Guard(crawled.private_host or ()), login)
        ports = await _ports(opened, settings, web, feed, browser=crawled.browser)

        allowed = crawled.delete_most

        async def poll(*, force: bool) -> bool:
            nonlocal allowed
            one = Crawl(ports, feed.ledger, scope, force=force, delete_most=allowed)
            try:
                await one.walk(seeds)
            except Misconfigured:
                _show(one.report)
                raise
            allowed = False
            _show(one.report)
            if held_back := one.report.held_back:
                show_held_back(held_back, known=one.report.known, source=f"the crawl {name}")
            if not sent and one.is_refused:
                console.print("--cookies FILE or --header @FILE sends a login.")
            settled = await feed.settle()
            if not one.report.has_read and one.report.failed:
                show_error(errors, "No page could be read.")
                return False
            return settled and not held_back

        await poll_repeatedly(poll, every=publishing.every, force=publishing.force)


def _seed(url: str) -> str:
    seed = normalise_url(url)
    if seed is None:
        fail(f"{url} is not a web address such as https://example.org/docs/", code=2)
    return seed


def _login(
    settings: CrawlSettings, options: Sequence[str], seeds: Sequence[str], hosts: Collection[str]
) -> tuple[Login, str]:
    """Return what is sent to say who asks, and how errors call that; options: of `--header`."""
    headers: dict[str, dict[str, str]] = {}
    sent = []
    for place, lines in _header_lines(settings, options):
        found = read_headers(lines, origins={origin_of(seed) for seed in seeds}, place=place)
        for origin, some in found.items():
            headers.setdefault(origin, {}).update(some)
        names = sorted({name for some in found.values() for name in some})
        sent += [f"the header {name} of {place}" for name in names]
    cookies = [] if settings.cookies is None else read_cookies(settings.cookies, hosts=hosts)
    sent += [f"the cookies of {settings.cookies}"] if cookies else []
    return Login(headers, cookies), " and ".join(sent)


def _header_lines(settings: CrawlSettings, options: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Give places of headers and their lines; those that come later win."""
    if settings.headers is not None:
        yield "FREKI_CRAWL__HEADERS", settings.headers.get_secret_value().splitlines()
    for option in options:
        file = option.removeprefix("@")
        if file == option:
            yield "--header", [option]
            continue
        try:
            yield file, Path(file).expanduser().read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise Misconfigured(f"the headers of {file} cannot be read: {reason}") from None


@dataclass(frozen=True)
class _Web:
    """What client and browser share."""

    settings: CrawlSettings
    guard: Guard
    login: Login


async def _ports(
    opened: AsyncExitStack, settings: Settings, web: _Web, feed: Feed[Visit], *, browser: bool
) -> CrawlPorts:
    client = await opened.enter_async_context(WebClient(web.settings, web.guard, web.login))
    study_apart = await opened.enter_async_context(
        Children(partial(study, limits=parse_limits_of(settings)), settings.parsing)
    )
    return CrawlPorts(
        fetch=client.get,
        render=await _renderer(opened, web) if browser else None,
        study=study_apart,
        publish=feed.publish,
        now=wall_clock,
        clock=time.monotonic,
        sleep=asyncio.sleep,
    )


async def _renderer(opened: AsyncExitStack, web: _Web) -> Render | None:
    """Start the browser; if there is none, print a warning and return None."""
    try:
        chromium = find_chromium(web.settings)
    except Misconfigured as error:
        show_error(errors, f"{error}. Scripts of pages will not run.")
        return None
    return (await opened.enter_async_context(Browser(web.settings, web.guard, chromium, web.login))).render


def _show(report: Report) -> None:
    console.print(
        f"{counted(report.pages, 'address', 'addresses')} asked: {report.published} published, "
        f"{report.unchanged} unchanged, {report.deleted} deleted; robots.txt kept us from {report.by_robots}"
    )
    show_first(report.left_out, each="left out", together="addresses were left out")
    show_first(report.failed, each="kept as it was", together="addresses could not be read")
    for delay in report.delays:
        show_error(errors, delay)
    if not report.complete:
        console.print("Not every page could be reached, so unreachable documents were kept.")
