"""`freki crawl`: publish the pages of web sites as document changes."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from freki.cli.arguments import ArgumentGroup, expanded
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.show import show_error
from freki.cli.sources import Feed, SourceArguments, look_again, open_feed, show_first
from freki.infra.processes.child import Children
from freki.infra.settings import CrawlSettings, Settings
from freki.infra.sources.web import Browser, Guard, WebClient, find_chromium
from freki.operators.crawl import host_of, normalise_url
from freki.schemas import TenantId
from freki.schemas.errors import Misconfigured
from freki.streams.feed.crawl import Crawl
from freki.streams.feed.crawl_records import CrawlPorts, CrawlScope, Render, Report, Visit
from freki.streams.feed.page_study import study
from freki.streams.wire.from_settings import parse_limits_of, wall_clock


@dataclass(frozen=True, kw_only=True)
class CrawlArguments(ArgumentGroup):
    """Options for the scope of a crawl."""

    depth: Annotated[int, typer.Option(help="Maximum link distance from a start page or a sitemap entry", min=0)] = 5
    pages: Annotated[int, typer.Option(help="Maximum number of requested addresses", min=1)] = 1000
    host: Annotated[
        list[str] | None,
        typer.Option(help="Host[:port] to read as well; may be repeated; default: the hosts of the URLs"),
    ] = None
    private_host: Annotated[
        list[str] | None, typer.Option(help="Host that may have a private network address; may be repeated")
    ] = None
    browser: Annotated[bool, typer.Option(help="Run the pages' scripts in Chromium")] = True
    name: Annotated[
        str | None, typer.Option(help="Name under which later crawls find this one; default: the first host")
    ] = None


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
    seeds = [_seed(url) for url in urls]
    whose = TenantId(publishing.tenant or settings.tenant)
    scope = CrawlScope(
        hosts=frozenset([*map(host_of, seeds), *(one.lower() for one in crawled.host or ())]),
        depth=crawled.depth,
        pages=crawled.pages,
        delay_s=settings.crawl.delay_s,
        max_bytes=min(settings.crawl.max_page_mb << 20, settings.claims.max_bytes),
        max_redirects=settings.crawl.max_redirects,
        tenant=whose,
        principals=publishing.readers(settings),
        priority=publishing.priority,
    )
    guard = Guard(crawled.private_host or ())
    async with AsyncExitStack() as opened:
        feed = await opened.enter_async_context(
            open_feed(settings, f"crawl {whose}/{crawled.name or host_of(seeds[0])}", Visit, wait=publishing.wait)
        )
        ports = await _ports(opened, settings, guard, feed, browser=crawled.browser)

        async def look(*, force: bool) -> bool:
            report = await Crawl(ports, feed.ledger, scope, force=force).walk(seeds)
            _show(report)
            return await feed.settle()

        await look_again(look, every=publishing.every, force=publishing.force)


def _seed(url: str) -> str:
    seed = normalise_url(url)
    if seed is None:
        fail(f"{url} is not a web address such as https://example.org/docs/", code=2)
    return seed


async def _ports(
    opened: AsyncExitStack, settings: Settings, guard: Guard, feed: Feed[Visit], *, browser: bool
) -> CrawlPorts:
    client = await opened.enter_async_context(WebClient(settings.crawl, guard))
    study_apart = await opened.enter_async_context(
        Children(partial(study, limits=parse_limits_of(settings)), settings.parsing)
    )
    return CrawlPorts(
        fetch=client.get,
        render=await _renderer(opened, settings.crawl, guard) if browser else None,
        study=study_apart,
        publish=feed.publish,
        now=wall_clock,
        clock=time.monotonic,
        sleep=asyncio.sleep,
    )


async def _renderer(opened: AsyncExitStack, settings: CrawlSettings, guard: Guard) -> Render | None:
    """Start the browser; if there is none, print a warning and return None."""
    try:
        chromium = find_chromium(settings)
    except Misconfigured as error:
        show_error(errors, f"{error}. Scripts of pages will not run.")
        return None
    return (await opened.enter_async_context(Browser(settings, guard, chromium))).render


def _show(report: Report) -> None:
    console.print(
        f"{report.pages} addresses asked: {report.published} published, {report.unchanged} unchanged,"
        f" {report.deleted} deleted; robots.txt kept us from {report.by_robots}"
    )
    show_first(report.left_out, each="left out", together="addresses were left out")
    show_first(report.failed, each="kept as it was", together="addresses could not be read")
    if not report.complete:
        console.print("Not every page could be reached, so unreachable documents were kept.")
