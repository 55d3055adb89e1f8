"""Aggregation of judgements on similar queries into a score per target."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from freki.schemas import Verdict

WORTH: Mapping[Verdict, float] = {Verdict.UP: 1.0, Verdict.DOWN: -1.0, Verdict.USED: 0.5, Verdict.NOT_USED: -0.1}
"""Weight per verdict: use is weaker evidence than a vote, and unused hits may never have been seen."""


class WeightedVerdict(NamedTuple):
    """A verdict with its weight for a query."""

    judge: str
    target: str
    """Id of a chunk or document."""
    verdict: Verdict
    likeness: float
    """Similarity of the two queries, 0..1."""
    age: float
    """Age in half-lives, at least 0."""


def likeness(cosine: float, *, least: float) -> float:
    """Map the cosine of two queries linearly to 0..1: 0 up to `least`, 1 for equal queries.

    Raises ValueError unless `least` is below 1.
    """
    if least >= 1:
        raise ValueError(f"least must be below 1, got {least}")
    return min(1.0, max(0.0, (cosine - least) / (1 - least)))


def weigh_judgements(judgements: Iterable[WeightedVerdict]) -> dict[str, float]:
    """Return a score in -1..1, exclusive, for each target; above 0 where verdicts are positive.

    All verdicts of one judge count at most as much as one recent vote on the same query, which yields half of the
    maximum. Independent of the order of the judgements.
    """
    said: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for each in judgements:
        said[each.target, each.judge].append(WORTH[each.verdict] * each.likeness * 0.5**each.age)
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for (target, _), parts in said.items():
        sums[target].append(min(1.0, max(-1.0, math.fsum(parts))))
    totals = {target: math.fsum(parts) for target, parts in sums.items()}
    return {target: total / (abs(total) + 1) for target, total in totals.items() if total}
