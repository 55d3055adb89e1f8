"""`freki tune`: what should the knobs of retrieval be set to, and what does each value gain and cost?"""

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import typer
from pydantic import TypeAdapter
from rich.progress import Progress, TaskID

from freki.infra.errors import Rejected
from freki.infra.provenance import provenance
from freki.infra.settings import RetrievalSettings, Settings
from freki.operators.evaluate import FIGURES, Asked, Figure
from freki.operators.evaluate.figures import EMPTY, FACTS, FALSE_POSITIVES, NDCG, RECALL_100, SPANS
from freki.schemas import QueryId
from freki.schemas.evaluation import EvaluationSet, Question
from freki.schemas.names import record
from freki.streams.commands.context import command, console, fail, load_settings
from freki.streams.commands.evaluate import AT_ONCE, made_with, read_sets, require_extra, sample
from freki.streams.commands.evaluation_place import open_place
from freki.streams.commands.publish import bars
from freki.streams.commands.show_tuning import show_tuning
from freki.streams.commands.tuning_report import draw, write_report
from freki.streams.connect import knobs_of, open_asker, wall_clock
from freki.streams.evaluation.configuration import Configuration
from freki.streams.evaluation.examine import Examiner
from freki.streams.evaluation.ledger import Ledger
from freki.streams.evaluation.pose import Posed, keywords, pose
from freki.streams.evaluation.tuner import Tuner
from freki.streams.evaluation.tuning import TunedSet, Tuning
from freki.streams.evaluation.turns import ALPHA, KEYWORD_ALPHA, grid, parse_turn

# Tuned figures are of rankings and contexts as a service gets them.
_NEEDS_MORE = (RECALL_100, FALSE_POSITIVES)
_PREFIX = "FREKI_RETRIEVAL__"
# File systems allow some 255 bytes.
_NAME_CHARACTERS = 60


@command
async def tune(  # noqa: PLR0913 - options of a command
    sets: Annotated[
        list[Path],
        typer.Argument(help="Sets as `freki eval` takes them, each of which counts the same", show_default=False),
    ],
    *,
    turn: Annotated[
        list[str] | None,
        typer.Option(
            "--turn", help="A knob and its values, such as alpha=0.3,0.4; again for more; none: those that matter"
        ),
    ] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Choose by so many questions of each set only")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which ones, and how they are divided")] = 0,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation")] = 5,
    figure: Annotated[str, typer.Option(help="What to raise, or to lower where less is better")] = NDCG,
    running: Annotated[
        bool, typer.Option("--running", help="Use what runs, under tenants of its own, instead of stacks of its own")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write the report there too: .md, with a .svg beside it")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and its JSON")] = Path("evaluation-results"),
) -> None:
    """Find what knobs are best set to, by cross-validation, and what each value gains and costs in milliseconds."""
    require_extra("tune")
    settings = load_settings()
    tuned = _figure(figure)
    defaults = knobs_of(settings.retrieval)
    turns = [parse_turn(text, defaults) for text in turn] if turn else grid(defaults)
    if len({each.name for each in turns}) < len(turns):
        fail("--turn: a knob is given twice; give all its values at once", code=2)
    shorten = any(each.name == KEYWORD_ALPHA for each in turns)
    material = [_material(one, tuned, queries, seed, shorten=shorten) for one in read_sets(sets)]
    posed = {asked: each for one in material for asked, each in one.posed.items()}
    fresh = {asked: each for one in material for asked, each in one.fresh.items()}
    made_at, started = datetime.now(UTC), time.monotonic()
    with bars() as progress:
        bar = progress.add_task("asked", total=None)
        async with Places(settings, [one.examined for one in material], progress, running=running) as places:
            ledger = Ledger(
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
                folds=folds,
                seed=seed,
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
        folds=folds,
        hits=defaults.top_k,
        sets=tuple(_described(one, places.notes.get(one.examined.name, ())) for one in material),
        steps=tuple(steps),
        left_out=tuple(tuner.left_out),
        checks=tuple(checks),
        settings=_lines(tuner.moved),
    )
    show_tuning(console, tuning)
    name = f"tuning-{'+'.join(one.examined.name for one in material)[:_NAME_CHARACTERS]}-{made_at:%Y%m%d-%H%M%S}"
    for path in _write(tuning, out, name, report):
        console.print(str(path), soft_wrap=True, highlight=False)


