"""Paired comparison of two configurations, with significance tests."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.operators.evaluate.figures import FIGURES
from freki.operators.evaluate.summarise import Mean, mean_of

Figures = Mapping[str, float]

DRAWS = 10_000
_EXACT_UP_TO = 13
"""Maximum differences for an exact test: 2^13 sign patterns are fewer than the draws."""
_BLOCK_DRAWS = 4_000_000
# Exceeds rounding differences of sums in another order.
_ROUNDING = 1e-9


class Comparison(NamedTuple):
    """Differences of one metric, the second configuration minus the first."""

    difference: Mean
    p_randomisation: float
    """Two-sided p-value of the paired randomisation test."""
    p_t: float
    """Two-sided p-value of the paired t-test."""
    better: int
    same: int
    worse: int


class Change(NamedTuple):
    """A question whose answer changed."""

    question_id: str
    figure: str
    """First metric that differs, in the order of reports."""
    gain: float
    """Above 0: the second configuration is better."""


def compare(first: Mapping[str, Figures], second: Mapping[str, Figures], *, seed: int) -> dict[str, Comparison]:
    """Compare each metric over the questions that have it in both, by question id; in the order of reports.

    Metrics without such a question are absent. p-values are not corrected for multiple comparisons.
    Source: Smucker et al., CIKM 2007, doi:10.1145/1321440.1321528, who find that both tests agree on rankings.
    """
    found = {}
    for figure in FIGURES:
        pairs = [
            (first[name][figure.name], second[name][figure.name])
            for name in sorted(first.keys() & second.keys())
            if figure.name in first[name] and figure.name in second[name]
        ]
        if pairs:
            found[figure.name] = _compared(pairs, higher_is_better=figure.higher_is_better, seed=seed)
    return found


def most_changed(first: Mapping[str, Figures], second: Mapping[str, Figures], *, limit: int) -> list[Change]:
    """Return the questions that changed most, by the first metric, then the next ones; ties by id.

    Questions without a difference in any common metric are left out.
    """
    changed = []
    for name in sorted(first.keys() & second.keys()):
        gains = {
            figure.name: (second[name][figure.name] - first[name][figure.name]) * (1 if figure.higher_is_better else -1)
            for figure in FIGURES
            if figure.name in first[name] and figure.name in second[name]
        }
        if differing := [figure for figure, gain in gains.items() if gain]:
            change = Change(name, differing[0], gains[differing[0]])
            changed.append(([-abs(gains.get(figure.name, 0.0)) for figure in FIGURES], change))
    changed.sort(key=lambda each: each[0])
    return [change for _, change in changed[:limit]]


def _compared(pairs: Sequence[tuple[float, float]], *, higher_is_better: bool, seed: int) -> Comparison:
    differences = [second - first for first, second in pairs]
    more, less = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    return Comparison(
        difference=mean_of(differences, seed=seed),
        p_randomisation=randomisation_test(differences, seed=seed),
        p_t=t_test(differences),
        better=more if higher_is_better else less,
        same=len(differences) - more - less,
        worse=less if higher_is_better else more,
    )


def randomisation_test(differences: Sequence[float], *, seed: int) -> float:
    """Return the two-sided p-value of the paired randomisation test for a mean of 0.

    Exact for up to 13 nonzero differences, else from 10,000 draws, with a minimum of 1 / 10,001.
    Source: Fisher, The Design of Experiments, 1935, §21; Smucker et al., CIKM 2007.
    """
    moved = np.array([each for each in differences if each], dtype=np.float64)
    if not len(moved):
        return 1.0
    observed = abs(moved.sum()) - _ROUNDING
    if len(moved) <= _EXACT_UP_TO:
        patterns = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
        return float(np.mean(np.abs(_signed_sums(patterns, moved)) >= observed))
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK_DRAWS // len(moved))
    extreme = sum(
        int(np.count_nonzero(np.abs(_signed_sums(patterns, moved)) >= observed))
        for at in range(0, DRAWS, rows)
        for patterns in [rng.integers(2, size=(min(rows, DRAWS - at), len(moved)), dtype=np.int8)]
    )
    return (extreme + 1) / (DRAWS + 1)


def t_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Student's t-test for a mean of 0; 1 where fewer than two differences are given.

    Source: Student, Biometrika 1908, doi:10.1093/biomet/6.1.1.
    """
    from scipy.special import stdtr  # noqa: PLC0415 - in the extra `eval`, and slow to load

    count = len(differences)
    if count < 2 or not any(differences):  # noqa: PLR2004 - one difference has no spread
        return 1.0
    mean = math.fsum(differences) / count
    variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
    if variance == 0:
        return 0.0
    return float(2 * stdtr(count - 1, -abs(mean) / math.sqrt(variance / count)))


def _signed_sums(patterns: NDArray[np.integer], moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of the differences with random signs; patterns: (draws, differences) of 0 and 1."""
    sums: NDArray[np.float64] = (2.0 * patterns - 1.0) @ moved
    return sums
