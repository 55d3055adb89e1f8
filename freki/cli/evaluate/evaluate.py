"""`freki eval`: measure retrieval quality on sets of questions with known answers."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import numpy as np
import typer
from pydantic import TypeAdapter, ValidationError
from rich.text import Text

from freki.cli.arguments import ArgumentGroup, expanded, finite, given_path
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.evaluate.arguments import NAME_CHARACTERS, RESULTS, Corpus, Out, Part, Queries, Reviewed
from freki.cli.evaluate.place import EvaluationTarget, open_place
from freki.cli.evaluate.reports.evaluation import render
from freki.cli.evaluate.show_evaluation import show_set
from freki.cli.terminal import ignoring_output_errors
from freki.cli.words import counted
from freki.infra.durable_files import write_atomically
from freki.infra.evaluation_sets import read_set
from freki.infra.extras import require
from freki.infra.models import joint_identity
from freki.infra.settings import Settings
from freki.infra.telemetry.provenance import provenance
from freki.schemas import DocumentId, QueryId
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.evaluation import EvaluationSet, Question, ReviewState
from freki.streams.evaluate.configuration import Configuration, parse_configuration
from freki.streams.evaluate.corpus import fingerprint_of
from freki.streams.evaluate.examine import Examiner
from freki.streams.evaluate.parts import PartChoice, is_divided, select_questions
from freki.streams.evaluate.result import Evaluation, Run, SetResult, beside
from freki.streams.wire.connect import open_asker
from freki.streams.wire.from_settings import analyser_of, wall_clock

AS_SET = "as set"
SHOWN_ABSENT = 5
"""Most expected documents outside of the corpus that are named."""
# Two batches of a worker, so that it always has a next one.
MAX_IN_FLIGHT = 32


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments(ArgumentGroup):
    """Options of `freki eval`."""

    corpus: Corpus = None
    a: Annotated[str, typer.Option("--a", help="Query options, such as alpha=0.4,fusion=rrf")] = ""
    b: Annotated[str | None, typer.Option("--b", help="Query options to compare with; '' for those set")] = None
    against: Annotated[
        Path | None, typer.Option(parser=given_path, help="JSON of an earlier evaluation, whose first run replaces --a")
    ] = None
    part: Part = None
    reviewed: Reviewed = False
    queries: Queries = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of questions, with --queries")] = 0
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1, help="Score from which a wrong hit counts as a false positive", callback=finite),
    ] = 0.5
    running: Annotated[
        bool, typer.Option("--running", help="Use the running Freki with a separate tenant, not a separate stack")
    ] = False
    fresh: Annotated[bool, typer.Option("--fresh", help="Index the corpus again")] = False
    out: Out = RESULTS


@command
@expanded
async def evaluate(
    sets: Annotated[
        list[Path],
        typer.Argument(
            parser=given_path,
            help="Folders with corpus.jsonl, queries.jsonl and qrels.tsv, or .yaml files with gold questions",
            show_default=False,
        ),
    ],
    *,
    given: EvaluateArguments,
) -> None:
    """Measure retrieval through the whole pipeline, and compare two configurations of its queries."""
    require("eval")
    if given.against is not None and given.a:
        fail("--against replaces --a: give the options of the new run with --b", code=2)
    if given.running and given.fresh:
        fail("--fresh needs a separate stack: a running Freki keeps its index", code=2)
    settings = load_settings()
    configurations = _configurations(
        [given.b or ""] if given.against else [given.a] if given.b is None else [given.a, given.b]
    )
    earlier = None if given.against is None else _read(given.against, threshold=_threshold(given.threshold))
    require_folder(given.out)
    examined = chosen_questions(read_sets(sets, corpus=given.corpus), given.part, reviewed=given.reviewed)
    formers = {} if earlier is None else _former_results(earlier, examined)
    made_at, started = datetime.now(UTC), time.monotonic()
    results: list[SetResult] = []
    for one in examined:
        async with open_place(settings, one.corpus, running=given.running, fresh=given.fresh) as place:
            asked = sample(one.questions, given.queries, given.seed)
            runs, titles = await _ask(place, asked, configurations, given.threshold)
        result = _result(one, place, runs, titles)
        results.append(result if earlier is None else _beside(earlier, formers[one.name], result))
        # Nothing depends on it: a reader that ended would end what may measure for hours.
        with ignoring_output_errors(console):
            show_set(console, results[-1])
    evaluation = Evaluation(
        format="freki evaluation 1",
        made_at=made_at.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - started, 1),
        made_with={**provenance(), **made_with(settings), "threshold": _threshold(given.threshold)},
        sets=tuple(results),
    )
    name = f"{'+'.join(result.name for result in results)[:NAME_CHARACTERS]}-{made_at:%Y%m%d-%H%M%S}"
    for path in _write(evaluation, given.out, name):
        console.print(Text(str(path)), soft_wrap=True)


def _configurations(texts: Sequence[str]) -> dict[str, Configuration]:
    """Parse the configuration of each run, by its title."""
    parsed = [parse_configuration(text) for text in texts]
    found = {configuration.text or AS_SET: configuration for configuration in parsed}
    if len(found) < len(parsed):
        fail("--a and --b set the same options to the same values: there is nothing to compare", code=2)
    return found


def require_folder(out: Path, report: Path | None = None) -> None:
    """End the command before anything is measured if its results have no place."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()
    except OSError as error:
        fail(f"{out}: {error.strerror}; choose another folder with --out", code=2)
    if report is None:
        return
    if not report.parent.is_dir():
        fail(f"{report}: {report.parent} is no folder; choose another place with --report", code=2)
    if report.is_dir():
        fail(f"{report} is a folder; name a file with --report", code=2)
    try:
        TemporaryFile(dir=report.parent).close()
    except OSError as error:
        fail(f"{report}: {error.strerror}; choose another place with --report", code=2)


