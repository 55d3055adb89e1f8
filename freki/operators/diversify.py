"""A selection that is relevant and does not say the same thing twice."""

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import FloatsOfAnyWidth


def maximal_marginal_relevance(
    relevance: FloatsOfAnyWidth,
    vectors: FloatsOfAnyWidth,
    *,
    limit: int,
    trade_off: float = 0.5,
    least_likeness: float = -np.inf,
) -> list[int]:
    """Choose up to `limit` candidates: each time the one with the best relevance less its likeness to those chosen.

    relevance: (candidates,), any scale; vectors: (candidates, dim), rows of length 1. Returns places, best first; the
    first is the most relevant one. Equal gains fall to the smaller place, so give candidates in a fixed order.
    trade_off: 1 keeps the order of relevance, 0 looks at diversity only. Relevance is min-max scaled to 0..1, likeness
    is the cosine as it is. The cosines of one embedder lie close together (e5: 0.7 to 0.95), so that 0.5 mostly decides
    between near-equals: it changed nDCG@10 by -0.0004 and +0.002 on two collections, where raw relevance loses 0.035
    and 0.096. An embedder whose cosines spread wider diversifies more at the same value.
    least_likeness: a smaller one counts as this much, so that a cosine that means nothing looks like no difference.
    Raises ValueError where shapes do not fit, `trade_off` is outside 0..1, or `limit` is negative.
    Source: Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025.
    """
    if relevance.ndim != 1 or vectors.shape != (len(relevance), vectors.shape[-1]):
        raise ValueError(f"relevance {relevance.shape} and vectors {vectors.shape} do not fit")
    if not 0 <= trade_off <= 1:
        raise ValueError(f"trade_off must be in 0..1, got {trade_off}")
    if limit < 0:
        raise ValueError(f"limit must be at least 0, got {limit}")
    gain = trade_off * _scaled(relevance)
    likeness = np.full(len(relevance), least_likeness)
    chosen: list[int] = []
    place = int(np.argmax(relevance)) if len(relevance) else 0
    while len(chosen) < min(limit, len(relevance)):
        chosen.append(place)
        gain[place] = -np.inf
        likeness = np.maximum(likeness, vectors @ vectors[place])
        place = int(np.argmax(gain - (1 - trade_off) * likeness))
    return chosen


def _scaled(relevance: FloatsOfAnyWidth) -> NDArray[np.float64]:
    low, high = relevance.min(initial=np.inf), relevance.max(initial=-np.inf)
    return np.zeros(len(relevance)) if high <= low else (relevance - low).astype(np.float64) / (high - low)
