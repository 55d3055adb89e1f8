"""Compares what was measured with what is recorded, and says in words what was lost."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from freki.operators.evaluate.figures import FAILED, MRR, NDCG, RECALL_10
from freki.schemas.names import record
from freki.streams.evaluate.result import Answered, Run

MARGIN = 0.01
"""Of nDCG@10: two questions of a set that find their only document second instead of first.

Processors differ by far less. Dense layers are products of integers, exact on all of them; only what lies between is
computed in floats. Vectors of 24 questions were equal to the bit with AVX-512 and on an emulated Haswell without it.
"""
RECORD = "python -m tests.quality.record"
_HERE = Path(__file__).parent
SETS = tuple(sorted((_HERE / "sets").iterdir()))
RECORDED = _HERE / "recorded.json"
_SHOWN = (NDCG, MRR, RECALL_10, FAILED)
_MOST_LISTED = 25
_FOUND = 3
_DIGITS = 4


@record
class RunFigures:
    """What is recorded of a set in one configuration."""

    figures: Mapping[str, float]
    languages: Mapping[str, float]
    """nDCG@10 by the language that questions were taken for."""
    questions: Mapping[str, float]
    """nDCG@10 of each."""


@record
class SetFigures:
    """What is recorded of a set."""

    contents: str
    """Digest of its files: figures of other documents or questions cannot be compared."""
    runs: Mapping[str, RunFigures]
    """By the name of the configuration."""


@record
class Recorded:
    """The file of recorded figures."""

    made_with: Mapping[str, str]
    sets: Mapping[str, SetFigures]


@record
class Verdict:
    """Whether a run passes, and what there is to say about it."""

    passed: bool
    lines: Sequence[str]


def contents_of(directory: Path) -> str:
    """Give what changes with any file of a set, in 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def figures_of(run: Run) -> RunFigures:
    """Give of a run what is recorded; questions that nothing answers have no nDCG@10."""
    judged = [answer for answer in run.answers if NDCG in answer.figures]
    languages: defaultdict[str, list[float]] = defaultdict(list)
    for answer in judged:
        languages[answer.language].append(answer.figures[NDCG])
    return RunFigures(
        figures={name: round(mean.value, _DIGITS) for name, mean in run.summary().items()},
        languages={name: round(math.fsum(values) / len(values), _DIGITS) for name, values in sorted(languages.items())},
        questions={answer.question_id: round(answer.figures[NDCG], _DIGITS) for answer in judged},
    )


def compare(name: str, before: RunFigures, run: Run) -> Verdict:
    """Let a run pass unless its nDCG@10 fell by more than the margin."""
    after = figures_of(run)
    gain = after.figures[NDCG] - before.figures[NDCG]
    lines = [f"{name}: {_all_figures(before, after)}", f"  {NDCG} by language: {_by_language(before, after)}"]
    if gain < -MARGIN:
        lines += [f"  a drop of {-gain:.3f}, more than {MARGIN}", *_losses(before, after, run.answers)]
    elif gain > MARGIN:
        lines.append(f"  a gain of {gain:.3f}; to hold it: {RECORD}")
    return Verdict(passed=gain >= -MARGIN, lines=lines)


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Say what the figures were made with then, where it is something else now."""
    return [
        f"{name} was {before.get(name, 'not recorded')}, is {value}"
        for name, value in now.items()
        if before.get(name) != value
    ]


def read_recorded() -> Recorded:
    """Read the file."""
    return TypeAdapter(Recorded).validate_json(RECORDED.read_bytes())


def write_recorded(recorded: Recorded) -> None:
    """Write the file."""
    RECORDED.write_bytes(TypeAdapter(Recorded).dump_json(recorded, indent=1) + b"\n")


def _all_figures(before: RunFigures, after: RunFigures) -> str:
    return ", ".join(f"{name} {_moved(before.figures[name], after.figures[name])}" for name in _SHOWN)


def _by_language(before: RunFigures, after: RunFigures) -> str:
    return ", ".join(f"{each} {_moved(before.languages.get(each), value)}" for each, value in after.languages.items())


def _losses(before: RunFigures, after: RunFigures, answers: Sequence[Answered]) -> list[str]:
    """List the questions that lost, the greatest loss first."""
    told = {answer.question_id: answer for answer in answers}
    losses = {name: before.questions[name] - value for name, value in after.questions.items()}
    lost = sorted((name for name, loss in losses.items() if loss > 0), key=lambda name: (-losses[name], name))
    gained = sum(loss < 0 for loss in losses.values())
    lines = [f"  {len(lost)} questions lost, {gained} gained"]
    for name in lost[:_MOST_LISTED]:
        answer = told[name]
        expected = ", ".join(f"{each} ({place or 'not found'})" for each, place in answer.relevant.items())
        found = ", ".join(place.document_id for place in answer.ranking[:_FOUND])
        lines += [
            f"  {_moved(before.questions[name], after.questions[name])}  {name}: {answer.text}",
            f"      expected, with place: {expected}; found first: {found or 'nothing'}",
        ]
    if len(lost) > _MOST_LISTED:
        lines.append(f"  and {len(lost) - _MOST_LISTED} more")
    return lines


def _moved(before: float | None, after: float) -> str:
    return f"{after:.3f}" if before is None or before == after else f"{before:.3f} > {after:.3f}"