def write_results(contents: Mapping[Path, str], *, options: str) -> None:
    """Write files of results in order, each as a whole. Raises Rejected.

    options: of the command, which name other places.
    """
    for path, content in contents.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, partial(Path.write_text, data=content, encoding="utf-8"))
        except OSError as error:
            raise Rejected(f"{path}: {error.strerror}; choose another place with {options}") from error


def read_sets(paths: Sequence[Path], *, corpus: Path | None = None) -> list[EvaluationSet]:
    """Read sets with distinct names; `corpus` is for gold questions that name none."""
    found: dict[str, EvaluationSet] = {}
    for path in paths:
        one = read_set(path, corpus=corpus)
        if one.name in found:
            fail(f"{path}: another set is also named {one.name}; evaluate them separately", code=2)
        found[one.name] = one
    return list(found.values())


def chosen_questions(
    sets: Sequence[EvaluationSet],
    part: PartChoice | None,
    *,
    reviewed: bool,
    default: PartChoice = PartChoice.TEST,
) -> list[EvaluationSet]:
    """Return sets with the questions of a part, as given or by default; end the command where none is left."""
    found = []
    for one in sets:
        if part in {PartChoice.TUNING, PartChoice.TEST} and not is_divided(one):
            fail(f"--part {part}: the questions of {one.name} have no parts; leave it out", code=2)
        chosen = select_questions(one, part or default, reviewed=reviewed)
        if not chosen.questions:
            fail(
                f"{one.name}: no question is left ({'; '.join(chosen.notes)}){_advice(one, reviewed=reviewed)}", code=2
            )
        found.append(chosen)
    return found


def _advice(one: EvaluationSet, *, reviewed: bool) -> str:
    if reviewed and any(each.review is ReviewState.OPEN for each in one.questions):
        return ": leave --reviewed out, or review more with `freki questions review`"
    return ": make more with `freki questions make`" if is_divided(one) else ""


def sample(questions: Sequence[Question], limit: int | None, seed: int) -> Sequence[Question]:
    """Sample questions, keeping their order; with the same seed, a larger sample contains the smaller one."""
    chosen = np.random.default_rng(seed).permutation(len(questions))[:limit]
    return [questions[place] for place in sorted(chosen)]


async def _ask(
    place: EvaluationTarget,
    questions: Sequence[Question],
    configurations: Mapping[str, Configuration],
    threshold: float,
) -> tuple[tuple[Run, ...], dict[DocumentId, str]]:
    runs: list[Run] = []
    titles: dict[DocumentId, str] = {}
    async with open_asker(place.settings) as asker:
        examiner = Examiner(
            asker,
            tenant=place.tenant,
            defaults=place.settings.retrieval.options,
            threshold=threshold,
            max_in_flight=MAX_IN_FLIGHT,
            now=wall_clock,
            new_id=lambda: QueryId(str(uuid.uuid4())),
        )
        with bars() as progress:
            # One bar for all configurations, so that it ends with the last.
            bar = progress.add_task("asked", total=len(questions) * len(configurations))
            for title, configuration in configurations.items():
                progress.update(bar, description=f"asked, {title}")
                advance = partial(progress.advance, bar)
                try:
                    run, named = await examiner.run(questions, configuration, title=title, advance=advance)
                except TimeoutError as error:
                    fail(f"{error}: does a worker run the retrieve stage? See `freki status`")
                runs.append(run)
                titles |= named
    return tuple(runs), titles


