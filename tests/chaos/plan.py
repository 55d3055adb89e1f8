"""What happens in a run, drawn from its seed alone: which workers are hit when, and how many changes come between."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What happens to a worker."""

    ADD = "added"
    REMOVE = "removed (SIGTERM)"
    KILL = "killed (SIGKILL)"
    STOP = "stopped (SIGSTOP, SIGCONT)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One event of the plan."""

    kind: Kind
    worker: str
    """Such as `embed-2`. A killed worker is started again under its name."""
    wait_s: float
    """After the event before."""
    stopped_s: float
    """How long a stopped worker stands still; 0 for the other kinds."""
    changes: int
    """Published at once, towards the end of the wait."""
    after_s: float
    """From the last of these to the fault: they are on their way through the stages then."""


STAGES: Mapping[str, tuple[int, int, int]] = {
    "chunk": (1, 2, 3),
    "contextualise": (1, 2, 3),
    "embed": (2, 3, 4),
    "retrieve": (1, 2, 3),
}
"""Fewest workers, those in the beginning, most of them."""

STAGE_WEIGHTS = (20, 15, 45, 20)
KIND_WEIGHTS: Mapping[Kind, int] = {Kind.KILL: 35, Kind.STOP: 35, Kind.ADD: 15, Kind.REMOVE: 15}
STOPPED_SESSIONS = (1.5, 4.0)
"""Longer than a session: others own the partitions when the worker goes on."""
MOST_STOPPED_S = 20.0
CHANGES = (3, 12)
AFTER_S = (0.0, 0.6)


def first_workers() -> list[str]:
    """Name the workers of the beginning."""
    return [f"{stage}-{number}" for stage, (_, first, _) in STAGES.items() for number in range(1, first + 1)]


def stage_of(worker: str) -> str:
    """Give the stage of a worker."""
    return worker.rpartition("-")[0]


def plan(seed: int, faults: int, *, wait_s: tuple[float, float], session_s: float = 2.0) -> Iterator[Fault]:
    """Draw the faults of a run; `session_s` is how long a group waits for a member that is silent."""
    drawn = random.Random(f"faults {seed}")  # noqa: S311 - not a secret
    present = {
        stage: [f"{stage}-{number}" for number in range(1, first + 1)] for stage, (_, first, _) in STAGES.items()
    }
    numbers = {stage: len(workers) for stage, workers in present.items()}
    stopped: dict[str, float] = {}
    now_s = 0.0
    for _ in range(faults):
        wait = drawn.uniform(*wait_s)
        now_s += wait
        stage = drawn.choices(list(STAGES), STAGE_WEIGHTS)[0]
        fewest, _, most = STAGES[stage]
        free = [worker for worker in present[stage] if stopped.get(worker, 0.0) <= now_s]
        possible = {
            Kind.ADD: len(present[stage]) < most,
            Kind.REMOVE: len(present[stage]) > fewest and bool(free),
            # Also one that stands still: it never goes on.
            Kind.KILL: True,
            Kind.STOP: bool(free),
        }
        kinds = [kind for kind in KIND_WEIGHTS if possible[kind]]
        kind = drawn.choices(kinds, [KIND_WEIGHTS[each] for each in kinds])[0]
        stopped_s = 0.0
        if kind is Kind.ADD:
            numbers[stage] += 1
            worker = f"{stage}-{numbers[stage]}"
            present[stage].append(worker)
        else:
            worker = drawn.choice(present[stage] if kind is Kind.KILL else free)
        if kind is Kind.REMOVE:
            present[stage].remove(worker)
        elif kind is Kind.KILL:
            stopped.pop(worker, None)
        elif kind is Kind.STOP:
            stopped_s = min(MOST_STOPPED_S, session_s * drawn.uniform(*STOPPED_SESSIONS))
            stopped[worker] = now_s + stopped_s
        yield Fault(
            kind=kind,
            worker=worker,
            wait_s=wait,
            stopped_s=stopped_s,
            changes=drawn.randint(*CHANGES),
            after_s=min(wait, drawn.uniform(*AFTER_S)),
        )
