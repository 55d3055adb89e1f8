"""Many rankings of the same chunks become one."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from freki.schemas import ChunkId


class Scored(Protocol):
    """What a retriever found: a Candidate, or a Hit."""

    @property
    def chunk_id(self) -> ChunkId:
        """The chunk."""

    @property
    def score(self) -> float:
        """Higher is better; comparable within one ranking."""


class Hit(NamedTuple):
    """One chunk with its score in a ranking."""

    chunk_id: ChunkId
    score: float


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Scored]], *, k: int = 60) -> list[Hit]:
    """Score each chunk by the sum of 1 / (k + rank) over the rankings that hold it.

    Ranks start at 1; input scores are ignored; a chunk that stands twice in one ranking counts at its first place.
    Best first, equal sums by chunk id; the order of the rankings does not matter.
    Raises ValueError if `k` is negative. Source: Cormack et al., SIGIR 2009, doi:10.1145/1571941.1572114.
    """
    if k < 0:
        raise ValueError(f"k must be at least 0, got {k}")
    terms: defaultdict[ChunkId, list[float]] = defaultdict(list)
    for ranking in rankings:
        for rank, chunk_id in enumerate(dict.fromkeys(hit.chunk_id for hit in ranking), start=1):
            terms[chunk_id].append(1.0 / (k + rank))
    return _best_first(terms)


def weighted_fusion(rankings: Sequence[Sequence[Scored]], *, weights: Sequence[float]) -> list[Hit]:
    """Score each chunk by the weighted mean of its min-max normalised scores, which lies in 0..1.

    Within a ranking the best score becomes 1 and the worst 0; where all scores are equal, they become 1, since to be
    found is worth more than not to be. A ranking that lacks a chunk gives it 0, and so does an empty one, whose
    weight counts all the same: what only one of two retrievers can find is less certain. A chunk that stands twice
    in one ranking counts at its first place.
    Best first, equal means by chunk id; the order of the rankings does not matter.
    Raises ValueError if a score or weight is not finite, a weight negative, all are 0, or their number differs.
    Source: Lee, SIGIR 1997, doi:10.1145/258525.258587 (normalisation); Bruch et al., TOIS 2023,
    doi:10.1145/3596512 (convex combination).
    """
    if len(rankings) != len(weights):
        raise ValueError(f"{len(rankings)} rankings need as many weights, got {len(weights)}")
    if any(not (math.isfinite(weight) and weight >= 0) for weight in weights):
        raise ValueError(f"weights must be finite and at least 0, got {list(weights)}")
    total = math.fsum(weights)
    if rankings and not total:
        raise ValueError("one weight must be above 0")
    terms: defaultdict[ChunkId, list[float]] = defaultdict(list)
    for ranking, weight in zip(rankings, weights, strict=True):
        for chunk_id, score in _normalised(ranking):
            terms[chunk_id].append(weight / total * score)
    return _best_first(terms)


def _normalised(ranking: Iterable[Scored]) -> Iterable[tuple[ChunkId, float]]:
    scores: dict[ChunkId, float] = {}
    for hit in ranking:
        scores.setdefault(hit.chunk_id, hit.score)
    if not all(math.isfinite(score) for score in scores.values()):
        raise ValueError("scores must be finite")
    if not scores:
        return
    low, high = min(scores.values()), max(scores.values())
    for chunk_id, score in scores.items():
        yield chunk_id, (score - low) / (high - low) if high > low else 1.0


def _best_first(terms: Mapping[ChunkId, Sequence[float]]) -> list[Hit]:
    # fsum gives the same bits in whatever order the rankings came.
    fused = (Hit(chunk_id, math.fsum(parts)) for chunk_id, parts in terms.items())
    return sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))
