"""Means of metrics over questions, with confidence intervals."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from freki.operators.evaluate.figures import FIGURES
from freki.schemas.names import record

RESAMPLES = 2000
_BLOCK_DRAWS = 4_000_000
"""Maximum draws in memory: 32 MB."""


@record
class Mean:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float
    questions: int


def mean_of(values: Sequence[float], *, seed: int) -> Mean:
    """Return the mean with a 95 % bootstrap interval: percentiles of the means of 2,000 resamples of the questions.

    Deterministic for a seed. Raises ValueError if there is no value.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    if not values:
        raise ValueError("a mean of no values is not defined")
    given = np.array(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK_DRAWS // len(given))
    means = [
        given[rng.integers(len(given), size=(min(rows, RESAMPLES - at), len(given)))].mean(axis=1)
        for at in range(0, RESAMPLES, rows)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Mean(value=math.fsum(values) / len(values), low=float(low), high=float(high), questions=len(values))


def summarise(questions: Sequence[Mapping[str, float]], *, seed: int) -> dict[str, Mean]:
    """Return the mean of each metric over the questions that have it, in the order of reports."""
    columns = {
        figure.name: [figures[figure.name] for figures in questions if figure.name in figures] for figure in FIGURES
    }
    return {name: mean_of(values, seed=seed) for name, values in columns.items() if values}