@record
class Material:
    """A set with the questions to choose by, and those to check the choice on."""

    examined: EvaluationSet
    posed: Mapping[Asked, Posed]
    fresh: Mapping[Asked, Posed]


class Places:
    """Opens the place of one set at a time: several stacks at once would take several times the memory."""

    def __init__(self, settings: Settings, sets: Sequence[EvaluationSet], progress: Progress, *, running: bool) -> None:
        self._settings = settings
        self._sets = {one.name: one for one in sets}
        self._progress = progress
        self._running = running
        self._exit = AsyncExitStack()
        self._at: tuple[str, Examiner] | None = None
        self.notes: dict[str, tuple[str, ...]] = {}
        """What became of the documents of each set."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def visit(self, name: str) -> Examiner:
        """Give who asks the questions of a set, where its documents are."""
        if self._at is None or self._at[0] != name:
            # Opening shows bars of its own.
            self._progress.stop()
            await self._exit.aclose()
            self._at = (name, await self._open(self._sets[name]))
            self._progress.start()
        return self._at[1]

    async def _open(self, one: EvaluationSet) -> Examiner:
        place = await self._exit.enter_async_context(
            open_place(self._settings, one.corpus, running=self._running, fresh=False)
        )
        self.notes.setdefault(one.name, place.notes)
        asker = await self._exit.enter_async_context(open_asker(place.settings))
        return Examiner(
            asker,
            tenant=place.tenant,
            defaults=knobs_of(place.settings.retrieval),
            threshold=0.0,
            at_once=AT_ONCE,
            now=wall_clock,
            new_id=lambda: QueryId(str(uuid.uuid4())),
        )


def _figure(name: str) -> Figure:
    found = {figure.name: figure for figure in FIGURES if figure.name not in _NEEDS_MORE}
    if name not in found:
        fail(f"--figure {name}: choose one of {', '.join(found)}", code=2)
    return found[name]


def _material(one: EvaluationSet, figure: Figure, queries: int | None, seed: int, *, shorten: bool) -> Material:
    questions = [question for question in one.questions if _shows(question, figure)]
    if not questions:
        fail(f"{one.name}: no question of it has {figure.name}", code=2)
    chosen = sample(questions, queries, seed)
    names = {each.question_id for each in chosen}
    fresh = [each for each in sample(questions, 2 * len(chosen), seed) if each.question_id not in names]
    return Material(
        examined=one,
        posed=_posed(one, chosen, shorten=shorten),
        fresh=_posed(one, fresh, shorten=shorten),
    )


def _shows(question: Question, figure: Figure) -> bool:
    """Say whether an answer to this question has the figure."""
    told = {EMPTY: question.is_answerable, SPANS: bool(question.spans), FACTS: bool(question.facts)}
    return told.get(figure.name, any(grade > 0 for grade in (question.judgements or {}).values()))


def _posed(one: EvaluationSet, questions: Sequence[Question], *, shorten: bool) -> dict[Asked, Posed]:
    found = pose(questions)
    if shorten and not any(each.keyword for each in found):
        found += keywords(questions, one.corpus or ())
    return {Asked(one.name, each.question.question_id): each for each in found}


def _described(one: Material, notes: Sequence[str]) -> TunedSet:
    return TunedSet(
        name=one.examined.name,
        questions=sum(not each.shortened for each in one.posed.values()),
        fresh=sum(not each.shortened for each in one.fresh.values()),
        documents=None if one.examined.corpus is None else len(one.examined.corpus),
        notes=(*notes, *one.examined.notes),
    )


def _lines(moved: Mapping[str, Configuration]) -> dict[str, str]:
    """Name the settings that make a value the default; a knob that no setting turns stands for itself."""
    return {
        _setting(knob, field): str(value) for knob, chosen in moved.items() for field, value in chosen.turned.items()
    }


def _setting(knob: str, field: str) -> str:
    name = {ALPHA: "hybrid_alpha", KEYWORD_ALPHA: "keyword_alpha"}.get(knob, field)
    return f"{_PREFIX}{name.upper()}" if name in RetrievalSettings.model_fields else field


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
