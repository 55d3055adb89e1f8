"""Pseudo-relevance feedback from the best texts of a first search."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from freki.schemas.arrays import Floats

MOST_TERMS = 15
"""Maximum terms of the texts."""
MOST_REPEATED = 5
"""Maximum repetitions of a term in a query, by which BM25 weights it."""


def feedback_terms(asked: str, texts: Sequence[str], scores: Sequence[float]) -> str:
    """Return terms for BM25: those of the query and the highest-weighted ones of the texts, by repetition.

    asked, texts: terms separated by spaces; scores: relevance of each text, at least 0. The weight of a term is the sum
    over texts of its frequency times the score; those of the texts together weigh as much as the query. Marked words
    (`=`) are left out. Empty where no text scores above 0. Deviation from the source: no smoothing by the collection,
    since BM25 uses its statistics.
    Source: Abdul-Jaleel et al., UMass at TREC 2004 (RM3).
    """
    weights = _relevance(texts, scores)
    if not weights:
        return ""
    best = sorted(weights.items(), key=lambda each: (-each[1], each[0]))[:MOST_TERMS]
    total = math.fsum(weight for _, weight in best)
    own = Counter(asked.split())
    mixed = {term: number / own.total() for term, number in own.items()}
    for term, weight in best:
        mixed[term] = mixed.get(term, 0.0) + weight / total
    unit = max(mixed.values()) / MOST_REPEATED
    return " ".join(" ".join([term] * max(1, round(weight / unit))) for term, weight in mixed.items())


def feedback_vector(query: Floats, vectors: Sequence[Floats]) -> Floats:
    """Return the query vector moved half of the way to the mean of others; all of length 1, as the result, (dim,).

    Without others the query vector itself. Source: Rocchio, 1971, without negative feedback.
    """
    if not len(vectors):
        return query
    moved = 0.5 * query + 0.5 * np.mean(vectors, axis=0, dtype=np.float32)
    return np.asarray(moved / max(float(np.linalg.norm(moved)), 1e-9), dtype=np.float32)


def _relevance(texts: Sequence[str], scores: Sequence[float]) -> dict[str, float]:
    weights: defaultdict[str, list[float]] = defaultdict(list)
    for text, score in zip(texts, scores, strict=True):
        if score <= 0:
            continue
        terms = Counter(term for term in text.split() if not term.startswith("="))
        for term, number in terms.items():
            weights[term].append(score * number / terms.total())
    return {term: math.fsum(parts) * len(parts) / len(texts) for term, parts in weights.items()}
