"""Rank fusion: many rankings of the same chunks become one."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from freki.schemas import ChunkId

Scale = Callable[[Sequence[float]], list[float]]
"""Maps the scores of one ranking to 0..1, without changing their order."""
HALF_WAY = 10.0
"""BM25 score that `arctangent` maps to 0.5."""


class Scored(Protocol):
    """An entry of a ranking, such as a Candidate or Hit."""

    @property
    def chunk_id(self) -> ChunkId:
        """Id of the chunk."""

    @property
    def score(self) -> float:
        """Higher is better; comparable within one ranking."""


class Hit(NamedTuple):
    """One chunk with its score in a ranking."""

    chunk_id: ChunkId
    score: float


def min_max(scores: Sequence[float]) -> list[float]:
    """Map the best score to 1 and the worst to 0; if all are equal, to 1, since being found is evidence by itself.

    Source: Lee, SIGIR 1997, doi:10.1145/258525.258587.
    """
    return _between(scores, min(scores, default=0.0))


def from_floor(floor: float) -> Scale:
    """Return a scale that maps the best score to 1, and the minimum possible score to 0.

    Scores below the floor become 0; where all are at or below it, they become 1.
    Source: theoretical min-max of Bruch et al., TOIS 2023, doi:10.1145/3596512.
    """
    return lambda scores: _between(scores, floor)


def unit(scores: Sequence[float]) -> list[float]:
    """Clip scores to 0..1."""
    return [min(1.0, max(0.0, score)) for score in scores]


def from_distance(scores: Sequence[float]) -> list[float]:
    """Map negative distances of vectors of length 1, -2..0, to 0..1."""
    return unit([1 + score / 2 for score in scores])


def arctangent(scores: Sequence[float]) -> list[float]:
    """Map each unbounded score to 0..1 by 2/pi x arctan(score / 10); negative ones to 0.

    Source: Chen et al., ECIR 2022, doi:10.1007/978-3-030-99736-6_7.
    """
    return [2 / math.pi * math.atan(max(0.0, score) / HALF_WAY) for score in scores]


def saturation(score: float, *, pivot: float) -> float:
    """Map an unbounded score to 0..1 by score / (score + pivot): 0.5 at the pivot, saturating above.

    Weights BM25 against dense search: a best match of many rare words is strong evidence, while one that shares a
    common word or two with the query only shows that there is no better one.
    Raises ValueError where `pivot` is not above 0. Source: Craswell et al., SIGIR 2005, doi:10.1145/1076034.1076106.
    """
    if not pivot > 0:
        raise ValueError(f"pivot must be above 0, got {pivot}")
    return max(0.0, score) / (max(0.0, score) + pivot)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Scored]], *, k: int = 60, weights: Sequence[float] | None = None
) -> list[Hit]:
    """Score each chunk by the sum of weight / (k + rank) over the rankings that hold it; without weights they are 1.

    Ranks start at 1; input scores are ignored; of repeated chunks in a ranking the first counts.
    Best first, ties by chunk id; independent of the order of the rankings.
    Raises ValueError if `k` is negative, or the number of weights differs.
    Source: Cormack et al., SIGIR 2009, doi:10.1145/1571941.1572114.
    """
    if k < 0:
        raise ValueError(f"k must be at least 0, got {k}")
    terms: defaultdict[ChunkId, list[float]] = defaultdict(list)
    for ranking, weight in zip(rankings, [1.0] * len(rankings) if weights is None else weights, strict=True):
        for rank, chunk_id in enumerate(dict.fromkeys(hit.chunk_id for hit in ranking), start=1):
            terms[chunk_id].append(weight / (k + rank))
    return _best_first(terms)


def weighted_fusion(
    rankings: Sequence[Sequence[Scored]], *, weights: Sequence[float], scales: Sequence[Scale] | None = None
) -> list[Hit]:
    """Score each chunk by the weighted mean of its scaled scores, which lies in 0..1.

    scales: of each ranking; without them all are `min_max`. A missing chunk scores 0 in a ranking; the
    weight of an empty ranking counts too, since chunks that only one of two retrievers finds are less certain. Of
    repeated chunks in a ranking the first counts.
    Best first, ties by chunk id; independent of the order of the rankings.
    Raises ValueError if a score or weight is not finite, a weight negative, all are 0, or their number differs.
    Source: Bruch et al., TOIS 2023, doi:10.1145/3596512 (convex combination).
    """
    _check(rankings, weights)
    total = math.fsum(weights)
    terms: defaultdict[ChunkId, list[float]] = defaultdict(list)
    for ranking, weight, scale in zip(rankings, weights, scales or [min_max] * len(rankings), strict=True):
        scores = _first_scores(ranking)
        for chunk_id, score in zip(scores, scale(list(scores.values())), strict=True):
            terms[chunk_id].append(weight / total * score)
    return _best_first(terms)


def standardised_fusion(rankings: Sequence[Sequence[Scored]], *, weights: Sequence[float]) -> list[Hit]:
    """Score each chunk by the weighted sum of its z-scores, as a share of the sum of the best z-score of each ranking.

    A z-score is the number of standard deviations above the mean of a ranking: an outlier counts for more than the best
    of many near-equals, unlike with `min_max`. A missing chunk scores like the worst of the ranking; if all scores are
    equal, each counts 1. An empty ranking counts as the mean of the best of the others. Otherwise as
    `weighted_fusion`.
    Source: Montague and Aslam, CIKM 2001, doi:10.1145/502585.502657 (zero mean, unit variance). Deviations: missing
    chunks (two standard deviations below the mean in the paper), and the share, so that scores lie in 0..1.
    """
    _check(rankings, weights)
    terms: defaultdict[ChunkId, list[float]] = defaultdict(list)
    best: list[tuple[float, float]] = []
    for ranking, weight in zip(rankings, weights, strict=True):
        scores = _first_scores(ranking)
        above = _above_worst(list(scores.values()))
        for chunk_id, value in zip(scores, above, strict=True):
            terms[chunk_id].append(weight * value)
        best += [(weight, max(above))] if above else []
    found = math.fsum(weight for weight, _ in best)
    if not found:
        return _best_first(dict.fromkeys(terms, (0.0,)))
    most = math.fsum(weight * value for weight, value in best) * math.fsum(weights) / found
    return _best_first({chunk_id: [part / most for part in parts] for chunk_id, parts in terms.items()})


def _above_worst(scores: Sequence[float]) -> list[float]:
    """Return the number of standard deviations of each score above the worst; 1 where all are equal."""
    if not scores:
        return []
    low = min(scores)
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    # The mean of equal scores may be rounded to another number than theirs, and differences may be too small to square.
    differ = deviation > 0 and max(scores) > low
    return [(score - low) / deviation if differ else 1.0 for score in scores]


def _check(rankings: Sequence[Sequence[Scored]], weights: Sequence[float]) -> None:
    if len(rankings) != len(weights):
        raise ValueError(f"{len(rankings)} rankings need as many weights, got {len(weights)}")
    if any(not (math.isfinite(weight) and weight >= 0) for weight in weights):
        raise ValueError(f"weights must be finite and at least 0, got {list(weights)}")
    if rankings and not math.fsum(weights):
        raise ValueError("one weight must be above 0")


def _first_scores(ranking: Iterable[Scored]) -> dict[ChunkId, float]:
    scores: dict[ChunkId, float] = {}
    for hit in ranking:
        scores.setdefault(hit.chunk_id, hit.score)
    if not all(map(math.isfinite, scores.values())):
        raise ValueError("scores must be finite")
    return scores


def _between(scores: Sequence[float], low: float) -> list[float]:
    width = max(scores, default=low) - low
    return [max(0.0, score - low) / width if width > 0 else 1.0 for score in scores]


def _best_first(terms: Mapping[ChunkId, Sequence[float]]) -> list[Hit]:
    # fsum is exact, so the result does not depend on the order of the rankings.
    order = sorted((-math.fsum(parts), chunk_id) for chunk_id, parts in terms.items())
    return [Hit(chunk_id, -negated) for negated, chunk_id in order]
