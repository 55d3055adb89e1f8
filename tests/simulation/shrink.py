"""Makes a scenario that breaks a rule shorter: leaves out operations and faults as long as the rule is still broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.scenario import Fault, Scenario
from tests.simulation.simulate import Outcome, run

SCHEDULES = 6
"""How many schedules a shorter scenario is tried with: what is left out changes all that is decided after it."""
MOST_RUNS = 600


def shrink(outcome: Outcome, rule: str, *, tell: Callable[[str], None]) -> Outcome:
    """Give the shortest scenario that was found to break the same rule."""
    best, runs = outcome, 0
    pieces = _pieces(best.scenario)
    size = max(1, len(pieces) // 2)
    while size and runs < MOST_RUNS:
        at = 0
        while at < len(pieces) and runs < MOST_RUNS:
            shorter = [*pieces[:at], *pieces[at + size :]]
            for schedule in range(SCHEDULES):
                runs += 1
                tried = run(_scenario(best.scenario, shorter, schedule))
                if rule in tried.rules:
                    best, pieces = tried, shorter
                    tell(f"{len(pieces)} operations and faults left after {runs} runs")
                    break
            else:
                at += size
        size //= 2
    return best


def _pieces(scenario: Scenario) -> list[Any]:
    return [*scenario.operations, *scenario.faults]


def _scenario(scenario: Scenario, pieces: Sequence[Any], schedule: int) -> Scenario:
    return replace(
        scenario,
        # The first try keeps the schedule that broke the rule.
        schedule=scenario.schedule if schedule == 0 else 1_000_000 * schedule + scenario.seed,
        operations=tuple(each for each in pieces if not isinstance(each, Fault)),
        faults=tuple(each for each in pieces if isinstance(each, Fault)),
    )
