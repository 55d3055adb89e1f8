"""Results of an ablation: quality and latency of each configuration, compared with the settings."""

from collections.abc import Mapping, Sequence
from typing import Literal

from freki.operators.evaluate import FIGURES, Cost, Gain, Mean, QuestionKey, cost_of, gain_of, interval_over_sets, less
from freki.operators.evaluate.figures import FACTS, FAILED, FALSE_POSITIVES, HIT_1, HIT_5, NDCG, SPANS
from freki.operators.evaluate.tune import LIKELY_CHANCE
from freki.schemas.names import record
from freki.streams.evaluate.ablation import AblationRow
from freki.streams.evaluate.result import SEED

Answers = Mapping[str, Mapping[QuestionKey, Mapping[str, float]]]
"""Figures by title of the row, and by question."""
Times = Mapping[str, Mapping[QuestionKey, float]]
"""Latencies in milliseconds, by title of the row and by question."""

JUDGED_BY = (NDCG, FAILED, SPANS, FACTS, HIT_1, HIT_5)
"""Figures by which a step is judged."""
_BETTER = {figure.name: 1 if figure.higher_is_better else -1 for figure in FIGURES}


@record
class Measured:
    """Results of a configuration, over one set or over all sets with equal weight."""

    title: str
    step: str
    """Step left out; empty: not a single step."""
    configuration: str
    """As `freki eval --a` takes it."""
    means: Mapping[str, Mean]
    differences: Mapping[str, Gain]
    """Difference of each figure to the settings, in the sense of the figure: above 0 is worse if lower is better."""
    cost: Cost
    """Latency of the timed questions, compared with the settings."""

    @property
    def losses(self) -> list[str]:
        """Return the names of the figures that are significantly worse than as set."""
        return [name for name in JUDGED_BY if self._moves(name, -1)]

    @property
    def gains(self) -> list[str]:
        """Return the names of the figures that are significantly better than as set."""
        return [name for name in JUDGED_BY if self._moves(name, 1)]

    def _moves(self, name: str, sign: int) -> bool:
        found = self.differences.get(name)
        return found is not None and found.p <= LIKELY_CHANCE and sign * _BETTER[name] * found.value > 0


@record
class AblatedSet:
    """A set of the ablation."""

    name: str
    documents: int | None
    """None: unknown, the running index is searched."""
    questions: int
    timed: int
    notes: tuple[str, ...]
    rows: tuple[Measured, ...]
    remarks: Mapping[str, tuple[str, ...]]
    """Remarks on the answers, by title of the row."""


@record
class Ablation:
    """Ablation as stored in its JSON file."""

    format: Literal["freki ablation 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, models, settings."""
    sets: tuple[AblatedSet, ...]
    overall: tuple[Measured, ...]
    """Results over all sets; empty for a single set."""


def measured(rows: Sequence[AblationRow], answers: Answers, times: Times) -> tuple[Measured, ...]:
    """Compare each row with the first. All rows have answers to the same questions, some of them timed."""
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


def _columns(answers: Mapping[QuestionKey, Mapping[str, float]]) -> dict[str, dict[QuestionKey, float]]:
    """Return the figures that any question has, without false positives: those need a chosen threshold."""
    columns = {
        figure.name: {asked: found[figure.name] for asked, found in answers.items() if figure.name in found}
        for figure in FIGURES
        if figure.name != FALSE_POSITIVES
    }
    return {name: values for name, values in columns.items() if values}


def _differences(
    answers: Mapping[QuestionKey, Mapping[str, float]], first: Mapping[QuestionKey, Mapping[str, float]]
) -> dict[str, Gain]:
    beside = _columns(first)
    return {name: gain_of(less(values, beside[name]), seed=SEED) for name, values in _columns(answers).items()}
