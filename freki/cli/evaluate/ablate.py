"""`freki ablate`: measure quality and latency with each step of retrieval left out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from pydantic import TypeAdapter
from rich.text import Text

from freki.cli.arguments import ArgumentGroup, expanded, given_path
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.evaluate.arguments import NAME_CHARACTERS, RESULTS, Corpus, Out, Part, Queries, Reviewed, Running, Sets
from freki.cli.evaluate.evaluate import chosen_questions, made_with, read_sets, require_folder, sample, write_results
from freki.cli.evaluate.reports.ablation import write_report
from freki.cli.evaluate.show_ablation import show_overall, show_set
from freki.cli.evaluate.tuning_questions import Places
from freki.cli.terminal import ignoring_output_errors
from freki.infra.extras import require
from freki.infra.telemetry.provenance import provenance
from freki.operators.evaluate import QuestionKey
from freki.schemas.evaluation import EvaluationSet, Question
from freki.streams.evaluate.ablated import AblatedSet, Ablation, Measured, measured
from freki.streams.evaluate.ablation import AblationRow, rows
from freki.streams.evaluate.examine import Examiner
from freki.streams.evaluate.result import Run
from freki.streams.evaluate.timing import time_in_turn


class Found(NamedTuple):
    """Results of a set by title of the row."""

    runs: Mapping[str, Run]
    times: Mapping[str, Mapping[QuestionKey, float]]
    """Latencies in milliseconds."""


@dataclass(frozen=True, kw_only=True)
class AblateArguments(ArgumentGroup):
    """Options of `freki ablate`."""

    corpus: Corpus = None
    also: Annotated[
        list[str] | None,
        typer.Option("--also", help="Further query options to measure, such as fusion=zscore; may be repeated"),
    ] = None
    part: Part = None
    reviewed: Reviewed = False
    queries: Queries = None
    timed: Annotated[int, typer.Option(min=1, help="Number of timed questions of each set")] = 40
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of questions")] = 0
    running: Running = False
    report: Annotated[Path | None, typer.Option(parser=given_path, help="Additional path of the Markdown report")] = (
        None
    )
    out: Out = RESULTS


@command
@expanded
async def ablate(
    sets: Sets,
    *,
    given: AblateArguments,
) -> None:
    """Measure the loss in quality and the time saved without each step of retrieval, one at a time."""
    require("eval")
    settings = load_settings()
    require_folder(given.out, given.report)
    examined = chosen_questions(read_sets(sets, corpus=given.corpus), given.part, reviewed=given.reviewed)
    asked = {one.name: sample(one.questions, given.queries, given.seed) for one in examined}
    for one in examined:
        if not any(question.is_answerable for question in asked[one.name]):
            fail(
                f"{one.name}: nothing answers any of its questions, so that no step can gain: leave the set out", code=2
            )
    clocked = {one.name: sample(asked[one.name], given.timed, given.seed) for one in examined}
    table = rows(settings.retrieval.options, given.also or (), contexts=any(map(_has_contexts, asked.values())))
    made_at, started = datetime.now(UTC), time.monotonic()
    found: dict[str, Found] = {}
    results: list[AblatedSet] = []
    with bars() as progress:
        # Long window: answers come in bursts, and stacks start slowly.
        progress.speed_estimate_period = 300.0
        # One extra question per row warms up.
        rounds = sum(len(asked[name]) + len(clocked[name]) + 1 for name in asked)
        bar = progress.add_task("asked", total=len(table) * rounds)
        async with Places(settings, examined, progress, running=given.running) as places:
            for one in examined:
                name = one.name
                update = partial(progress.update, bar)
                advance = partial(progress.advance, bar)
                try:
                    runs = await _judge(await places.visit(name, cold=False), asked[name], table, update, advance)
                    update(description=f"timed, {name}")
                    times = await _time(await places.visit(name, cold=True), name, clocked[name], table, advance)
                except TimeoutError as error:
                    fail(f"{error}: does a worker run the retrieve stage? See `freki status`")
                found[name] = Found(runs, times)
                notes = [
                    *places.notes[name],
                    *one.notes,
                    *_of_sample(one, asked[name]),
                ]
                results.append(_result(one, table, found[name], notes))
                progress.stop()
                with ignoring_output_errors(console):
                    show_set(console, results[-1])
                progress.start()
    ablation = Ablation(
        format="freki ablation 1",
        made_at=made_at.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - started, 1),
        made_with={**provenance(), **made_with(settings)},
        sets=tuple(results),
        overall=_measured(table, found) if len(found) > 1 else (),
    )
    with ignoring_output_errors(console):
        show_overall(console, ablation)
    name = f"ablation-{'+'.join(one.name for one in examined)[:NAME_CHARACTERS]}-{made_at:%Y%m%d-%H%M%S}"
    for path in _write(ablation, given.out, name, given.report):
        console.print(Text(str(path)), soft_wrap=True)


def _has_contexts(questions: Sequence[Question]) -> bool:
    return any(question.spans or question.facts for question in questions)


async def _judge(
    examiner: Examiner,
    questions: Sequence[Question],
    table: Sequence[AblationRow],
    update: Callable[..., None],
    advance: Callable[[], None],
) -> dict[str, Run]:
    """Ask all questions under every row; most rerank scores of a question come from the cache."""
    runs = {}
    for row in table:
        update(description=f"asked, {row.title}")
        runs[row.title], _ = await examiner.run(questions, row.configuration, title=row.title, advance=advance)
    return runs


async def _time(
    examiner: Examiner,
    name: str,
    questions: Sequence[Question],
    table: Sequence[AblationRow],
    advance: Callable[[], None],
) -> dict[str, dict[QuestionKey, float]]:
    by_id = {QuestionKey(name, question.question_id): question for question in questions}
    configurations = {row.title: row.configuration for row in table}
    return await time_in_turn(
        sorted(by_id),
        list(configurations),
        lambda asked, title: examiner.answer(by_id[asked], configurations[title]),
        clock_ns=time.perf_counter_ns,
        advance=advance,
    )


def _measured(table: Sequence[AblationRow], found: Mapping[str, Found]) -> tuple[Measured, ...]:
    answers = {
        row.title: {
            QuestionKey(name, question): figures
            for name, each in found.items()
            for question, figures in each.runs[row.title].by_id.items()
        }
        for row in table
    }
    times = {
        row.title: {asked: taken for each in found.values() for asked, taken in each.times[row.title].items()}
        for row in table
    }
    return measured(table, answers, times)


def _result(one: EvaluationSet, table: Sequence[AblationRow], found: Found, notes: Sequence[str]) -> AblatedSet:
    return AblatedSet(
        name=one.name,
        documents=None if one.corpus is None else len(one.corpus),
        questions=len(found.runs[table[0].title].answers),
        timed=len(found.times[table[0].title]),
        notes=tuple(notes),
        rows=_measured(table, {one.name: found}),
        remarks={title: run.remarks for title, run in found.runs.items() if run.remarks},
    )


def _of_sample(one: EvaluationSet, asked: Sequence[Question]) -> list[str]:
    count = len(one.questions)
    return [f"{len(asked)} of {count} questions were asked"] if len(asked) < count else []


def _write(ablation: Ablation, out: Path, name: str, report: Path | None) -> list[Path]:
    pages = [out / f"{name}.md", *([] if report is None else [report])]
    data = out / f"{name}.json"
    first = {data: TypeAdapter(Ablation).dump_json(ablation, indent=1).decode()}
    write_results({**first, **{page: write_report(ablation) for page in pages}}, options="--out or --report")
    return [*pages, data]
