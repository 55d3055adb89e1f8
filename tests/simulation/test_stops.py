"""Workers that are stopped at a call on purpose: what happens to whom, and that rare defects show there."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.loop import Style
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenario import ANYONE, Bare, Operation, Pause, Put, Scenario
from tests.simulation.simulate import run
from tests.simulation.virtual import virtual

WHOLE = ("chunk", "contextualise", "embed", "retrieve")
KEY = "t/a.txt"
SCHEDULES = 60


@pytest.fixture(autouse=True)
def _virtual() -> Iterator[None]:
    with virtual():
        yield


def put(at_s: float, version: int, paragraphs: Sequence[int]) -> Put:
    return Put(at_s, "t", "a.txt", version, tuple(paragraphs), ("everyone",))


def stop(at_s: float, of: str, for_s: float, *, calls: int = 1, then: Pause | None = None) -> Pause:
    return Pause(at_s, ANYONE, for_s, calls, of, KEY, then)


def scenario(operations: Sequence[Operation], *stops: Pause, **others: Any) -> Scenario:
    """Make one of two workers and a partition, of which a group misses whoever is silent for two seconds."""
    whole = Scenario(
        seed=0,
        schedule=0,
        style=Style.EVEN,
        workers=(WHOLE, WHOLE),
        partitions=1,
        batch_events=3,
        idempotent=True,
        bounded=False,
        skew_ms=None,
        starts_s=0.1,
        session_s=2.0,
        token_s=0.0005,
        slowest_s=0.005,
        clocks_ms=(0, 0),
        releases=(0, 0),
        request_records=1_000,
        operations=tuple(operations),
        faults=stops,
    )
    return replace(whole, **others)


def test_who_follows_is_stopped_too() -> None:
    changes = [put(6, 1, range(3)), put(10, 2, range(2))]
    outcome = run(scenario(changes, stop(9.9, "commit", 8.0, then=stop(0, "naming", 9.0))))

    stopped = [line.split() for line in outcome.trace if " now Pause " in line]
    assert len({name for *_, name in stopped}) == 2
    assert float(stopped[1][0]) > float(stopped[0][0]) + 1
    assert not outcome.violations


CASES: dict[str, Scenario] = {
    # A tombstone is committed while the change that was recorded before it waits for its commit.
    "ignores-tombstones": scenario(
        [put(6, 1, range(3)), put(10, 2, range(2)), Bare(10.05, "t", "a.txt")], stop(9.9, "commit", 8.0)
    ),
    # Two releases send their parts of one version in turn.
    "mixes-cuts": scenario(
        [put(10, 1, range(12))],
        stop(9.9, "sends:chunks-bulk", 5.0, calls=2, then=stop(0, "sends:chunks-bulk", 8.0)),
        releases=(0, 1),
        request_records=1,
    ),
    # A large version without the old rows waits for its commit; who follows knows the old rows, and undoes it.
    "commits-unchecked": scenario(
        [put(6, 1, range(3)), put(10, 2, range(10, 22)), put(10.14, 3, range(3))],
        stop(9.9, "commit", 6.0, then=stop(0, "naming", 8.0)),
    ),
    # Who wrote the older version has the faster clock.
    "last-write-wins": scenario(
        [put(6, 1, range(3)), put(10, 2, range(2)), put(12, 3, range(4))],
        stop(9.9, "commit", 8.0),
        clocks_ms=(6_000, -6_000),
    ),
    # Pages wait for their check while who follows writes the same parts, and must not take those.
    "takes-unchecked-parts": scenario(
        [put(10, 1, range(12))], stop(9.9, "roots", 8.0, calls=2), clocks_ms=(6_000, -6_000)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rare_defect_shows_where_workers_are_stopped_in_the_worst_place(name: str) -> None:
    tried = (replace(CASES[name], schedule=schedule) for schedule in range(SCHEDULES))
    with MUTANTS[name]():
        found = next(each for each in tried if run(each).violations)

    assert not run(found).violations
