"""One order from what two looks at the same candidates say."""

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import FloatsOfAnyWidth

LEAST_PROBABILITY = 1e-6
"""One below this is 0, as far as evidence goes."""


def evidence(probabilities: FloatsOfAnyWidth) -> NDArray[np.float64]:
    """Return the log-odds of probabilities, (candidates,), within those of 0.000001 and its opposite.

    Most probabilities are close to 0, where a small difference of theirs is a large one of evidence.
    """
    likely = np.clip(np.asarray(probabilities, np.float64), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    log_odds: NDArray[np.float64] = np.log(likely / (1 - likely))
    return log_odds


def blend(probabilities: FloatsOfAnyWidth, fused: FloatsOfAnyWidth, *, weight: float) -> NDArray[np.float64]:
    """Return relevance, (candidates,): the log-odds of the probabilities, and `weight` for a fused score of 1.

    fused: (candidates,), 0..1. Weight 0 keeps the order of the probabilities; nothing that is better in both comes
    after what is worse in both.
    Raises ValueError where shapes do not fit, or the weight is negative or not finite.
    """
    if probabilities.shape != fused.shape:
        raise ValueError(f"probabilities {probabilities.shape} and fused {fused.shape} do not fit")
    if not 0 <= weight < np.inf:
        raise ValueError(f"weight must be at least 0, got {weight}")
    relevance: NDArray[np.float64] = evidence(probabilities) + weight * np.asarray(fused, np.float64)
    return relevance
