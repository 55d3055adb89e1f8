"""Which value of an option is best, which costs least among equals, and what that choice is worth elsewhere."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np

from freki.operators.evaluate.cost import cost_of, saves
from freki.operators.evaluate.gain import Asked, Gain, Values, gain_of, less, mean_over_sets, standard_error
from freki.schemas.names import record

Scores = Mapping[str, Values]
"""By value, in the order of its option: one figure of each question, higher is better."""
Times = Mapping[str, Sequence[float]]
"""By value: milliseconds, in the same order of questions for each."""

LIKELY_CHANCE = 0.05
MOST_LOST = 0.01
"""What a faster value may cost at most, by the lower end of the interval."""
_CLEARLY_WORSE = 2.58
"""Standard errors: 99 % of a normal distribution."""
_LEAST_SCREENED = 20
"""Fewer questions judge nothing out of the race."""


class TuningVerdict(StrEnum):
    """Why an option moves, or does not."""

    BETTER = "BETTER"
    """The questions that the choice did not see are answered better."""
    CHEAPER = "CHEAPER"
    """As good as the best, and clearly faster; questions that the choice did not see surely lose less than 0.01."""
    AS_GOOD = "AS_GOOD"
    """The present value is within a standard error of the best, and none of those is clearly faster."""
    UNPROVEN = "UNPROVEN"
    """Another value looks better, or as good and faster, but not on questions that the choice did not see."""


@record
class Choice:
    """What came out for an option."""

    value: str
    """Chosen on all questions."""
    by_fold: tuple[str, ...]
    """Chosen on all questions but those of each fold."""
    gain: Gain
    """Of each fold's choice over the present value, on the questions of that fold."""
    verdict: TuningVerdict

    @property
    def moves(self) -> bool:
        """Return whether the chosen value has earned its place."""
        return self.verdict in (TuningVerdict.BETTER, TuningVerdict.CHEAPER)


def folds_of(questions: Iterable[Asked], *, folds: int, seed: int) -> dict[Asked, int]:
    """Deal the questions of each set to the folds, as evenly as they go, in an order drawn from the seed."""
    dealt = _dealt(questions, seed)
    return {asked: place % folds for drawn in dealt.values() for place, asked in enumerate(drawn)}


def first_part(questions: Iterable[Asked], *, share: float, least: int, seed: int) -> frozenset[Asked]:
    """Return a share of each set's questions, but at least so many: those that all values are asked."""
    dealt = _dealt(questions, seed)
    return frozenset(asked for drawn in dealt.values() for asked in drawn[: max(least, round(share * len(drawn)))])


def survivors(screened: Scores, *, present: str, fold_of: Mapping[Asked, int], folds: int) -> list[str]:
    """Return the values that stay in the race: not clearly worse than the best in every view of the questions.

    A view leaves out one fold, or none. What only some views drop is asked further, and stays out of the choice of
    those views: so no choice rests on questions that its gain is measured on.
    Source: Moore and Lee, ICML 1994 (racing, with questions as blocks).
    """
    kept = {value for view in _views(folds) for value in _kept(screened, present, fold_of, view)}
    return [value for value in screened if value in kept]


def choose(scores: Scores, *, present: str, times: Times) -> str:
    """Return the fastest of the values within one standard error of the best, by the mean over sets.

    Of the paired difference to the best, that is: questions differ more than answers to one question do. A value that
    is not clearly faster than the present one does not replace it; where the present one is not among them, the same
    holds of the best. Equal means fall to the present value, then to the first.
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
    fold_of: Mapping[Asked, int],
    folds: int,
    seed: int,
) -> Choice:
    """Choose on all questions, and measure what choosing so is worth: each fold by the choice of the others.

    scores: every value was asked the same questions, the present one too; screened: what `survivors` was given. The
    order of questions does not matter. Raises ValueError where fewer questions than folds are given.
    Source: Stone, Journal of the Royal Statistical Society B, 1974, doi:10.1111/j.2517-6161.1974.tb00994.x.
    """
    if len(scores[present]) < folds:
        raise ValueError(f"{len(scores[present])} questions do not fill {folds} folds")
    chosen: list[str] = []
    held_out: dict[Asked, float] = {}
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
    """Name each view by the fold that it leaves out; the last leaves out none."""
    return range(folds + 1)


def _within(values: Values, fold_of: Mapping[Asked, int], view: int) -> Values:
    return {asked: value for asked, value in values.items() if fold_of[asked] != view}


def _kept(screened: Scores, present: str, fold_of: Mapping[Asked, int], view: int) -> Collection[str]:
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


def _dealt(questions: Iterable[Asked], seed: int) -> dict[str, list[Asked]]:
    """Shuffle the questions of each set; neither their order nor other sets matter."""
    sets: defaultdict[str, list[Asked]] = defaultdict(list)
    for asked in sorted(questions):
        sets[asked.set_name].append(asked)
    return {
        name: [each[place] for place in np.random.default_rng(seed).permutation(len(each))]
        for name, each in sets.items()
    }
