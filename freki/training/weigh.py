"""Weights of features by listwise learning to rank."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from freki.schemas.arrays import Floats

_LEAST = 0.05
"""Minimum of the first weight, by which the others are divided, for features of unit variance."""
_RIDGE = 1e-4
_TINY = 1e-9


class CandidateList(NamedTuple):
    """The candidates of one question."""

    features: Floats
    """(candidates, features), in the order of retrieval."""
    right: NDArray[np.bool_]
    """(candidates,): relevance."""
    share: float = 1.0
    """Weight of the list among others."""


def weigh(lists: Sequence[CandidateList]) -> tuple[float, ...]:
    """Return nonnegative weights, the first of them 1, that maximise the likelihood of answers among candidates.

    Minimises the mean of -log of the softmax over candidates, summed over answers. Lists without an answer are ignored;
    raises ValueError if there is no other.
    Source: Cao et al., ICML 2007, doi:10.1145/1273496.1273513 (top-one listwise loss).
    """
    answered = [each for each in lists if each.right.any()]
    if not answered:
        raise ValueError("no question has its answer among its candidates")
    spread = np.concatenate([each.features for each in answered]).std(axis=0, dtype=np.float64) + _TINY
    total_share = sum(each.share for each in answered)
    scaled = [(each.features / spread, each.right, each.share / total_share) for each in answered]

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total, gradient = _RIDGE * float(weights @ weights), 2 * _RIDGE * weights
        for features, right, share in scaled:
            sums = features @ weights
            shares = np.exp(sums - sums.max())
            shares /= shares.sum()
            likelihood = float(shares[right].sum()) + _TINY
            total -= share * np.log(likelihood)
            gradient = gradient + share * (features.T @ (shares - shares * right / likelihood))
        return total, gradient

    size = len(spread)
    bounds = [(_LEAST, None), *[(0.0, None)] * (size - 1)]
    found = minimize(loss, np.ones(size), jac=True, bounds=bounds, method="L-BFGS-B").x / spread
    return tuple(float(weight) for weight in found / found[0])
