"""`python -m tests.simulation --seeds 1000`: search schedules for broken promises, replay one, and measure mutants."""

import argparse
import faulthandler
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import count, islice
from typing import NamedTuple

from tests.simulation.mutants import MUTANTS
from tests.simulation.shrink import shrink
from tests.simulation.simulate import CHUNK, Outcome, run, run_seed
from tests.simulation.virtual import virtual


class Failed(NamedTuple):
    """A seed that breaks rules."""

    seed: int
    rules: tuple[str, ...]
    message: str


def main() -> int:
    """Run what the arguments say; 1 where a rule was broken."""
    arguments = _arguments()
    # A process that dies says where; processes of the pool inherit it.
    faulthandler.enable()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings have an order of their own in each process else, and a replay would take another course.
        os.execve(  # noqa: S606 - itself
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    if arguments.seed is not None:
        with nullcontext() if arguments.mutant is None else MUTANTS[arguments.mutant]():
            return _replay(arguments)
    if arguments.mutant is not None:
        return _measure(arguments)
    return _search(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run")
    parser.add_argument("--start", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--minutes", type=float, help="stop after so long, however many seeds are left")
    parser.add_argument("--calm", action="store_true", help="without faults")
    parser.add_argument("--reindex", action="store_true", help="with requests to reindex")
    parser.add_argument("--ignore", action="append", default=[], help="a rule that does not count; may be repeated")
    parser.add_argument("--seed", type=int, help="replay this one, and make it shorter")
    parser.add_argument("--rule", help="with --seed: the rule to shorten for; else the first that is broken")
    parser.add_argument("--verbose", action="store_true", help="with --seed: trace what broker and store do, too")
    parser.add_argument("--whole", action="store_true", help="with --seed: do not make it shorter")
    parser.add_argument(
        "--mutant",
        choices=sorted(MUTANTS),
        help="put this defect in, and count seeds until it is found; with --seed: replay with it",
    )
    return parser.parse_args()


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _tell(line: str, end: str = "\n") -> None:
    sys.stderr.write(line + end)
    sys.stderr.flush()


def _search(arguments: argparse.Namespace) -> int:
    began_s, ran, rules = time.monotonic(), 0, Counter[str]()
    failed: list[Failed] = []
    for seeds, found in _results(arguments, began_s):
        ran += seeds
        for each in found:
            failed.append(each)
            rules.update(each.rules)
            _say(f"seed {each.seed}: {', '.join(each.rules)}: {each.message}")
        seconds = time.monotonic() - began_s
        _tell(f"{ran} seeds, {len(failed)} failed, {ran / seconds:.1f} seeds/s", end="\r")
    _tell("")
    _say(f"{ran} seeds in {time.monotonic() - began_s:.0f} s; {len(failed)} break rules", *_counted(rules))
    if failed:
        _say(
            f"Next: python -m tests.simulation --seed {failed[0].seed}"
            + "".join(f" --{name}" for name, is_set in _mode(arguments).items() if is_set)
        )
    return 1 if failed else 0


def _results(arguments: argparse.Namespace, began_s: float) -> Iterator[tuple[int, list[Failed]]]:
    end = arguments.start + arguments.seeds
    chunks = [range(at, min(end, at + CHUNK)) for at in range(arguments.start, end, CHUNK)]
    ignored = frozenset(arguments.ignore)

    def in_time(results: Iterable[tuple[int, list[Failed]]]) -> Iterator[tuple[int, list[Failed]]]:
        for each in results:
            yield each
            if arguments.minutes is not None and time.monotonic() - began_s > 60 * arguments.minutes:
                return

    if arguments.jobs == 1:
        yield from in_time(_failed(chunk, _mode(arguments), ignored) for chunk in chunks)
        return
    with ProcessPoolExecutor(arguments.jobs) as pool:
        waves = iter(chunks)
        # A few ahead, so that none is left to wait for when the time is over.
        running = [
            pool.submit(_failed, chunk, _mode(arguments), ignored) for chunk in islice(waves, 2 * arguments.jobs)
        ]

        def each() -> Iterator[tuple[int, list[Failed]]]:
            while running:
                yield running.pop(0).result()
                running.extend(pool.submit(_failed, chunk, _mode(arguments), ignored) for chunk in islice(waves, 1))

        yield from in_time(each())
        for left in running:
            left.cancel()


def _mode(arguments: argparse.Namespace) -> dict[str, bool]:
    return {"calm": arguments.calm, "reindex": arguments.reindex}


def _failed(seeds: range, mode: Mapping[str, bool], ignored: frozenset[str]) -> tuple[int, list[Failed]]:
    found = []
    with virtual():
        for seed in seeds:
            broken = [each for each in run_seed(seed, **mode).violations if each.rule not in ignored]
            if broken:
                found.append(Failed(seed, tuple(dict.fromkeys(each.rule for each in broken)), broken[0].message))
    return len(seeds), found


def _counted(rules: Counter[str]) -> list[str]:
    return [f"  {rule}: {number}" for rule, number in rules.most_common()]


def _replay(arguments: argparse.Namespace) -> int:
    with virtual():
        outcome = run_seed(arguments.seed, **_mode(arguments))
        _say(f"digest {outcome.digest}, {outcome.steps} steps, {outcome.seconds:.0f} virtual seconds")
        wanted = arguments.rule or next(iter(outcome.rules), None)
        if wanted in outcome.rules and not arguments.whole:
            outcome = shrink(outcome, wanted, tell=_tell)
        if arguments.verbose:
            outcome = run(outcome.scenario, verbose=True)
    _show(outcome)
    return 1 if outcome.violations else 0


def _show(outcome: Outcome) -> None:
    scenario = outcome.scenario
    _say(
        f"style {scenario.style}, workers {scenario.workers}, {scenario.partitions} partitions, "
        f"{scenario.batch_events} records a batch, idempotent {scenario.idempotent}, bounded {scenario.bounded}, "
        f"clock {scenario.skew_ms}, session {scenario.session_s} s, {scenario.token_s} s a token, "
        f"requests up to {scenario.slowest_s} s each way"
    )
    _say(*outcome.trace, *(f"{each.rule}: {each.message}" for each in outcome.violations))


def _measure(arguments: argparse.Namespace) -> int:
    """Count seeds until a defect breaks a rule that the same seed keeps without it."""
    began_s = time.monotonic()
    with virtual():
        for number in count():
            if arguments.minutes is not None and time.monotonic() - began_s > 60 * arguments.minutes:
                _say(f"{arguments.mutant}: not found in {number} seeds")
                return 1
            seed = arguments.start + number
            with MUTANTS[arguments.mutant]():
                broken = run_seed(seed, **_mode(arguments))
            usual = set(run_seed(seed, **_mode(arguments)).rules) if broken.rules else set()
            new = [each for each in broken.violations if each.rule not in usual]
            if new:
                seconds = time.monotonic() - began_s
                _say(f"{arguments.mutant}: found by seed {seed} after {number + 1} seeds, {seconds:.1f} s")
                _say(f"  {new[0].rule}: {new[0].message}")
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
