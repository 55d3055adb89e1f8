"""Platt scaling of logits to probabilities."""

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import Floats

_STEPS = 50
_CLOSE = 1e-9


def platt(logits: Floats, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and shift so that sigmoid(slope * logit + shift) is the probability of relevance.

    Raises ValueError where all or none are relevant, or relevance does not increase with the logit.
    Source: Platt, Advances in Large Margin Classifiers, 1999; Newton's method with halved steps as in Lin et al.,
    Machine Learning 2007, doi:10.1007/s10994-007-5018-6.
    """
    if right.all() or not right.any():
        raise ValueError("to calibrate, some candidates must be right and some wrong")
    x = np.stack([logits.astype(np.float64), np.ones(len(logits))], axis=1)
    wanted = _smoothed(right)
    found = np.array([0.0, np.log(wanted.mean() / (1 - wanted.mean()))])
    for _ in range(_STEPS):
        said = _sigmoid(x @ found)
        gradient = x.T @ (said - wanted)
        if np.abs(gradient).max() < _CLOSE * len(x):
            break
        curvature = (x * (said * (1 - said))[:, None]).T @ x + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while _loss(x @ (found - step), wanted) > _loss(x @ found, wanted) and np.abs(step).max() > _CLOSE:
            step = step / 2
        found = found - step
    slope, shift = map(float, found)
    if slope <= 0:
        raise ValueError("higher logits are not more often right: nothing was learned")
    return slope, shift


def _smoothed(right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return smoothed labels, as in Platt, by the number of positives and negatives."""
    yes, no = int(right.sum()), int((~right).sum())
    return np.where(right, (yes + 1) / (yes + 2), 1 / (no + 2))


def _loss(logits: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    return float((np.logaddexp(0, logits) - wanted * logits).sum())


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (1 + np.tanh(logits / 2))
