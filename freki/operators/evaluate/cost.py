"""Paired comparison of latencies."""

import math
from collections.abc import Sequence

import numpy as np

from freki.schemas.names import record

LEAST_SAVING_MS = 1.0
"""Minimum noticeable saving."""
_LEAST_PAIRS = 6
"""Minimum pairs for a 95 % interval."""
_TAILS = 40
"""Reciprocal of the probability beyond each end of the interval."""


@record
class Cost:
    """Latencies of one value compared to the present one, for the same questions."""

    p50_ms: float
    p95_ms: float
    difference_ms: float
    """Median of the paired differences; negative: faster."""
    low_ms: float
    high_ms: float
    """Upper end of the 95 % interval of the median."""
    pairs: int

    @property
    def is_clear(self) -> bool:
        """Whether the difference is significant; never with fewer than 6 pairs."""
        return self.pairs >= _LEAST_PAIRS and (self.low_ms > 0 or self.high_ms < 0)


def cost_of(times_ms: Sequence[float], present_ms: Sequence[float]) -> Cost:
    """Compare paired latencies, with a distribution-free interval between two order statistics.

    Below 6 pairs the interval spans all of them and covers less than 95 %. Raises ValueError where the numbers differ
    or are 0. Source: Conover, Practical Nonparametric Statistics, 1999, section 3.2.
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
    """Return the number of order statistics outside of a 95 % interval of the median at each end."""
    left_out, below = 0, 1
    while _TAILS * (below := below + math.comb(count, left_out + 1)) <= 2**count:
        left_out += 1
    return left_out
