"""Selection of the value of an option: the fastest of the best, with a cross-validated gain."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np

from freki.operators.evaluate.cost import cost_of, saves
from freki.operators.evaluate.gain import Gain, QuestionKey, Values, gain_of, less, mean_over_sets, standard_error
from freki.schemas.names import record

Scores = Mapping[str, Values]
"""Metric by question, higher is better, for each value in the order of the option."""
Times = Mapping[str, Sequence[float]]
"""Latencies in milliseconds for each value, in the same order of questions."""

LIKELY_CHANCE = 0.05
"""Maximum p-value of a significant gain."""
MOST_LOST = 0.01
"""Maximum loss by a faster value, at the lower end of the interval."""
_CLEARLY_WORSE = 2.58
"""Standard errors below the best after which a value is dropped: 99 % of a normal distribution."""
_LEAST_SCREENED = 20
"""Minimum questions for dropping a value."""


class TuningVerdict(StrEnum):
    """Reason for changing or keeping an option."""

    BETTER = "BETTER"
    """Significantly better on held-out questions."""
    CHEAPER = "CHEAPER"
    """As good as the best, and significantly faster; the loss on held-out questions is below 0.01."""
    AS_GOOD = "AS_GOOD"
    """The present value is within a standard error of the best, and none of these is significantly faster."""
    UNPROVEN = "UNPROVEN"
    """Another value seems better, or as good and faster, but not significantly on held-out questions."""


@record
class Choice:
    """Result for an option."""

    value: str
    """Value chosen on all questions."""
    by_fold: tuple[str, ...]
    """Values chosen on the questions outside of each fold."""
    gain: Gain
    """Gain of the choice of each fold over the present value, on the questions of that fold."""
    verdict: TuningVerdict

    @property
    def moves(self) -> bool:
        """Whether the option should change to the chosen value."""
        return self.verdict in (TuningVerdict.BETTER, TuningVerdict.CHEAPER)


def folds_of(questions: Iterable[QuestionKey], *, folds: int, seed: int) -> dict[QuestionKey, int]:
    """Distribute the questions of each set evenly over the folds, in a seeded random order."""
    dealt = _dealt(questions, seed)
    return {asked: place % folds for drawn in dealt.values() for place, asked in enumerate(drawn)}


def first_part(questions: Iterable[QuestionKey], *, share: float, least: int, seed: int) -> frozenset[QuestionKey]:
    """Return a share of the questions of each set, at least `least`: those that all values are asked."""
    dealt = _dealt(questions, seed)
    return frozenset(asked for drawn in dealt.values() for asked in drawn[: max(least, round(share * len(drawn)))])


def survivors(screened: Scores, *, present: str, fold_of: Mapping[QuestionKey, int], folds: int) -> list[str]:
    """Return the values that are not significantly worse than the best in some view of the questions.

    A view leaves out one fold, or none. A value that only some views drop is evaluated further, but not available to
    these views, so that no choice depends on the questions that its gain is measured on.
    Source: Moore and Lee, ICML 1994 (racing, with questions as blocks).
    """
    kept = {value for view in _views(folds) for value in _kept(screened, present, fold_of, view)}
    return [value for value in screened if value in kept]


def choose(scores: Scores, *, present: str, times: Times) -> str:
    """Return the fastest of the values within one standard error of the best, by the mean over sets.

    The standard error is that of the paired difference to the best. A value that is not significantly faster than the
    present one does not replace it; if the present one is not among them, the same holds for the best. Ties fall to the
    present value, then to the first.
    Source: Breiman et al., Classification and Regression Trees, 1984, section 3.4.3 (one-standard-error rule).
    """
    means = {value: mean_over_sets(each) for value, each in scores.items()}
    best = max(scores, key=lambda value: (means[value], value == present))
    equals = [value for value in scores if means[best] - means[value] <= _error(scores, best, value)]
    kept = present if present in equals else best
    faster = [value for value in equals if value != kept and saves(times[value], times[kept])]
    return min(faster, key=lambda value: cost_of(times[value], times[kept]).difference_ms, default=kept)


def cross_validate(
    scores: Scores,
    *,
    screened: Scores,
    present: str,
    times: Times,
    fold_of: Mapping[QuestionKey, int],
    folds: int,
    seed: int,
) -> Choice:
    """Choose on all questions, and measure the gain of this procedure by cross-validation.

    scores: of the same questions for every value, including the present one; screened: the argument of `survivors`.
    Independent of the order of questions. Raises ValueError for fewer questions than folds.
    Source: Stone, Journal of the Royal Statistical Society B, 1974, doi:10.1111/j.2517-6161.1974.tb00994.x.
    """
    if len(scores[present]) < folds:
        raise ValueError(f"{len(scores[present])} questions do not fill {folds} folds")
    chosen: list[str] = []
    held_out: dict[QuestionKey, float] = {}
    for view in _views(folds):
        stay = _kept(screened, present, fold_of, view)
        seen = {value: _within(each, fold_of, view) for value, each in scores.items() if value in stay}
        chosen.append(choose(seen, present=present, times=times))
        unseen = {asked: value for asked, value in scores[chosen[-1]].items() if fold_of[asked] == view}
        held_out |= less(unseen, scores[present])
    *by_fold, value = chosen
    gain = gain_of(held_out, seed=seed)
    return Choice(value=value, by_fold=tuple(by_fold), gain=gain, verdict=_verdict(value, present, gain, times))


def _verdict(value: str, present: str, gain: Gain, times: Times) -> TuningVerdict:
    if value == present:
        return TuningVerdict.AS_GOOD
    if gain.value > 0 and gain.p <= LIKELY_CHANCE:
        return TuningVerdict.BETTER
    if saves(times[value], times[present]) and gain.low > -MOST_LOST:
        return TuningVerdict.CHEAPER
    return TuningVerdict.UNPROVEN


def _views(folds: int) -> Iterable[int]:
    """Return the views by the fold that they leave out; the last one leaves out none."""
    return range(folds + 1)


def _within(values: Values, fold_of: Mapping[QuestionKey, int], view: int) -> Values:
    return {asked: value for asked, value in values.items() if fold_of[asked] != view}


def _kept(screened: Scores, present: str, fold_of: Mapping[QuestionKey, int], view: int) -> Collection[str]:
    seen = {value: _within(each, fold_of, view) for value, each in screened.items()}
    if len(seen[present]) < _LEAST_SCREENED:
        return list(seen)
    means = {value: mean_over_sets(each) for value, each in seen.items()}
    best = max(seen, key=lambda value: (means[value], value == present))
    return [
        value
        for value in seen
        if value == present or means[best] - means[value] <= _CLEARLY_WORSE * _error(seen, best, value)
    ]


def _error(scores: Scores, best: str, value: str) -> float:
    return standard_error(less(scores[best], scores[value]))


def _dealt(questions: Iterable[QuestionKey], seed: int) -> dict[str, list[QuestionKey]]:
    """Return the shuffled questions of each set, independent of their order and of other sets."""
    sets: defaultdict[str, list[QuestionKey]] = defaultdict(list)
    for asked in sorted(questions):
        sets[asked.set_name].append(asked)
    return {
        name: [each[place] for place in np.random.default_rng(seed).permutation(len(each))]
        for name, each in sets.items()
    }
