"""Results of an evaluation, sufficient for reports and for comparison with a later one."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from freki.operators.evaluate import FIGURES, Comparison, Figure, Mean, compare, summarise
from freki.operators.evaluate.figures import EMPTY, FALSE_POSITIVES
from freki.schemas import DocumentId
from freki.schemas.names import record

SEED = 20_240_501
"""Seed of all resampling: the same answers yield the same intervals and p-values."""


class KeptRank(NamedTuple):
    """Document of a kept ranking."""

    document_id: DocumentId
    score: float
    grade: int | None
    """None: not judged."""


@record
class Answered:
    """Question with its answer."""

    question_id: str
    text: str
    language: str
    query_type: str
    figures: Mapping[str, float]
    ranking: tuple[KeptRank, ...]
    """The first ten documents."""
    relevant: Mapping[DocumentId, int | None]
    """1-based rank of each relevant document; None: not found."""

    @property
    def first_relevant(self) -> int | None:
        """Rank of the best relevant document."""
        return min((place for place in self.relevant.values() if place is not None), default=None)


@record
class Run:
    """All answers of one configuration."""

    title: str
    """Configuration, such as `alpha=0.4`."""
    answers: tuple[Answered, ...]
    lower_bounds: tuple[str, ...]
    """Names of figures that are lower bounds."""
    remarks: tuple[str, ...]
    """Remarks on these answers."""

    @property
    def by_id(self) -> dict[str, Mapping[str, float]]:
        """Figures of each question."""
        return {answer.question_id: answer.figures for answer in self.answers}

    def summary(self) -> dict[str, Mean]:
        """Return the mean of each figure."""
        return summarise([answer.figures for answer in self.answers], seed=SEED)


@record
class SetResult:
    """Results of one set."""

    name: str
    fingerprint: str
    """Fingerprint of the documents: results on other documents are hard to compare. Empty without documents."""
    documents: int | None
    """Number of searched documents; None: unknown, the running index is searched."""
    asked_of: str
    """Description of the searched index."""
    notes: tuple[str, ...]
    runs: tuple[Run, ...]
    """One run, or two to compare."""
    titles: Mapping[DocumentId, str]
    """Titles of the documents in the rankings."""

    def comparison(self) -> dict[str, Comparison]:
        """Compare the second run with the first. Raises ValueError if there is only one."""
        first, second = self.runs
        return compare(first.by_id, second.by_id, seed=SEED)


@record
class Evaluation:
    """Evaluation as stored in its JSON file."""

    format: Literal["freki evaluation 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, models, settings."""
    sets: tuple[SetResult, ...]


@record
class QueryGroup:
    """Group of questions with the means of the headline figure."""

    name: str
    questions: int
    means: tuple[Mean | None, ...]
    """Mean of each run."""
    comparison: Comparison | None


def beside(earlier: SetResult, now: SetResult, *, made_at: str) -> SetResult:
    """Combine the first run of an earlier evaluation with the only run of this one, on their common questions.

    Questions are the same if their texts are: ids of a file without ids are positions, which shift. Earlier answers
    that were judged by other relevant documents are left out; the notes say how many.
    made_at: time of the earlier evaluation, in UTC. Raises ValueError if they have no question in common.
    """
    (run,) = now.runs
    former, rejudged = _earlier_answers(earlier.runs[0].answers, run.answers)
    if not former:
        also = f", or judged them by other relevant documents ({rejudged})" if rejudged else ""
        raise ValueError(f"{earlier.name}: the earlier evaluation asked other questions{also}")
    title = f"{earlier.runs[0].title}, at {made_at[:16].replace('T', ' ')} UTC"
    notes = now.notes
    if unasked := len(run.answers) - len(former) - rejudged:
        notes = (*notes, f"{unasked} of {len(run.answers)} questions were not asked before")
    if rejudged:
        notes = (*notes, f"{rejudged} of {len(run.answers)} questions had other relevant documents: not compared")
    if earlier.fingerprint != now.fingerprint:
        notes = (*notes, "the earlier evaluation had other documents")
    return replace(
        now,
        notes=notes,
        runs=(replace(earlier.runs[0], title=title, answers=former), run),
        titles={**earlier.titles, **now.titles},
    )


def _earlier_answers(earlier: Iterable[Answered], now: Iterable[Answered]) -> tuple[tuple[Answered, ...], int]:
    """Return the earlier answers to questions of now, under their ids of now, and how many were judged otherwise."""
    by_text: defaultdict[str, list[Answered]] = defaultdict(list)
    for answer in earlier:
        by_text[answer.text].append(answer)
    kept: list[Answered] = []
    rejudged = 0
    for answer in now:
        # A set may ask the same twice, of other documents.
        same = [each for each in by_text[answer.text] if _is_judged_alike(each, answer)]
        if same:
            closest = next((each for each in same if each.question_id == answer.question_id), same[0])
            kept.append(replace(closest, question_id=answer.question_id))
        elif by_text[answer.text]:
            rejudged += 1
    return tuple(kept), rejudged


def _is_judged_alike(earlier: Answered, now: Answered) -> bool:
    """Return whether both have the same relevant documents, with the same grades as far as both rankings tell."""
    grades = {rank.document_id: rank.grade for rank in earlier.ranking}
    return earlier.relevant.keys() == now.relevant.keys() and all(
        grades.get(rank.document_id, rank.grade) == rank.grade for rank in now.ranking
    )


def headline(runs: Sequence[Run]) -> Figure | None:
    """Return the headline figure: the first that every run has; None where nothing answers any of the questions.

    Empty answers and false positives come last: every question with expected facts has the former, too.
    """
    for figure in sorted(FIGURES, key=lambda each: each.name in (EMPTY, FALSE_POSITIVES)):
        if all(any(figure.name in answer.figures for answer in run.answers) for run in runs):
            return figure
    return None


def breakdown(result: SetResult, key: Callable[[Answered], str]) -> list[QueryGroup]:
    """Group questions by a key of their first answers, largest group first, without those lacking the headline."""
    figure = headline(result.runs)
    if figure is None:
        return []
    name = figure.name
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for answer in result.runs[0].answers:
        if name in answer.figures:
            groups[key(answer)].add(answer.question_id)
    found = []
    for group, members in sorted(groups.items(), key=lambda each: (-len(each[1]), each[0])):
        parts = [replace(run, answers=tuple(_among(run.answers, members))) for run in result.runs]
        compared = replace(result, runs=tuple(parts)).comparison() if len(parts) > 1 else {}
        means = tuple(part.summary().get(name) for part in parts)
        found.append(QueryGroup(name=group, questions=len(members), means=means, comparison=compared.get(name)))
    return found


def _among(answers: Iterable[Answered], members: Collection[str]) -> Iterator[Answered]:
    return (answer for answer in answers if answer.question_id in members)
