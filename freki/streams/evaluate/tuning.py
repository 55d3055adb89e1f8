"""Results of a tuning: gain and cost of every value of every option, and of all changes together."""

from collections.abc import Mapping
from typing import Literal

from freki.operators.evaluate import Choice, Cost, Gain
from freki.schemas.names import record


@record
class TriedValue:
    """Value of an option, compared with the present one."""

    title: str
    figures: Mapping[str, float]
    """Means over sets."""
    gain: Gain
    """Gain in the tuned figure over the present value; above 0: better. Free of selection bias."""
    by_set: Mapping[str, Gain]
    cost: Cost
    dropped: bool
    """Whether it was clearly worse on the first part of the questions; its figures then cover only that part."""


@record
class TuningStep:
    """Option with its values, all other options as chosen by the steps before."""

    option: str
    again: bool
    """Whether this is the second round, after another option changed."""
    questions: int
    shortened: bool
    """Whether questions were shortened to keywords, as the sets have no keyword queries."""
    others: str
    """Options changed before; empty: none."""
    present: str
    values: tuple[TriedValue, ...]
    choice: Choice


@record
class Check:
    """All changed options together, compared with the settings."""

    fresh: bool
    """Whether the questions were held out; otherwise they were used for the choice, which is optimistic."""
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
    """Number of questions held out for the check."""
    documents: int | None
    notes: tuple[str, ...]


@record
class Tuning:
    """Tuning as stored in its JSON file."""

    format: Literal["freki tuning 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, models, settings."""
    figure: str
    folds: int
    hits: int
    """Maximum number of hits of an answer: rankings end there."""
    sets: tuple[TunedSet, ...]
    steps: tuple[TuningStep, ...]
    left_out: tuple[str, ...]
    """Options that could not be tuned, with reasons."""
    checks: tuple[Check, ...]
    remarks: tuple[str, ...]
    """Remarks on the answers."""
    settings: Mapping[str, str]
    """Recommended values by setting, or by option where no setting exists; empty: keep the settings."""
