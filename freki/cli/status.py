"""`freki status`: health of the workers, lag of the stages, freshness of the index, dead letters."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from freki.cli.arguments import not_empty
from freki.cli.context import command, console, fail, load_settings, names_servers, nothing_runs
from freki.cli.rows import whole_table
from freki.cli.words import counted
from freki.infra.settings import Settings
from freki.schemas.operations import GenerationSize, Overview, StageLag, WorkerHealth
from freki.streams.wire.overview import overview, stack_of

_EVERY_S = 2.0
"""Interval between refreshes, in seconds."""


@command
async def status(
    worker: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of a worker's endpoint, such as http://10.0.0.7:9464; workers of the local stack are found",
            callback=not_empty,
        ),
    ] = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every 2 seconds until Ctrl-C")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Show the health of all parts, the lag of the stages, the freshness of the index, and dead letters.

    Exit code 0: all parts answer and all workers are healthy, 1: else.
    """
    settings = load_settings()
    if not worker and not names_servers(settings):
        fail(nothing_runs(settings))
    if watch and as_json:
        fail("--watch and --json exclude each other", code=2)
    if not watch:
        found = await overview(settings, worker or [])
        if as_json:
            typer.echo(TypeAdapter(Overview).dump_json(found).decode())
        else:
            console.print(_page(settings, found))
        raise typer.Exit(0 if found.fine else 1)
    with Live(Text("looking …"), console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            live.update(watched(console, settings, await overview(settings, worker or [])), refresh=True)
            await asyncio.sleep(_EVERY_S)


def watched(screen: Console, settings: Settings, found: Overview) -> RenderableType:
    """Return the page; without the stages for which nothing waits, where a terminal has too few lines for all."""
    page = _page(settings, found)
    if not screen.is_terminal or len(screen.render_lines(page)) <= screen.height:
        return page
    busy = tuple(each for each in found.stages if each.waiting)
    idle = counted(len(found.stages) - len(busy), "stage")
    return Group(
        _page(settings, replace(found, stages=busy)),
        Text(f"{idle} for which nothing waits not shown: this terminal has {screen.height} lines", style="dim"),
    )


def _page(settings: Settings, found: Overview) -> RenderableType:
    parts = [
        *_head(settings),
        *_workers(found.workers),
        _freshness(found),
        *([_stages(found.stages)] if found.stages else []),
        *(_index(found, each) for each in found.generations),
        *([_letters(found.dead_letters)] if found.dead_letters is not None else []),
        *(Text(problem, style="red") for problem in found.problems),
    ]
    return Group(*parts)


def _head(settings: Settings) -> list[Text]:
    stack, models = stack_of(settings), settings.models
    runs = (
        f"runs since {stack.started_at.astimezone():%H:%M:%S}, process {stack.pid}, {stack.directory}" if stack else ""
    )
    return [
        Text(
            f"freki {version('freki')}, generation {settings.milvus.generation}, "
            f"embedder {models.all_embedders}, reranker {models.reranker or 'none'}",
            style="bold",
        ),
        Text(f"local stack: {runs or 'not running'}"),
        Text(f"broker: {settings.kafka.bootstrap}, topics {settings.kafka.topic_prefix}.*"),
    ]


def _workers(workers: Sequence[WorkerHealth]) -> list[RenderableType]:
    if not workers:
        return [Text("no worker's endpoint is known: name one with --worker", style="dim")]
    table = whole_table("worker", "endpoint", "health")
    for each in workers:
        health = Text("; ".join(each.wrong), style="red") if each.wrong else Text("live, ready", style="green")
        table.add_row(each.name, Text(each.url), health)
    return [table]


def _freshness(found: Overview) -> Text:
    # A worker that hangs or starts again may have made changes visible that nobody tells of.
    unhealthy = any(each.wrong for each in found.workers)
    if found.freshness is None:
        why = "no change became searchable since the workers started"
        if unhealthy or not found.workers:
            why = "unknown while a worker is not healthy" if unhealthy else "unknown without a worker"
        return Text(f"freshness: {why}", style="dim")
    fresh = found.freshness
    return Text(
        f"freshness: p50 {fresh.p50_s:.2f} s, p95 {fresh.p95_s:.2f} s from broker to searchable, "
        f"{counted(fresh.changes, 'change')} since the workers {'that answer ' if unhealthy else ''}started"
    )


def _stages(stages: Sequence[StageLag]) -> Table:
    table = whole_table("stage", "topic", "records", "waiting", "oldest waits", box=None)
    table.columns[0].no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    for each in stages:
        age = "–" if each.oldest_ms is None else f"{each.oldest_ms / 1000:.1f} s"
        table.add_row(each.stage, each.topic, str(each.records), str(each.waiting), age)
    return table


def _index(found: Overview, each: GenerationSize) -> Text:
    answers = "" if each.answers else ", does not answer"
    if each.documents is None or each.chunks is None:
        return Text(f"index {each.name}{answers}: see `freki generations list`", style="dim")
    last = each.last_commit_at
    seen = "nothing committed yet" if last is None else f"last commit {max(0, found.at - last) / 1000:.0f} s ago"
    return Text.assemble(
        f"index {each.name}{answers}: {counted(each.documents, 'document')}, {counted(each.chunks, 'chunk')}, "
        f"{counted(each.deletions or 0, 'deletion')} remembered, {seen}",
        (f"\n{made_otherwise(each.outdated)}" if each.outdated else "", "yellow"),
    )


def made_otherwise(count: int) -> str:
    """Return the line about documents in the index that these settings would make otherwise."""
    were, them = ("was", "it") if count == 1 else ("were", "them")
    return (
        f"{counted(count, 'document')} {were} made with other settings of chunks or contexts: run `freki reindex` for "
        f"{them}, of one tenant at a time (--tenant)"
    )


def _letters(count: int) -> Text:
    if not count:
        return Text("dead letters: 0")
    # The count is of offsets: looking into the records at each look at the state would read all of the topic.
    return Text(f"dead letters: at most {count}, see `freki dead-letters list`", style="yellow")
