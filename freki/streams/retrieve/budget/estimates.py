"""How long steps take, as of late."""

import math
from collections.abc import Callable
from dataclasses import dataclass

# RFC 6298, for round trips: the mean of about the last 8, and how far they lie from it, of about the last 4.
_MEAN_SHARE = 1 / 8
_DEVIATION_SHARE = 1 / 4
_DEVIATIONS = 3.0
_HALF_LIFE_S = 5.0
"""An estimate that nothing renews counts for less and less: else what was refused once would be refused for ever."""


@dataclass(slots=True)
class _Estimate:
    mean_s: float
    deviation_s: float
    at_s: float


class Estimates:
    """Smoothed means and deviations of how long each step took, as RFC 6298 keeps those of round trips."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._of: dict[str, _Estimate] = {}

    def learn(self, stage: str, seconds: float) -> None:
        """Take into account how long a step took."""
        now_s = self._clock_s()
        known = self._of.get(stage)
        if known is None:
            self._of[stage] = _Estimate(seconds, seconds / 2, now_s)
            return
        known.deviation_s += _DEVIATION_SHARE * (abs(seconds - known.mean_s) - known.deviation_s)
        known.mean_s += _MEAN_SHARE * (seconds - known.mean_s)
        known.at_s = now_s

    def typical_s(self, *stages: str) -> float:
        """Seconds that these steps take one after the other, as a mean; 0 for those that were never seen."""
        return sum(self._fresh(stage) * known.mean_s for stage in stages if (known := self._of.get(stage)))

    def likely_s(self, *stages: str) -> float:
        """Seconds within which nearly always these steps are done, one after the other, if not all are slow at once."""
        known = [(self._fresh(stage), known) for stage in stages if (known := self._of.get(stage))]
        deviation_s = math.hypot(*(fresh * each.deviation_s for fresh, each in known))
        return math.fsum(fresh * each.mean_s for fresh, each in known) + _DEVIATIONS * deviation_s

    def careful_s(self, *stages: str) -> float:
        """Seconds within which nearly always each of these steps, one after the other, is done."""
        return sum(
            self._fresh(stage) * (known.mean_s + _DEVIATIONS * known.deviation_s)
            for stage in stages
            if (known := self._of.get(stage))
        )

    def _fresh(self, stage: str) -> float:
        return float(0.5 ** ((self._clock_s() - self._of[stage].at_s) / _HALF_LIFE_S))
