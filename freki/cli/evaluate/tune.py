"""`freki tune`: recommend values of the retrieval options by gain and latency."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.progress import Progress, TaskID
from rich.text import Text

from freki.cli.arguments import ArgumentGroup, expanded, given_path
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.evaluate.arguments import NAME_CHARACTERS, RESULTS, Out, Reviewed, Running, Sets
from freki.cli.evaluate.evaluate import chosen_questions, made_with, read_sets, require_folder, write_results
from freki.cli.evaluate.reports.tuning import draw, write_report
from freki.cli.evaluate.show_tuning import PREFIX, show_tuning
from freki.cli.evaluate.tuning_questions import Material, Places, material_of
from freki.cli.terminal import ignoring_output_errors
from freki.infra.extras import require
from freki.infra.settings import RetrievalSettings
from freki.infra.telemetry.provenance import provenance
from freki.operators.evaluate import Figure
from freki.operators.evaluate.figures import NDCG
from freki.streams.evaluate.answers import AnswerLog
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.parts import PartChoice
from freki.streams.evaluate.scorer import TUNABLE
from freki.streams.evaluate.trials import ALPHA, EXACT_BLEND, KEYWORD_ALPHA, USUAL_BLEND, grid, parse_tuned_option
from freki.streams.evaluate.tuner import Tuner
from freki.streams.evaluate.tuning import TunedSet, Tuning


@dataclass(frozen=True, kw_only=True)
class TuneArguments(ArgumentGroup):
    """Options of `freki tune`."""

    turn: Annotated[
        list[str] | None,
        typer.Option(
            "--turn", help="An option and its values, such as alpha=0.3,0.4; may be repeated; default: a built-in grid"
        ),
    ] = None
    reviewed: Reviewed = False
    queries: Annotated[int | None, typer.Option(min=1, help="Maximum number of tuning questions of each set")] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of questions and of the folds")] = 0
    folds: Annotated[int, typer.Option(min=2, help="Number of folds of the cross-validation")] = 5
    figure: Annotated[str, typer.Option(help="Figure to optimise")] = NDCG
    running: Running = False
    report: Annotated[
        Path | None, typer.Option(parser=given_path, help="Additional path of the report, .md, beside its .svg")
    ] = None
    out: Out = RESULTS


@command
@expanded
async def tune(
    sets: Sets,
    *,
    given: TuneArguments,
) -> None:
    """Recommend values of the query options by cross-validation; report gain and latency of each value."""
    require("eval")
    settings = load_settings()
    figure = _figure(given.figure)
    defaults = settings.retrieval.options
    options = [parse_tuned_option(text, defaults) for text in given.turn] if given.turn else grid(defaults)
    if len({each.name for each in options}) < len(options):
        fail("--turn: an option is given twice; give all its values at once", code=2)
    shorten = any(each.name == KEYWORD_ALPHA for each in options)
    require_folder(given.out, given.report)
    examined = chosen_questions(read_sets(sets), None, default=PartChoice.TUNING, reviewed=given.reviewed)
    material = [material_of(one, figure, given.queries, given.seed, shorten=shorten) for one in examined]
    tuned = {asked: each for one in material for asked, each in one.tuned.items()}
    held_out = {asked: each for one in material for asked, each in one.held_out.items()}
    made_at, started = datetime.now(UTC), time.monotonic()
    with bars() as progress:
        # Long window: answers come in bursts, and stacks start slowly.
        progress.speed_estimate_period = 300.0
        bar = progress.add_task("asked", total=None)
        async with Places(settings, [one.examined for one in material], progress, running=given.running) as places:
            ledger = AnswerLog(
                {**tuned, **held_out},
                visit=places.visit,
                defaults=defaults,
                clock_ns=time.perf_counter_ns,
                advance=partial(progress.advance, bar),
            )
            tuner = Tuner(
                tuned,
                options,
                ledger=ledger,
                figure=figure,
                folds=given.folds,
                seed=given.seed,
                expect=partial(_expect, progress, bar),
            )
            try:
                steps = await tuner.tune()
                checks = [*await tuner.check(held_out, fresh=True), *await tuner.check(tuned, fresh=False)]
            except TimeoutError as error:
                fail(f"{error}: does a worker run the retrieve stage? See `freki status`")
    tuning = Tuning(
        format="freki tuning 1",
        made_at=made_at.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - started, 1),
        made_with={**provenance(), **made_with(settings)},
        figure=figure.name,
        folds=given.folds,
        hits=defaults.top_k,
        sets=tuple(_described(one, places.notes.get(one.examined.name, ())) for one in material),
        steps=tuple(steps),
        left_out=tuple(tuner.left_out),
        checks=tuple(checks),
        remarks=tuple(ledger.remarks()),
        settings=_lines(tuner.changed),
    )
    with ignoring_output_errors(console):
        show_tuning(console, tuning)
    name = f"tuning-{'+'.join(one.examined.name for one in material)[:NAME_CHARACTERS]}-{made_at:%Y%m%d-%H%M%S}"
    for path in _write(tuning, given.out, name, given.report):
        console.print(Text(str(path)), soft_wrap=True)


def _figure(name: str) -> Figure:
    found = {figure.name: figure for figure in TUNABLE}
    if name not in found:
        fail(f"--figure {name}: choose one of {', '.join(found)}", code=2)
    return found[name]


def _described(one: Material, notes: Sequence[str]) -> TunedSet:
    return TunedSet(
        name=one.examined.name,
        questions=sum(not each.shortened for each in one.tuned.values()),
        fresh=sum(not each.shortened for each in one.held_out.values()),
        documents=None if one.examined.corpus is None else len(one.examined.corpus),
        notes=(*notes, *one.examined.notes),
    )


def _lines(changed: Mapping[str, Configuration]) -> dict[str, str]:
    """Return the new defaults by setting, or by option where no setting exists."""
    return {
        _setting(option, field): _written(value)
        for option, chosen in changed.items()
        for field, value in chosen.overrides.items()
    }


def _setting(option: str, field: str) -> str:
    name = (
        "hybrid_alpha" if option == ALPHA else option if option in (KEYWORD_ALPHA, USUAL_BLEND, EXACT_BLEND) else field
    )
    return f"{PREFIX}{name.upper()}" if name in RetrievalSettings.model_fields else field


def _written(value: object) -> str:
    """Format a value for a shell."""
    return f"'{json.dumps(value)}'" if isinstance(value, tuple) else str(value)


def _expect(progress: Progress, bar: TaskID, remaining: int) -> None:
    """Set the total of the bar to the queries done plus those to come."""
    progress.update(bar, total=progress.tasks[bar].completed + remaining)


def _write(tuning: Tuning, out: Path, name: str, report: Path | None) -> list[Path]:
    pages = [out / f"{name}.md", *([] if report is None else [report])]
    plots = [page.with_suffix(".svg") for page in pages]
    written = {page: write_report(tuning, plot=plot.name) for page, plot in zip(pages, plots, strict=True)}
    data = out / f"{name}.json"
    # The data first: they hold all that the pages show.
    first = {data: TypeAdapter(Tuning).dump_json(tuning, indent=1).decode()}
    write_results({**first, **written, **{plot: draw(tuning) for plot in plots}}, options="--out or --report")
    return [*pages, data]
