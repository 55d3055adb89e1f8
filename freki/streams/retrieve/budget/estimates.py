"""Estimates of the durations of steps, robust against single slow values."""

import math
from collections.abc import Callable
from dataclasses import dataclass

# RFC 6298, for round trips: a mean of about the last 8 values, and a deviation of about the last 4.
_MEAN_SHARE = 1 / 8
_DEVIATION_SHARE = 1 / 4
_DEVIATIONS = 3.0
# There an estimate that is too high costs a moment; here queries with a short deadline keep as much in reserve and have
# no time to search. So a value exceeds the mean by at most the largest of these. The deviation widens with each, and
# what lasts is learnt within a few values.
_MAX_DEVIATIONS = 6.0
_MAX_MEANS = 3.0
_MAX_S = 0.01
_HALF_LIFE_S = 5.0
"""Half-life of an estimate without new values: otherwise queries refused once would be refused for ever."""


@dataclass(slots=True)
class _Estimate:
    mean_s: float
    deviation_s: float
    at_s: float
    values: int = 1


class Estimates:
    """Smoothed means and deviations of durations by step, as RFC 6298 has them for round trips, with bounded values."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """Create them; clock_s: a monotonic clock."""
        self._clock_s = clock_s
        self._of: dict[str, _Estimate] = {}

    def learn(self, step: str, seconds: float) -> None:
        """Learn the duration of a step."""
        now_s = self._clock_s()
        known = self._of.get(step)
        if known is None:
            self._of[step] = _Estimate(seconds, seconds / 2, now_s)
            return
        if known.values == 1 and seconds < known.mean_s:
            # In ascending order: a slow first value is bounded, too.
            known.mean_s, known.deviation_s, seconds = seconds, seconds / 2, known.mean_s
        known.values += 1
        most_s = max(_MAX_DEVIATIONS * known.deviation_s, _MAX_MEANS * known.mean_s, _MAX_S)
        more_s = min(seconds - known.mean_s, most_s)
        known.deviation_s += max(_DEVIATION_SHARE, 1 / known.values) * (abs(more_s) - known.deviation_s)
        known.mean_s += max(_MEAN_SHARE, 1 / known.values) * more_s
        known.at_s = now_s

    def typical_s(self, *steps: str) -> float:
        """Return the mean of the total duration of steps, in seconds; 0 for steps never seen."""
        return sum(self._fresh(step) * known.mean_s for step in steps if (known := self._of.get(step)))

    def likely_s(self, *steps: str) -> float:
        """Return an upper bound of the total duration, in seconds, if not all steps are slow at once."""
        known = [(self._fresh(step), known) for step in steps if (known := self._of.get(step))]
        deviation_s = math.hypot(*(fresh * each.deviation_s for fresh, each in known))
        return math.fsum(fresh * each.mean_s for fresh, each in known) + _DEVIATIONS * deviation_s

    def careful_s(self, *steps: str) -> float:
        """Return an upper bound of the total duration, in seconds, even if all steps are slow at once."""
        return sum(
            self._fresh(step) * (known.mean_s + _DEVIATIONS * known.deviation_s)
            for step in steps
            if (known := self._of.get(step))
        )

    def _fresh(self, step: str) -> float:
        return float(0.5 ** ((self._clock_s() - self._of[step].at_s) / _HALF_LIFE_S))
