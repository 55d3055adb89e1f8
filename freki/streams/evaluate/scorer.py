"""Scores, gains and costs of answers, by the tuned figure."""

from collections.abc import Mapping, Sequence

from freki.operators.evaluate import FIGURES, Figure, Gain, QuestionKey, cost_of, gain_of, less, mean_over_sets
from freki.operators.evaluate.figures import FALSE_POSITIVES, RECALL_100
from freki.streams.evaluate.tuning import Check, TriedValue

Answers = Mapping[QuestionKey, Mapping[str, float]]
"""Figures by question."""
Timed = Mapping[str, Sequence[float]]
"""Latencies in milliseconds by value, in the same order of questions for each."""

TUNABLE = tuple(figure for figure in FIGURES if figure.name not in (RECALL_100, FALSE_POSITIVES))
"""Figures that an answer as served can tell: the others need more hits, or a chosen threshold."""


class Scorer:
    """Scores answers by one figure. Gains above 0 are better, even if a lower figure is better."""

    def __init__(self, figure: Figure, *, seed: int) -> None:
        self._name = figure.name
        self._sign = 1 if figure.higher_is_better else -1
        self._seed = seed

    def scores(self, answers: Mapping[str, Answers]) -> dict[str, dict[QuestionKey, float]]:
        """Return the figure of each value and question, signed so that higher is better."""
        return {value: self._of(each) for value, each in answers.items()}

    def tried(
        self, value: str, answers: Answers, *, present: str, beside: Answers, times: Timed, dropped: bool
    ) -> TriedValue:
        """Compare a value with the present one."""
        gain, by_set = self._gains(answers, beside)
        return TriedValue(
            title=value,
            figures=_means(answers),
            gain=gain,
            by_set=by_set,
            cost=cost_of(times[value], times[present]),
            dropped=dropped,
        )

    def checked(
        self, answers: Mapping[str, Answers], times: Timed, *, changed: str, present: str, fresh: bool, shortened: bool
    ) -> Check:
        """Compare all changes with the settings."""
        gain, by_set = self._gains(answers[changed], answers[present])
        cost = cost_of(times[changed], times[present])
        return Check(fresh=fresh, shortened=shortened, gain=gain, by_set=by_set, cost=cost)

    def _gains(self, answers: Answers, beside: Answers) -> tuple[Gain, dict[str, Gain]]:
        found = less(self._of(answers), self._of(beside))
        by_set = {
            name: {asked: each for asked, each in found.items() if asked.set_name == name}
            for name in sorted({asked.set_name for asked in found})
        }
        return gain_of(found, seed=self._seed), {name: gain_of(each, seed=self._seed) for name, each in by_set.items()}

    def _of(self, answers: Answers) -> dict[QuestionKey, float]:
        return {asked: self._sign * found[self._name] for asked, found in answers.items() if self._name in found}


def _means(answers: Answers) -> dict[str, float]:
    """Return the mean over sets of each tunable figure that any question has."""
    columns = {
        figure.name: {asked: found[figure.name] for asked, found in answers.items() if figure.name in found}
        for figure in TUNABLE
    }
    return {name: mean_over_sets(values) for name, values in columns.items() if values}
