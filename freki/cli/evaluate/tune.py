"""`freki tune`: what should the options of retrieval be set to, and what does each value gain and cost?"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import TypeAdapter
from rich.progress import Progress, TaskID

from freki.cli.arguments import ArgumentGroup, expanded
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.evaluate.evaluate import made_with, read_sets, require_extra
from freki.cli.evaluate.reports.tuning import draw, write_report
from freki.cli.evaluate.show_tuning import PREFIX, show_tuning
from freki.cli.evaluate.tuning_questions import Material, Places, material_of
from freki.infra.settings import RetrievalSettings
from freki.infra.telemetry.provenance import provenance
from freki.operators.evaluate import FIGURES, Figure
from freki.operators.evaluate.figures import FALSE_POSITIVES, NDCG, RECALL_100
from freki.schemas.errors import Rejected
from freki.streams.evaluate.answers import AnswerLog
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.trials import ALPHA, EXACT_BLEND, KEYWORD_ALPHA, USUAL_BLEND, grid, parse_turn
from freki.streams.evaluate.tuner import Tuner
from freki.streams.evaluate.tuning import TunedSet, Tuning

# Tuned figures are of rankings and contexts as a service gets them.
_NEEDS_MORE = (RECALL_100, FALSE_POSITIVES)
# File systems allow some 255 bytes.
_NAME_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True)
class TuneArguments(ArgumentGroup):
    """Options of `freki tune`."""

    panel: ClassVar[str] = "Options"

    turn: Annotated[
        list[str] | None,
        typer.Option(
            "--turn", help="An option and its values, such as alpha=0.3,0.4; again for more; none: those that matter"
        ),
    ] = None
    queries: Annotated[int | None, typer.Option(min=1, help="Choose by so many questions of each set only")] = None
    seed: Annotated[int, typer.Option(min=0, help="Which ones, and how they are divided")] = 0
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation")] = 5
    figure: Annotated[str, typer.Option(help="What to raise, or to lower where less is better")] = NDCG
    running: Annotated[
        bool, typer.Option("--running", help="Use what runs, under tenants of its own, instead of stacks of its own")
    ] = False
    report: Annotated[Path | None, typer.Option(help="Write the report there too: .md, with a .svg beside it")] = None
    out: Annotated[Path, typer.Option(help="Folder for the report and its JSON")] = Path("evaluation-results")


@command
@expanded
async def tune(
    sets: Annotated[
        list[Path],
        typer.Argument(help="Sets as `freki eval` takes them, each of which counts the same", show_default=False),
    ],
    *,
    given: TuneArguments,
) -> None:
    """Find what options are best set to, by cross-validation, and what each value gains and costs in milliseconds."""
    require_extra("tune")
    settings = load_settings()
    tuned = _figure(given.figure)
    defaults = settings.retrieval.options
    turns = [parse_turn(text, defaults) for text in given.turn] if given.turn else grid(defaults)
    if len({each.name for each in turns}) < len(turns):
        fail("--turn: an option is given twice; give all its values at once", code=2)
    shorten = any(each.name == KEYWORD_ALPHA for each in turns)
    material = [material_of(one, tuned, given.queries, given.seed, shorten=shorten) for one in read_sets(sets)]
    posed = {asked: each for one in material for asked, each in one.posed.items()}
    fresh = {asked: each for one in material for asked, each in one.fresh.items()}
    made_at, started = datetime.now(UTC), time.monotonic()
    with bars() as progress:
        # Answers come in bursts, and stacks take their time to start.
        progress.speed_estimate_period = 300.0
        bar = progress.add_task("asked", total=None)
        async with Places(settings, [one.examined for one in material], progress, running=given.running) as places:
            ledger = AnswerLog(
                {**posed, **fresh},
                visit=places.visit,
                defaults=defaults,
                clock_ns=time.perf_counter_ns,
                advance=partial(progress.advance, bar),
            )
            tuner = Tuner(
                posed,
                turns,
                ledger=ledger,
                figure=tuned,
                folds=given.folds,
                seed=given.seed,
                expect=partial(_foresee, progress, bar),
            )
            try:
                steps = await tuner.tune()
                checks = [*await tuner.check(fresh, fresh=True), *await tuner.check(posed, fresh=False)]
            except TimeoutError as error:
                fail(f"{error}: does a worker run the retrieve stage? See `freki status`")
    tuning = Tuning(
        format="freki tuning 1",
        made_at=made_at.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - started, 1),
        made_with={**provenance(), **made_with(settings)},
        figure=tuned.name,
        folds=given.folds,
        hits=defaults.top_k,
        sets=tuple(_described(one, places.notes.get(one.examined.name, ())) for one in material),
        steps=tuple(steps),
        left_out=tuple(tuner.left_out),
        checks=tuple(checks),
        remarks=tuple(ledger.remarks()),
        settings=_lines(tuner.moved),
    )
    show_tuning(console, tuning)
    name = f"tuning-{'+'.join(one.examined.name for one in material)[:_NAME_CHARACTERS]}-{made_at:%Y%m%d-%H%M%S}"
    for path in _write(tuning, given.out, name, given.report):
        console.print(str(path), soft_wrap=True, highlight=False)


def _figure(name: str) -> Figure:
    found = {figure.name: figure for figure in FIGURES if figure.name not in _NEEDS_MORE}
    if name not in found:
        fail(f"--figure {name}: choose one of {', '.join(found)}", code=2)
    return found[name]


def _described(one: Material, notes: Sequence[str]) -> TunedSet:
    return TunedSet(
        name=one.examined.name,
        questions=sum(not each.shortened for each in one.posed.values()),
        fresh=sum(not each.shortened for each in one.fresh.values()),
        documents=None if one.examined.corpus is None else len(one.examined.corpus),
        notes=(*notes, *one.examined.notes),
    )


def _lines(moved: Mapping[str, Configuration]) -> dict[str, str]:
    """Name the settings that make a value the default; an option that no setting turns stands for itself."""
    return {
        _setting(option, field): _written(value)
        for option, chosen in moved.items()
        for field, value in chosen.overrides.items()
    }


def _setting(option: str, field: str) -> str:
    name = (
        "hybrid_alpha" if option == ALPHA else option if option in (KEYWORD_ALPHA, USUAL_BLEND, EXACT_BLEND) else field
    )
    return f"{PREFIX}{name.upper()}" if name in RetrievalSettings.model_fields else field


def _written(value: object) -> str:
    """Write a value as a shell takes it."""
    return f"'{json.dumps(value)}'" if isinstance(value, tuple) else str(value)


def _foresee(progress: Progress, bar: TaskID, coming: int) -> None:
    """Expect so many asks beside those that are done."""
    progress.update(bar, total=progress.tasks[bar].completed + coming)


def _write(tuning: Tuning, out: Path, name: str, report: Path | None) -> list[Path]:
    data = out / f"{name}.json"
    pages = [out / f"{name}.md", *([] if report is None else [report])]
    try:
        out.mkdir(parents=True, exist_ok=True)
        data.write_bytes(TypeAdapter(Tuning).dump_json(tuning, indent=1))
        for page in pages:
            plot = page.with_suffix(".svg")
            page.write_text(write_report(tuning, plot=plot.name), encoding="utf-8")
            plot.write_text(draw(tuning), encoding="utf-8")
    except OSError as error:
        raise Rejected(f"{error.filename}: {error.strerror}; choose another place with --out or --report") from error
    return [*pages, data]
