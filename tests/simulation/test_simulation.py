"""Ingest and queries under seeded schedules; `python -m tests.simulation` searches further, and replays."""

from collections.abc import Iterator

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.simulate import run, run_seed
from tests.simulation.virtual import virtual

CALM_SEEDS = 40
SEEDS = 80
ANEW_SEEDS = 40
MUTANT_SEEDS = 60


@pytest.fixture(autouse=True)
def _virtual() -> Iterator[None]:
    with virtual():
        yield


@pytest.mark.parametrize("seed", [0, 11, 80])
def test_the_same_seed_takes_the_same_course(seed: int) -> None:
    first, again, other = run_seed(seed), run_seed(seed), run_seed(seed + 1)

    assert first.digest == again.digest
    assert (first.trace, first.violations) == (again.trace, again.violations)
    assert first.digest != other.digest


def test_watching_closely_changes_nothing() -> None:
    outcome = run_seed(11)
    watched = run(outcome.scenario, verbose=True)

    assert (watched.steps, watched.violations) == (outcome.steps, outcome.violations)
    assert len(watched.trace) > len(outcome.trace)


def test_all_promises_are_kept_without_faults() -> None:
    for seed in range(CALM_SEEDS):
        assert not run_seed(seed, calm=True).violations, seed


def test_all_promises_are_kept_under_faults() -> None:
    for seed in range(SEEDS):
        assert not run_seed(seed).violations, seed


def test_all_promises_are_kept_while_versions_are_made_anew() -> None:
    for seed in range(ANEW_SEEDS):
        assert not run_seed(seed, reindex=True).violations, seed


@pytest.mark.parametrize(
    "name",
    ["acknowledges-first", "skips-fence", "drops-bulk-lane", "sweeps-in-flight", "shares-rows"],
)
def test_a_defect_that_is_put_in_is_found(name: str) -> None:
    with MUTANTS[name]():
        assert any(run_seed(seed).violations for seed in range(MUTANT_SEEDS))
