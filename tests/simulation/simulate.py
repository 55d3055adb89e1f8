"""Runs the scenarios of seeds."""

import gc
from dataclasses import dataclass
from itertools import count

from tests.simulation.checker import Checker, Violation
from tests.simulation.drawing import make, with_requests
from tests.simulation.loop import Deadlock, Endless
from tests.simulation.scenario import Scenario
from tests.simulation.virtual import NOW
from tests.simulation.world import World

CHUNK = 25
"""Runs after which memory is cleared: while one runs, nothing is."""
_RUNS = count()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a scenario."""

    scenario: Scenario
    digest: str
    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    seconds: float
    """Virtual ones."""
    steps: int

    @property
    def rules(self) -> tuple[str, ...]:
        """Name the rules that were broken, each once."""
        return tuple(dict.fromkeys(violation.rule for violation in self.violations))


def run(scenario: Scenario, *, verbose: bool = False) -> Outcome:
    """Run a scenario; call it inside `virtual.virtual()`. verbose: trace what broker and store do, too."""
    if next(_RUNS) % CHUNK == 0:
        gc.collect()
    world = World(scenario, verbose=verbose)
    NOW.seconds, NOW.chance = world.loop.time, world.random
    violations: list[Violation] = []
    digest = ""
    try:
        digest = world.run()
    except (Deadlock, Endless) as error:
        violations.append(Violation("stuck", str(error)))
    violations += [Violation(*each) for each in world.store.watch.found]
    violations += [Violation("stopped", problem) for problem in (*world.workers.problems, *world.problems)]
    violations += Checker(world.broker, world.clients.asked, world.final).violations()
    return Outcome(
        scenario,
        digest,
        tuple(dict.fromkeys(violations)),
        tuple(world.trace.lines),
        world.loop.time(),
        world.loop.steps,
    )


def run_seed(seed: int, *, calm: bool = False, reindex: bool = False) -> Outcome:
    """Run the scenario of a seed; reindex: with requests to reindex."""
    scenario = make(seed, calm=calm)
    return run(with_requests(scenario) if reindex else scenario)
