"""Which steps a query does without when its time is short."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class OptionalStep(NamedTuple):
    """Something that improves an answer and takes time."""

    name: str
    worth: float
    """What an answer gains by it, in any unit that all steps share."""
    seconds: float
    """How long it takes; 0 where nobody knows yet."""


def affordable(steps: Iterable[OptionalStep], *, budget_s: float) -> frozenset[str]:
    """Name the steps to take: those with the most worth for their time, as long as there is time.

    A step that does not fit is left out, and a smaller one with less worth for its time may still fit. Equal ones by
    name. Steps that take no time are always taken, those worth nothing never.
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
