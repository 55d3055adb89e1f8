"""Gain of a change over several sets of questions of equal weight."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from freki.operators.evaluate.compare import randomisation_test
from freki.operators.evaluate.summarise import RESAMPLES, Mean
from freki.schemas.names import record


class QuestionKey(NamedTuple):
    """A question of a set."""

    set_name: str
    question_id: str


@record
class Gain:
    """Mean over sets of their mean differences, with a 95 % interval."""

    value: float
    low: float
    high: float
    p: float
    """Two-sided p-value of the paired randomisation test."""
    questions: int


Values = Mapping[QuestionKey, float]
"""A metric, or a difference of it, by question."""


def mean_over_sets(values: Values) -> float:
    """Return the mean of the means of sets. Raises ValueError if there is no value."""
    means = [math.fsum(each) / len(each) for each in _by_set(values).values()]
    if not means:
        raise ValueError("a mean of no values is not defined")
    return math.fsum(means) / len(means)


def standard_error(differences: Values) -> float:
    """Return the standard error of the mean over sets: questions are sampled, sets are fixed.

    For a set with one question, its difference is used as the spread.
    """
    sets = _by_set(differences).values()
    return math.sqrt(math.fsum(_variance(each) / len(each) for each in sets)) / len(sets) if sets else 0.0


def interval_over_sets(values: Values, *, seed: int) -> Mean:
    """Return the mean over sets with its 95 % interval: a stratified bootstrap, 2,000 resamples within each set.

    Raises ValueError if there is no value. Source: Efron and Tibshirani, 1993, chapter 13.
    """
    value = mean_over_sets(values)
    rng = np.random.default_rng(seed)
    sets = _by_set(values).values()
    draws = np.zeros(RESAMPLES)
    for each in sets:
        given = np.array(each)
        draws += given[rng.integers(len(given), size=(RESAMPLES, len(given)))].mean(axis=1)
    low, high = np.percentile(draws / len(sets), [2.5, 97.5])
    return Mean(value=value, low=float(low), high=float(high), questions=len(values))


def gain_of(differences: Values, *, seed: int) -> Gain:
    """Return the mean over sets with a stratified bootstrap interval and the p-value of the randomisation test.

    2,000 resamples within each set; in the test a question has the weight of its share of the mean. Independent
    of the order of questions. Raises ValueError if there is no difference.
    Source: Efron and Tibshirani, 1993, chapter 13; Smucker et al., CIKM 2007, doi:10.1145/1321440.1321528.
    """
    mean = interval_over_sets(differences, seed=seed)
    sets = _by_set(differences).values()
    weighted = [len(differences) / (len(sets) * len(each)) * difference for each in sets for difference in each]
    p = randomisation_test(weighted, seed=seed)
    return Gain(value=mean.value, low=mean.low, high=mean.high, p=p, questions=len(differences))


def less(values: Values, others: Values) -> dict[QuestionKey, float]:
    """Return the differences of the questions in both."""
    return {asked: value - others[asked] for asked, value in values.items() if asked in others}


def _by_set(values: Values) -> dict[str, list[float]]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for asked in sorted(values):
        found[asked.set_name].append(values[asked])
    return found


def _variance(values: list[float]) -> float:
    if len(values) == 1:
        return values[0] ** 2
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
