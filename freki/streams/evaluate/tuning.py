"""What is kept of a tuning: every value of every option with its gain and its price, and what they are together."""

from collections.abc import Mapping
from typing import Literal

from freki.operators.evaluate import Choice, Cost, Gain
from freki.schemas.names import record


@record
class Tried:
    """A value of an option, beside the present one."""

    title: str
    figures: Mapping[str, float]
    """Means over sets."""
    gain: Gain
    """Of the tuned figure over the present value; above 0: better. Nothing was chosen by it: this holds elsewhere."""
    by_set: Mapping[str, Gain]
    cost: Cost
    dropped: bool
    """Clearly worse on the first part of the questions, it was asked no others; its figures are of that part."""


@record
class TuningStep:
    """An option with its values, all other options as the steps before left them."""

    option: str
    again: bool
    """For the second time, since another option moved after the first."""
    questions: int
    shortened: bool
    """Were questions shortened to keywords, as the sets have none?"""
    others: str
    """QueryOptions that had moved before; empty: none."""
    present: str
    values: tuple[Tried, ...]
    choice: Choice


@record
class Check:
    """All moved options together, beside the settings."""

    fresh: bool
    """Asked of questions that nothing was chosen by? Else of those that it was chosen by, which flatters it."""
    shortened: bool
    gain: Gain
    by_set: Mapping[str, Gain]
    cost: Cost


@record
class TunedSet:
    """A set of the tuning."""

    name: str
    questions: int
    fresh: int
    """Left for the check."""
    documents: int | None
    notes: tuple[str, ...]


@record
class Tuning:
    """One call of the command, as the JSON file holds it."""

    format: Literal["freki tuning 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, models, settings."""
    figure: str
    folds: int
    hits: int
    """An answer has at most so many: rankings end there."""
    sets: tuple[TunedSet, ...]
    steps: tuple[TuningStep, ...]
    left_out: tuple[str, ...]
    """QueryOptions that could not be tuned, and why."""
    checks: tuple[Check, ...]
    remarks: tuple[str, ...]
    """What readers should know of the answers."""
    settings: Mapping[str, str]
    """What to set, by setting, or by option where no setting sets it; empty: keep what is set."""
