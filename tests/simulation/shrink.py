"""Makes a scenario that breaks a rule shorter: leaves out operations and faults as long as the rule is still broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.scenario import Ask, Compact, Fault, Junk, Leave, Retain, Scenario, Transaction
from tests.simulation.simulate import Outcome, run

SCHEDULES = 8
"""How many schedules a shorter scenario is tried with: what is left out changes all that is decided after it."""
MOST_RUNS = 1_500


def shrink(outcome: Outcome, rule: str, *, tell: Callable[[str], None]) -> Outcome:
    """Give the shortest scenario that was found to break the same rule."""
    return _Shrinking(outcome, rule, tell).shortest()


class _Shrinking:
    """Delta debugging (Zeller and Hildebrandt, IEEE TSE 2002, doi:10.1109/32.988498), a kind at a time first."""

    def __init__(self, outcome: Outcome, rule: str, tell: Callable[[str], None]) -> None:
        self._best = outcome
        self._rule = rule
        self._tell = tell
        self._runs = 0

    def shortest(self) -> Outcome:
        """Leave out as much as possible."""
        for kind in (Ask, Junk, Transaction, Retain, Compact, Leave):
            self._try([each for each in self._pieces if not isinstance(each, kind)])
        for tenant, document in sorted({_document(each) for each in self._pieces} - {("", "")}):
            self._try([each for each in self._pieces if _document(each) != (tenant, document)])
        size = max(1, len(self._pieces) // 2)
        while size and self._runs < MOST_RUNS:
            at = 0
            while at < len(self._pieces) and self._runs < MOST_RUNS:
                if not self._try([*self._pieces[:at], *self._pieces[at + size :]]):
                    at += size
            size //= 2
        return self._best

    @property
    def _pieces(self) -> list[Any]:
        return _pieces(self._best.scenario)

    def _try(self, pieces: Sequence[Any]) -> bool:
        """Keep a shorter scenario if one of its schedules breaks the rule, too."""
        if len(pieces) == len(self._pieces):
            return False
        for schedule in range(SCHEDULES):
            self._runs += 1
            tried = run(_scenario(self._best.scenario, pieces, schedule))
            if self._rule in tried.rules:
                self._best = tried
                self._tell(f"{len(pieces)} operations and faults left after {self._runs} runs")
                return True
        return False


def _document(piece: Any) -> tuple[str, str]:
    return getattr(piece, "tenant", ""), getattr(piece, "document", "")


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
