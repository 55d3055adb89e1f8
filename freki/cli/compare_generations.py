"""`freki generations compare`: what changes if another generation answers, hit by hit and in figures."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from threadpoolctl import threadpool_limits

from freki.cli.arguments import finite, given_path
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.generations import PROBE, Name, generations_app, known, probe, probe_id
from freki.cli.slow import message_if_slow
from freki.client.exchange import decoded
from freki.infra.extras import require
from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.operators.errors import InvalidQuery
from freki.operators.evaluate import compare, is_in_share, judge_rankings, mean_of, overlap, rank_documents
from freki.operators.validate_query import validate_query
from freki.schemas import EVERYONE, ContextHit, ContextQuery, DocumentId, RequestKind
from freki.schemas.avro import Codec
from freki.schemas.names import record
from freki.streams.retrieve.retriever import Retriever
from freki.streams.wire.connect import open_generations, open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock
from freki.streams.wire.generations import open_retriever
from freki.streams.wire.serving import settings_of

RECORDED = 100
"""Recorded queries asked unless the command says otherwise."""
DEPTH = 10
"""Documents compared of each answer."""
SHOWN = 5
"""Questions whose hits are shown beside each other."""
COMPARED_MS = 60_000
"""Deadline of compared queries: long, so that what is compared does not depend on the load."""

Answer = tuple[list[ContextHit], float]
"""Hits, and the milliseconds that they took."""


@record
class ComparedQuery:
    """A question for both generations, and what is known about its answer."""

    query: ContextQuery
    judgements: Mapping[DocumentId, int] | None = None


@generations_app.command("compare")
@command
async def compare_generations(
    first: Name,
    second: Name,
    *,
    sets: Annotated[
        list[Path] | None, typer.Option("--set", parser=given_path, help="Evaluation set on these documents")
    ] = None,
    recorded: Annotated[
        int | None,
        typer.Option(help=f"Without --set: so many of the queries that were asked last; default: {RECORDED}", min=1),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Without --set: this share of the recorded queries, such as 0.1, in each run the same; --recorded"
            " limits it",
            min=0.0,
            max=1.0,
            callback=finite,
        ),
    ] = None,
    queries: Annotated[int | None, typer.Option(help="Questions of each set; default: all", min=1)] = None,
) -> None:
    """Send the same queries to two generations; show what changes, hit by hit and in figures."""
    if sets and (recorded or share is not None):
        fail("--set asks the questions of sets: leave out --recorded and --share", code=2)
    settings = load_settings()
    threadpool_limits(1, user_api="blas")  # as in a worker
    with message_if_slow("reading questions, and the log of generations"):
        async with open_generations(settings) as log:
            chosen = [settings_of(settings, (await known(log, settings, name))[1]) for name in (first, second)]
        asked = _of_sets(sets, queries, settings) if sets else await _recorded(settings, share, recorded)
    if not asked:
        fail(
            "no query was recorded within the retention of their topic, all were refused or read chunks by their ids,"
            " or none of them is in this share: give an"
            " evaluation set with --set, or a larger --share"
        )
    answers: list[list[Answer]] = []
    with bars() as progress:
        for name, each in zip((first, second), chosen, strict=True):
            async with AsyncExitStack() as opened:
                with message_if_slow(f"loading the models of {name}"):
                    retriever = await opened.enter_async_context(open_retriever(each))
                answers.append(await _answers(retriever, asked, progress, name))
    _show(asked, (first, second), answers)


def _of_sets(paths: Sequence[Path], limit: int | None, settings: Settings) -> list[ComparedQuery]:
    require("eval")
    from freki.cli.evaluate.evaluate import read_sets, sample  # noqa: PLC0415 - in the extra `eval`

    return [
        ComparedQuery(query=probe(settings, question.text, principals=(EVERYONE,)), judgements=question.judgements)
        for one in read_sets(paths)
        for question in sample(one.questions, limit, seed=0)
    ]


async def _recorded(settings: Settings, share: float | None, limit: int | None) -> list[ComparedQuery]:
    """Return a share of the recorded queries, or the last of them."""
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).queries.name, start="earliest", registry=registry) as reader,
    ):
        decode = Codec(ContextQuery, registry=registry).decode
        found = [query async for query in decoded(reader.until_end(), decode) if is_comparable(query, settings)]
    return [ComparedQuery(query=query) for query in chosen_queries(found, share=share, limit=limit)]


def is_comparable(query: ContextQuery, settings: Settings) -> bool:
    """Return whether both generations can answer a query: workers refuse others, and ids of chunks are of one only."""
    try:
        validate_query(
            query,
            max_characters=settings.retrieval.max_query_chars,
            reply_topics=[query.reply_to] if query.reply_to else (),
            encrypts_names=settings.encryption.keys is not None,
        )
    except InvalidQuery:
        return False
    return query.kind is not RequestKind.CHUNK_READ


def chosen_queries(queries: Iterable[ContextQuery], *, share: float | None, limit: int | None) -> list[ContextQuery]:
    """Return a share of the queries, without those of these commands, each text once, in the order of asking.

    share: None for all; limit: at most so many, the last ones; None for `RECORDED` without a share, else for all.
    """
    found: dict[tuple[str, str], ContextQuery] = {}
    for query in queries:
        if not query.query_id.startswith(PROBE) and (share is None or is_in_share(query.query_id, share)):
            # The last one of a text counts, at its place.
            found.pop((query.tenant, query.text), None)
            found[query.tenant, query.text] = query
    most = limit or (RECORDED if share is None else len(found))
    return list(found.values())[-most:]


async def _answers(retriever: Retriever, asked: Sequence[ComparedQuery], progress: Progress, name: str) -> list[Answer]:
    """Return the hits of each question and the milliseconds that they took, one question at a time."""
    loop, answers = asyncio.get_running_loop(), list[Answer]()
    bar = progress.add_task(f"questions to {name}", total=len(asked))
    for each in asked:
        query = _as_now(each.query)
        started_s = loop.time()
        async for _, result, _ in retriever.answer([(query, "")]):
            answers.append((list(result.hits), 1000 * (loop.time() - started_s)))
        progress.advance(bar)
    return answers


def _as_now(query: ContextQuery) -> ContextQuery:
    return replace(
        query,
        query_id=probe_id(),
        asked_at=wall_clock(),
        deadline_ms=COMPARED_MS,
        at_least=(),
    )


def _show(asked: Sequence[ComparedQuery], names: tuple[str, str], answers: Sequence[Sequence[Answer]]) -> None:
    rankings = [[[one.document_id for one in rank_documents(hits)] for hits, _ in each] for each in answers]
    agreements = [overlap(one, other, depth=DEPTH) for one, other in zip(*rankings, strict=True)]
    table = Table("", *names, "difference", "p")
    table.add_row("questions", str(len(asked)), str(len(asked)), "", "")
    times = [sorted(ms for _, ms in each) for each in answers]
    medians = [each[len(each) // 2] for each in times]
    table.add_row("p50 ms", *(f"{each:.0f}" for each in medians), f"{medians[1] - medians[0]:+.0f}", "")
    for name, row in _judged(asked, rankings).items():
        table.add_row(name, *row)
    console.print(table)
    same = sum(each.same_first for each in agreements) / len(agreements)
    shared = mean_of([each.shared for each in agreements], seed=0)
    console.print(
        f"The same first document for {same:.0%} of the questions; {shared.value:.0%} of the first {DEPTH} documents"
        " are those of both."
    )
    for place in sorted(range(len(asked)), key=lambda at: (agreements[at].shared, at))[:SHOWN]:
        if agreements[place].shared < 1.0:
            _show_hits(asked[place], names, [each[place][0] for each in answers])


def _judged(
    asked: Sequence[ComparedQuery], rankings: Sequence[Sequence[Sequence[DocumentId]]]
) -> dict[str, Sequence[str]]:
    """Return both means of each figure, their difference and its p-value, for judged questions."""
    judgements = {str(place): each.judgements for place, each in enumerate(asked) if each.judgements}
    if not judgements:
        return {}
    figures = [
        judge_rankings({str(place): ranking for place, ranking in enumerate(each)}, judgements) for each in rankings
    ]
    rows: dict[str, Sequence[str]] = {}
    for name, comparison in compare(figures[0], figures[1], seed=0).items():
        means = [mean_of([each[name] for each in one.values() if name in each], seed=0).value for one in figures]
        difference = f"{comparison.difference.value:+.4f}"
        rows[name] = (*(f"{mean:.4f}" for mean in means), difference, f"{comparison.p_randomisation:.3f}")
    return rows


def _show_hits(asked: ComparedQuery, names: tuple[str, str], hits: Sequence[Sequence[ContextHit]]) -> None:
    console.print()
    console.print(Text(asked.query.text, style="bold"))
    table = Table("rank", *names)
    for rank in range(max(map(len, hits))):
        table.add_row(str(rank + 1), *(_hit(each[rank]) if rank < len(each) else "" for each in hits))
    console.print(table)


def _hit(hit: ContextHit) -> Text:
    place = " › ".join(hit.heading_path[-1:])
    return Text(f"{hit.name}{f' › {place}' if place else ''}  {hit.score:.3f}")
