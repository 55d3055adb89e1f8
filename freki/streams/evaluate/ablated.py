"""What is kept of an ablation: what each configuration finds and takes, beside what is set."""

from collections.abc import Mapping, Sequence
from typing import Literal

from freki.operators.evaluate import (
    FIGURES,
    Asked,
    Cost,
    Gain,
    Mean,
    cost_of,
    gain_of,
    interval_over_sets,
    less,
)
from freki.operators.evaluate.figures import FACTS, FAILED, FALSE_POSITIVES, HIT_1, HIT_5, NDCG, SPANS
from freki.operators.evaluate.tune import LIKELY_CHANCE
from freki.schemas.names import record
from freki.streams.evaluate.ablation import AblationRow
from freki.streams.evaluate.result import SEED

Answers = Mapping[str, Mapping[Asked, Mapping[str, float]]]
"""Figures by title of the row, and by question."""
Times = Mapping[str, Mapping[Asked, float]]
"""Milliseconds, likewise."""

JUDGED_BY = (NDCG, FAILED, SPANS, FACTS, HIT_1, HIT_5)
"""Figures that a step may raise, or lower where less is better, to be worth something."""
_BETTER = {figure.name: 1 if figure.higher_is_better else -1 for figure in FIGURES}


@record
class Measured:
    """A configuration: over one set, or over all, each of which counts the same."""

    title: str
    step: str
    """What it leaves out; empty: no single step."""
    configuration: str
    """As `freki eval --a` takes it."""
    means: Mapping[str, Mean]
    differences: Mapping[str, Gain]
    """Of each figure, from what is set: as the figure counts, so above 0 is worse where less is better."""
    cost: Cost
    """Of the questions that were timed, beside what is set."""

    @property
    def losses(self) -> list[str]:
        """Name the figures that are worse than as set, more than chance would have it."""
        return [name for name in JUDGED_BY if self._moves(name, -1)]

    @property
    def gains(self) -> list[str]:
        """Name the figures that are better."""
        return [name for name in JUDGED_BY if self._moves(name, 1)]

    def _moves(self, name: str, sign: int) -> bool:
        found = self.differences.get(name)
        return found is not None and found.p <= LIKELY_CHANCE and sign * _BETTER[name] * found.value > 0


@record
class AblatedSet:
    """A set of the ablation."""

    name: str
    documents: int | None
    """None: whatever the running index holds."""
    questions: int
    timed: int
    notes: tuple[str, ...]
    rows: tuple[Measured, ...]
    remarks: Mapping[str, tuple[str, ...]]
    """What readers should know of the answers, by title of the row."""


@record
class Ablation:
    """One call of the command, as the JSON file holds it."""

    format: Literal["freki ablation 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, models, settings."""
    sets: tuple[AblatedSet, ...]
    overall: tuple[Measured, ...]
    """Over all sets; empty where there is but one."""


def measured(rows: Sequence[AblationRow], answers: Answers, times: Times) -> tuple[Measured, ...]:
    """Put each row beside the first. All rows were asked the same questions, and some of these were timed."""
    first = rows[0].title
    return tuple(
        Measured(
            title=row.title,
            step=row.step,
            configuration=row.configuration.text,
            means={
                name: interval_over_sets(values, seed=SEED) for name, values in _columns(answers[row.title]).items()
            },
            differences={} if row.title == first else _differences(answers[row.title], answers[first]),
            cost=cost_of(*([times[title][asked] for asked in sorted(times[first])] for title in (row.title, first))),
        )
        for row in rows
    )


def _columns(answers: Mapping[Asked, Mapping[str, float]]) -> dict[str, dict[Asked, float]]:
    """Give the figures that any question has; false positives mean little without a threshold that was chosen."""
    columns = {
        figure.name: {asked: found[figure.name] for asked, found in answers.items() if figure.name in found}
        for figure in FIGURES
        if figure.name != FALSE_POSITIVES
    }
    return {name: values for name, values in columns.items() if values}


def _differences(
    answers: Mapping[Asked, Mapping[str, float]], first: Mapping[Asked, Mapping[str, float]]
) -> dict[str, Gain]:
    beside = _columns(first)
    return {name: gain_of(less(values, beside[name]), seed=SEED) for name, values in _columns(answers).items()}
