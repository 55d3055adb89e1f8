"""What is kept of an evaluation: enough to print it, to draw it, and to compare a later one with it."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from freki.operators.evaluate import FIGURES, Comparison, Figure, Mean, compare, summarise
from freki.schemas import DocumentId
from freki.schemas.names import record

SEED = 20_240_501
"""Of all resampling: the same answers give the same intervals and p-values."""


class KeptRank(NamedTuple):
    """A document in a ranking that was kept."""

    document_id: DocumentId
    score: float
    grade: int | None
    """None: not judged."""


@record
class Answered:
    """One question with one answer."""

    question_id: str
    text: str
    language: str
    query_type: str
    figures: Mapping[str, float]
    ranking: tuple[KeptRank, ...]
    """The first ten documents."""
    relevant: Mapping[DocumentId, int | None]
    """1-based place of each relevant document; None: not found."""

    @property
    def first_relevant(self) -> int | None:
        """Rank of the best relevant document."""
        return min((place for place in self.relevant.values() if place is not None), default=None)


@record
class Run:
    """All answers of one configuration."""

    title: str
    """Such as `alpha=0.4`."""
    answers: tuple[Answered, ...]
    lower_bounds: tuple[str, ...]
    """Figures that may be higher than they could be measured."""
    remarks: tuple[str, ...]
    """What readers should know of these answers."""

    @property
    def by_id(self) -> dict[str, Mapping[str, float]]:
        """Figures of each question."""
        return {answer.question_id: answer.figures for answer in self.answers}

    def summary(self) -> dict[str, Mean]:
        """Give the mean of each figure."""
        return summarise([answer.figures for answer in self.answers], seed=SEED)


@record
class SetResult:
    """What came out for one set."""

    name: str
    fingerprint: str
    """Of its documents: results on different ones are hard to compare. Empty where the set has none."""
    documents: int | None
    """How many were searched; None: whatever the running index holds."""
    asked_of: str
    """Where the documents were."""
    notes: tuple[str, ...]
    runs: tuple[Run, ...]
    """One, or two to compare."""
    titles: Mapping[DocumentId, str]
    """What to call the documents of the rankings."""

    def comparison(self) -> dict[str, Comparison]:
        """Compare the second run with the first. Raises ValueError if there is but one."""
        first, second = self.runs
        return compare(first.by_id, second.by_id, seed=SEED)


@record
class Evaluation:
    """One call of the command, as the JSON file holds it."""

    format: Literal["freki evaluation 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, models, settings."""
    sets: tuple[SetResult, ...]


@record
class QueryGroup:
    """Questions that have something in common, by the headline figure."""

    name: str
    questions: int
    means: tuple[Mean | None, ...]
    """Of each run."""
    comparison: Comparison | None


def beside(earlier: SetResult, now: SetResult, *, made_at: str) -> SetResult:
    """Put the first run of an earlier evaluation before the only one of this, as far as it has the same questions.

    made_at: of the earlier evaluation, in UTC. Raises ValueError where they have no question in common.
    """
    (run,) = now.runs
    asked = {answer.question_id: answer.text for answer in run.answers}
    former = tuple(each for each in earlier.runs[0].answers if asked.get(each.question_id) == each.text)
    if not former:
        raise ValueError(f"{earlier.name}: the earlier evaluation asked other questions")
    title = f"{earlier.runs[0].title}, at {made_at[:16].replace('T', ' ')} UTC"
    notes = now.notes
    if len(former) < len(asked):
        notes = (*notes, f"{len(asked) - len(former)} questions were not asked before")
    if earlier.fingerprint != now.fingerprint:
        notes = (*notes, "the earlier evaluation had other documents")
    return replace(
        now,
        notes=notes,
        runs=(replace(earlier.runs[0], title=title, answers=former), run),
        titles={**earlier.titles, **now.titles},
    )


def headline(runs: Sequence[Run]) -> Figure:
    """Give the figure that a set is first judged by: the first that every run has. Raises ValueError for none."""
    for figure in FIGURES:
        if all(any(figure.name in answer.figures for answer in run.answers) for run in runs):
            return figure
    raise ValueError("the runs have no figure in common")


def breakdown(result: SetResult, key: Callable[[Answered], str]) -> list[QueryGroup]:
    """Group the questions as their first answers say, the largest group first; those without the headline left out."""
    name = headline(result.runs).name
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
