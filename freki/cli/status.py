"""`freki status`: health of the workers, lag of the stages, freshness of the index, dead letters."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import httpx
import typer
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from freki.cli.context import command, console, fail, load_settings, names_servers
from freki.infra.kafka import Admin
from freki.infra.local.state import StackState, read_stack
from freki.infra.settings import Settings
from freki.infra.telemetry.endpoint import HEALTH, METRICS
from freki.schemas.errors import InfraError
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import (
    RETRIEVE,
    StageSource,
    fingerprints_of,
    group_of,
    ingest_sources,
    topics_of,
    wall_clock,
)

_EVERY_S = 2.0
"""Interval between refreshes, in seconds."""
_ANSWER_S = 2.0
"""Timeout of a request to a worker, in seconds."""
_SHARES = (0.5, 0.95)
_FRESHNESS = "freki_freshness_seconds_bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Health and freshness reported by a worker."""

    name: str
    """Stages of the worker; empty if only its URL is known."""
    url: str
    wrong: tuple[str, ...]
    """Failed checks with their reasons."""
    freshness: Mapping[float, float]
    """Cumulative histogram: number of changes by upper bound of the time until searchable, in seconds."""


@command
async def status(
    worker: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of a worker's endpoint, such as http://10.0.0.7:9464; workers of the local stack are found"
        ),
    ] = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every 2 seconds until Ctrl-C")] = False,
) -> None:
    """Show the health of all parts, the lag of the stages, the freshness of the index, and dead letters."""
    settings = load_settings()
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    if stack is None and not worker and not names_servers(settings):
        fail(
            f"nothing runs here: no local stack in {Path.cwd()} or above it, and no broker is named. Start one with"
            " `freki up`, or set FREKI_KAFKA__BOOTSTRAP and FREKI_MILVUS__URI"
        )
    if not watch:
        page, fine = await _page(settings, worker or [])
        console.print(page)
        raise typer.Exit(0 if fine else 1)
    with Live(Text("looking …"), console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            page, _ = await _page(settings, worker or [])
            live.update(page, refresh=True)
            await asyncio.sleep(_EVERY_S)


async def _page(settings: Settings, urls: Sequence[str]) -> tuple[RenderableType, bool]:
    """Query all parts concurrently; return the page and whether all are healthy."""
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    known = [*_local_workers(stack), *(("", url) for url in urls)]
    workers = await asyncio.gather(*(_worker(name, url) for name, url in known))
    parts = await asyncio.gather(
        _part("broker", _stages(settings)), _part("index", _index(settings)), _part("dead letters", _letters(settings))
    )
    page = Group(_head(settings, stack), *_workers(workers), *(part for part, _ in parts))
    return page, all(fine for _, fine in parts) and not any(each.wrong for each in workers)


async def _part(name: str, look: Awaitable[RenderableType]) -> tuple[RenderableType, bool]:
    try:
        return await look, True
    except InfraError as error:
        return Text(f"{name}: {error}", style="red"), False


def _head(settings: Settings, stack: StackState | None) -> RenderableType:
    models = settings.models
    reranker = models.reranker or "none"
    runs = (
        f"runs since {stack.started_at.astimezone():%H:%M:%S}, process {stack.pid}, {stack.directory}" if stack else ""
    )
    return Group(
        Text(
            f"freki {version('freki')}, generation {settings.milvus.generation}, "
            f"embedder {models.all_embedders}, reranker {reranker}",
            style="bold",
        ),
        Text(f"local stack: {runs or 'not running'}"),
        Text(f"broker: {settings.kafka.bootstrap}, topics {settings.kafka.topic_prefix}.*"),
    )


def _local_workers(stack: StackState | None) -> list[tuple[str, str]]:
    """Return names and endpoints of the local stack's workers, read from their ready files."""
    files = sorted((stack.directory / "run").glob("*.ready")) if stack else []
    return [(file.stem, url) for file in files if (url := _read(file))]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:  # its worker has just ended
        return ""


async def _worker(name: str, url: str) -> Worker:
    async with httpx.AsyncClient(base_url=url, timeout=_ANSWER_S, trust_env=False) as client:
        try:
            probes = [(await client.get(f"{HEALTH}{probe}")).json() for probe in ("live", "ready", "settings")]
            metrics = (await client.get(METRICS)).text
        except (httpx.HTTPError, ValueError) as error:
            return Worker(name=name, url=url, wrong=(f"no answer: {error!r}",), freshness={})
    wrong = [
        f"{name}: {check['why']}"
        for probe in probes
        for name, check in probe.get("checks", {}).items()
        if not check["ok"]
    ]
    return Worker(name=name, url=url, wrong=tuple(wrong), freshness=_freshness_of(metrics))


def _freshness_of(metrics: str) -> dict[float, float]:
    """Return the end-to-end histogram, summed over all outcomes."""
    counts: dict[float, float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == _FRESHNESS and sample.labels["section"] == "total":
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0.0) + sample.value
    return counts


def _workers(workers: Sequence[Worker]) -> list[RenderableType]:
    if not workers:
        return [Text("no worker's endpoint is known: name one with --worker", style="dim")]
    table = Table("worker", "endpoint", "health")
    for each in workers:
        health = Text("; ".join(each.wrong), style="red") if each.wrong else Text("live, ready", style="green")
        table.add_row(each.name, Text(each.url), health)
    counts: dict[float, float] = {}
    for each in workers:
        for bound, count in each.freshness.items():
            counts[bound] = counts.get(bound, 0.0) + count
    return [table, _freshness(counts)]


def _freshness(counts: Mapping[float, float]) -> Text:
    total = max(counts.values(), default=0.0)
    if not total:
        return Text("freshness: no change became visible since the workers started", style="dim")
    quantiles = ", ".join(f"p{100 * share:.0f} {quantile(counts, share):.2f} s" for share in _SHARES)
    return Text(f"freshness: {quantiles} from the topic to visible, {total:.0f} changes since the workers started")


def quantile(counts: Mapping[float, float], share: float) -> float:
    """Estimate a quantile from a cumulative histogram as Prometheus does, by linear interpolation within a bucket.

    counts: by upper bound, the last one infinite; at least one value. In the last bucket, returns its lower bound.
    """
    bounds = sorted(counts)
    rank = share * counts[bounds[-1]]
    place = next(place for place, bound in enumerate(bounds) if counts[bound] >= rank)
    low, below = (bounds[place - 1], counts[bounds[place - 1]]) if place else (0.0, 0.0)
    if bounds[place] == float("inf"):
        return low
    within = counts[bounds[place]] - below
    return low + (bounds[place] - low) * ((rank - below) / within if within else 1.0)


async def _stages(settings: Settings) -> RenderableType:
    topics = topics_of(settings)
    sources = [
        *ingest_sources(settings),
        StageSource(RETRIEVE, RETRIEVE, topics.queries.name),
        StageSource("document-queries", RETRIEVE, topics.document_queries.name),
    ]
    table = Table("stage", "topic", "records", "waiting", "oldest waits")
    for column in table.columns[2:]:
        column.justify = "right"
    async with Admin(settings.kafka) as admin:
        for stage, group, topic in sources:
            lags = await admin.lag(group_of(settings, group), [topic])
            oldest = min((lag.oldest_ms for lag in lags if lag.oldest_ms is not None), default=None)
            age = "–" if oldest is None else f"{max(0, wall_clock() - oldest) / 1000:.1f} s"
            table.add_row(stage, topic, str(sum(lag.end for lag in lags)), str(sum(lag.lag for lag in lags)), age)
    return table


async def _index(settings: Settings) -> RenderableType:
    async with open_index(settings) as index:
        held, watermarks = await index.statistics(), await index.watermarks()
        otherwise = await index.count_made_otherwise(fingerprints_of(settings))
    last = max((mark.committed_at for mark in watermarks), default=None)
    seen = "nothing committed yet" if last is None else f"last commit {(wall_clock() - last) / 1000:.0f} s ago"
    return Text.assemble(
        f"index {settings.milvus.generation}: {held.documents} documents, {held.chunks} chunks, "
        f"{held.deleted} deletions remembered, {seen}",
        (f"\n{made_otherwise(otherwise)}" if otherwise else "", "yellow"),
    )


def made_otherwise(count: int) -> str:
    """Return the line about documents in the index that these settings would make otherwise."""
    return f"{count} documents were made with other settings of chunks or contexts: `freki reindex` makes them anew"


async def _letters(settings: Settings) -> RenderableType:
    """Count the dead letters on the topic, without those that retention removed."""
    topic = topics_of(settings).dead_letters.name
    async with Admin(settings.kafka) as admin:
        count = await admin.held(topic)
    shown = f"dead letters: {count}" + (", see `freki dead-letters list`" if count else "")
    return Text(shown, style="yellow" if count else "")