def _result(
    examined: EvaluationSet, place: EvaluationTarget, runs: tuple[Run, ...], titles: Mapping[DocumentId, str]
) -> SetResult:
    notes = list(examined.notes)
    asked = len(runs[0].answers)
    if asked < len(examined.questions):
        notes.append(f"{asked} of {len(examined.questions)} questions were asked")
    notes += _absent(examined, runs[0])
    return SetResult(
        name=examined.name,
        fingerprint="" if examined.corpus is None else fingerprint_of(examined.corpus),
        documents=None if examined.corpus is None else len(examined.corpus),
        asked_of=place.described,
        notes=(*place.notes, *notes),
        runs=runs,
        titles=titles,
    )


def _absent(examined: EvaluationSet, run: Run) -> list[str]:
    """Return the note on expected documents that the corpus of the set does not have."""
    if examined.corpus is None:
        return []
    there = {document.document_id for document in examined.corpus}
    absent = sorted({each for answer in run.answers for each in answer.relevant} - there)
    if not absent:
        return []
    more = f" and {len(absent) - SHOWN_ABSENT} more" if len(absent) > SHOWN_ABSENT else ""
    are = "is" if len(absent) == 1 else "are"
    expected = counted(len(absent), "expected document")
    return [f"{expected} {are} not in the corpus, and cannot be found: {', '.join(absent[:SHOWN_ABSENT])}{more}"]


def _former_results(earlier: Evaluation, examined: Sequence[EvaluationSet]) -> dict[str, SetResult]:
    """Return the earlier result of each set, by name; end the command, before anything is asked, if one has none."""
    found = {one.name: one for one in earlier.sets}
    for one in examined:
        if one.name not in found:
            fail(f"the earlier evaluation has no set {one.name}; it has {', '.join(found)}", code=2)
    return found


def _beside(earlier: Evaluation, former: SetResult, result: SetResult) -> SetResult:
    try:
        return beside(former, result, made_at=earlier.made_at)
    except ValueError as error:
        fail(str(error))


def _threshold(score: float) -> str:
    return f"{score:g}"


def made_with(settings: Settings) -> dict[str, str]:
    """Return the versions and settings that determine answers."""
    return {
        "embedder": joint_identity(settings.models),
        "reranker": settings.remote_reranker.url or settings.models.reranker or "none",
        "analyser": analyser_of(settings.lexical).version,
        "chunking": settings.chunking.model_dump_json(),
        "retrieval": settings.retrieval.model_dump_json(),
    }


def _read(path: Path, *, threshold: str) -> Evaluation:
    """Read an earlier evaluation. Raises Misconfigured, also if it counted false positives from another threshold."""
    try:
        earlier = TypeAdapter(Evaluation).validate_json(path.read_bytes())
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise Misconfigured(f"{path} is not a JSON report of `freki eval`: {error.errors()[0]['msg']}") from error
    if (former := earlier.made_with.get("threshold", threshold)) != threshold:
        raise Misconfigured(f"{path} counts false positives from {former}, not {threshold}: give --threshold {former}")
    return earlier


def _write(evaluation: Evaluation, out: Path, name: str) -> list[Path]:
    page, data = out / f"{name}.html", out / f"{name}.json"
    held = {"summary": _summary(evaluation), **TypeAdapter(Evaluation).dump_python(evaluation, mode="json")}
    contents = {data: json.dumps(held, ensure_ascii=False, indent=1), page: render(evaluation)}
    write_results(contents, options="--out")
    return [page, data]


def _summary(evaluation: Evaluation) -> dict[str, object]:
    """Return the means by set, run and figure, for programs that need no details."""
    return {
        result.name: {run.title: {name: asdict(mean) for name, mean in run.summary().items()} for run in result.runs}
        for result in evaluation.sets
    }
