"""How far verdicts on questions that are alike speak for or against what was found."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from freki.schemas import Verdict

WORTH: Mapping[Verdict, float] = {Verdict.UP: 1.0, Verdict.DOWN: -1.0, Verdict.USED: 0.5, Verdict.NOT_USED: -0.1}
"""What is used is not always right, and what stands low is rarely looked at."""


class Weighed(NamedTuple):
    """A verdict, and how much it matters to a question."""

    judge: str
    target: str
    """A chunk or a document."""
    verdict: Verdict
    likeness: float
    """Of the two questions, 0..1."""
    age: float
    """In half-lives, at least 0."""


def likeness(cosine: float, *, least: float) -> float:
    """Map the cosine of two questions to 0..1: 0 up to `least`, 1 where they are the same.

    Raises ValueError unless `least` is below 1.
    """
    if least >= 1:
        raise ValueError(f"least must be below 1, got {least}")
    return min(1.0, max(0.0, (cosine - least) / (1 - least)))


def weigh_judgements(judgements: Iterable[Weighed], *, doubt: float = 1.0) -> dict[str, float]:
    """Give each target a number in -1..1, exclusive: above 0 where verdicts speak for it.

    One judge moves a target by no more than one fresh thumb on the same question would, however often he judges.
    doubt: as many thumbs make half of the most. The order of the judgements does not matter.
    Raises ValueError unless `doubt` is above 0.
    """
    if doubt <= 0:
        raise ValueError(f"doubt must be above 0, got {doubt}")
    said: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for each in judgements:
        said[each.target, each.judge].append(WORTH[each.verdict] * each.likeness * 0.5**each.age)
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for (target, _), parts in said.items():
        sums[target].append(min(1.0, max(-1.0, math.fsum(parts))))
    totals = {target: math.fsum(parts) for target, parts in sums.items()}
    return {target: total / (abs(total) + doubt) for target, total in totals.items() if total}
