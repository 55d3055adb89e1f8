"""What a change costs in milliseconds, by questions asked in turn with it and without."""

import math
from collections.abc import Sequence

import numpy as np

from freki.schemas.names import record

LEAST_SAVING_MS = 1.0
"""Nobody notices less."""
_LEAST_PAIRS = 6
"""Of fewer the interval holds less than 95 %."""
_TAILS = 40
"""Each end leaves out 1 / 40 of the probability."""


@record
class Cost:
    """Times of one value beside those of the present one, for the same questions."""

    p50_ms: float
    p95_ms: float
    difference_ms: float
    """Median of the paired differences; below 0: it saves time."""
    low_ms: float
    high_ms: float
    """95 % interval of the median."""
    pairs: int

    @property
    def is_clear(self) -> bool:
        """Return whether the difference is more than chance would have it; fewer than 6 pairs cannot show that."""
        return self.pairs >= _LEAST_PAIRS and (self.low_ms > 0 or self.high_ms < 0)


def cost_of(times_ms: Sequence[float], present_ms: Sequence[float]) -> Cost:
    """Compare paired times; an exact interval between two order statistics, whatever the distribution.

    Below 6 pairs the interval spans all of them, and holds less than 95 %. Raises ValueError where times do not pair
    up or there are none. Source: Conover, Practical Nonparametric Statistics, 1999, section 3.2.
    """
    if len(times_ms) != len(present_ms) or not times_ms:
        raise ValueError(f"{len(times_ms)} times do not pair up with {len(present_ms)}")
    differences = sorted(time - present for time, present in zip(times_ms, present_ms, strict=True))
    left_out = _left_out(len(differences))
    p50, p95 = np.percentile(times_ms, [50, 95])
    return Cost(
        p50_ms=float(p50),
        p95_ms=float(p95),
        difference_ms=float(np.median(differences)),
        low_ms=differences[left_out],
        high_ms=differences[-1 - left_out],
        pairs=len(differences),
    )


def saves(times_ms: Sequence[float], present_ms: Sequence[float]) -> bool:
    """Return whether the first are faster by at least 1 ms at the median, and significantly so."""
    cost = cost_of(times_ms, present_ms)
    return cost.difference_ms <= -LEAST_SAVING_MS and cost.high_ms < 0


def _left_out(count: int) -> int:
    """Count the order statistics at each end that a 95 % interval of the median leaves out."""
    left_out, below = 0, 1
    while _TAILS * (below := below + math.comb(count, left_out + 1)) <= 2**count:
        left_out += 1
    return left_out
