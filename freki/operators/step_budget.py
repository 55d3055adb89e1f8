"""Selection of the optional steps of a query under a time budget."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class OptionalStep(NamedTuple):
    """A retrieval step that improves the answer and takes time."""

    name: str
    worth: float
    """Gain in quality, in any unit common to all steps."""
    seconds: float
    """Estimated duration in seconds; 0 where unknown."""


def affordable(steps: Iterable[OptionalStep], *, budget_s: float) -> frozenset[str]:
    """Return the names of the steps to run: greedily by worth per second, while the budget lasts.

    A step that does not fit is skipped, and a shorter one of lower density may still fit. Ties by name. Steps without
    duration are always taken, steps without worth never.
    Raises ValueError if a worth or a time is negative or not finite.
    Source: Dantzig, Operations Research 1957, doi:10.1287/opre.5.2.266 (knapsack by density).
    """
    steps = list(steps)
    if any(not (math.isfinite(value) and value >= 0) for step in steps for value in (step.worth, step.seconds)):
        raise ValueError(f"worth and seconds must be finite and at least 0, got {steps}")
    taken, left_s = [], budget_s
    for step in sorted(steps, key=lambda step: (-_density(step), step.name)):
        if step.worth > 0 and (step.seconds == 0 or step.seconds <= left_s):
            taken.append(step.name)
            left_s -= step.seconds
    return frozenset(taken)


def _density(step: OptionalStep) -> float:
    return step.worth / step.seconds if step.seconds else math.inf
