"""Combination of reranker probabilities and fused scores into one relevance."""

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import FloatsOfAnyWidth

LEAST_PROBABILITY = 1e-6
"""Lower bound of probabilities, so that log-odds are finite."""


def evidence(probabilities: FloatsOfAnyWidth) -> NDArray[np.float64]:
    """Return the log-odds of probabilities, (candidates,), which are clipped to 0.000001 and 0.999999.

    Most probabilities are close to 0, where a small difference is a large one in log-odds.
    """
    likely = np.clip(np.asarray(probabilities, np.float64), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    log_odds: NDArray[np.float64] = np.log(likely / (1 - likely))
    return log_odds


def blend(probabilities: FloatsOfAnyWidth, fused: FloatsOfAnyWidth, *, weight: float) -> NDArray[np.float64]:
    """Return relevance, (candidates,): log-odds of the probabilities plus `weight` times the fused scores.

    fused: (candidates,), 0..1. Weight 0 keeps the order of the probabilities. Monotonic in both arguments.
    Raises ValueError where shapes do not fit, or the weight is negative or not finite.
    """
    if probabilities.shape != fused.shape:
        raise ValueError(f"probabilities {probabilities.shape} and fused {fused.shape} do not fit")
    if not 0 <= weight < np.inf:
        raise ValueError(f"weight must be at least 0, got {weight}")
    relevance: NDArray[np.float64] = evidence(probabilities) + weight * np.asarray(fused, np.float64)
    return relevance
