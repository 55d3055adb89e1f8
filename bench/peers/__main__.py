"""Measure Freki and its peers, one process per measurement, sequentially: `make peers`."""

import asyncio
import json
import logging
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.peers.data import Changes, SearchSet, mean_chunk_tokens, read_changes, read_search_set
from bench.peers.environments import (
    PEERS,
    ROOT,
    NotInstallable,
    Peer,
    interpreter_of,
    variables,
    version_of,
)
from bench.peers.figures import UPDATES, Result, lean, search_lines, update_lines
from bench.peers.job import Figures, Job, write_job
from bench.peers.show import EXPLAINED, draw, in_markdown, in_terminal, search_table, update_table
from freki.cli.bars import bars
from freki.infra.models import open_token_counter
from freki.infra.settings.read import read_settings
from freki.infra.telemetry.provenance import provenance
from freki.schemas.errors import Rejected

LIMIT_S = 3600.0
"""Timeout of one process, in seconds."""
_LEAST_WIDTH = 150
console = Console()
if not console.is_terminal:
    console.width = _LEAST_WIDTH


def main() -> None:
    """Run the measurements; write figures, tables and plots."""
    arguments = _arguments()
    try:
        changes = _changes(arguments) if arguments.changes else None
        sets = [read_search_set(path, most=arguments.queries, seed=arguments.seed) for path in arguments.sets]
    except Rejected as error:
        sys.exit(str(error))
    peers = [PEERS[name] for name in PEERS if name in (arguments.only or PEERS)]
    with bars(console) as progress:
        interpreters = _prepare(peers, progress)
        for results in _measure(peers, interpreters, _jobs(changes, sets), arguments.rounds, progress):
            # After each round: a run takes hours, and may be ended.
            tables, files = _write(results, sets, arguments)
    for table in tables:
        console.print(in_terminal(table))
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False)


def _changes(arguments: Namespace) -> Changes:
    return read_changes(arguments.changes, documents=arguments.documents, seed=arguments.seed)


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="make peers ARGS=…", description="Measure Freki beside its peers.")
    parser.add_argument("--changes", type=Path, help="recorded stream of changes, .jsonl or .jsonl.zst")
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders with BEIR-like sets")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), help="systems to measure (default: all)")
    parser.add_argument(
        "--documents", type=int, default=200, help="number of documents of the stream (default: %(default)s)"
    )
    parser.add_argument(
        "--queries", type=int, default=100, help="maximum number of queries of each set (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="repetitions, in rotating order of the systems (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the choice of documents and queries (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-results/peers"), help="default: %(default)s")
    arguments = parser.parse_args()
    if not arguments.changes and not arguments.sets:
        parser.error("give --changes, --sets, or both")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def _prepare(peers: Sequence[Peer], progress: Progress) -> dict[str, Path | NotInstallable]:
    """Create the environments; return interpreters, or NotInstallable where that fails."""
    found: dict[str, Path | NotInstallable] = {}
    bar = progress.add_task("environments", total=len(peers))
    for peer in peers:
        progress.update(bar, description=f"environment of {peer.title}")
        try:
            found[peer.name] = interpreter_of(peer)
        except NotInstallable as error:
            found[peer.name] = error
        progress.advance(bar)
    progress.remove_task(bar)
    return found


def _jobs(changes: Changes | None, sets: Sequence[SearchSet]) -> list[Job]:
    """Return the jobs, for any system."""
    job = Job(system="", name=UPDATES, documents=(), chunk_tokens=0, store_python=sys.executable, directory="")
    inputs = {each.name: getattr(changes, each.name) for each in fields(Changes)} if changes else {}
    updates = [replace(job, **inputs)] if inputs else []
    searches = (replace(job, name=each.name, documents=each.documents, questions=each.questions) for each in sets)
    count_tokens = asyncio.run(open_token_counter(read_settings().models))
    return [
        replace(each, chunk_tokens=mean_chunk_tokens(each.documents, count_tokens)) for each in (*updates, *searches)
    ]


def _measure(
    peers: Sequence[Peer],
    interpreters: dict[str, Path | NotInstallable],
    jobs: Sequence[Job],
    rounds: int,
    progress: Progress,
) -> Iterator[Sequence[Result]]:
    """Run every job on every system in every round, in rotating order; yield all results after each round."""
    results: list[Result] = []
    total = rounds * sum(peer.searches or job.name == UPDATES for peer in peers for job in jobs)
    bar = progress.add_task("measured", total=total)
    for number in range(rounds):
        turned = [*peers[number % len(peers) :], *peers[: number % len(peers)]]
        for job in jobs:
            for peer in turned:
                if not peer.searches and job.name != UPDATES:
                    continue
                progress.update(bar, description=f"round {number + 1}, {job.name}, {peer.title}")
                python = interpreters[peer.name]
                figures = {"error": str(python)} if isinstance(python, NotInstallable) else _run(python, job, peer)
                if "error" in figures:
                    progress.console.print(f"{peer.title}, {job.name}: {figures['error']}", markup=False)
                results.append(Result(round=number, system=peer.name, task=job.name, figures=figures))
                progress.advance(bar)
        yield results


def _run(python: Path, job: Job, peer: Peer) -> Figures:
    """Measure in a separate process, in an empty directory."""
    with tempfile.TemporaryDirectory(prefix="freki-peers-") as home:
        place = Path(home)
        (place / "state").mkdir()
        write_job(replace(job, system=peer.name, directory=str(place / "state")), place / "job.json")
        command = [str(python), "-m", "bench.peers.measure", str(place / "job.json"), str(place / "result.json")]
        log = place / "log"
        try:
            with log.open("w") as output:
                subprocess.run(  # noqa: S603 - our own module
                    command, cwd=ROOT, env=variables(), stdout=output, stderr=output, timeout=LIMIT_S, check=True
                )
            figures: Figures = json.loads((place / "result.json").read_text())
        except subprocess.TimeoutExpired:
            return {"error": f"not finished after {LIMIT_S:.0f} s"}
        except subprocess.CalledProcessError as error:
            return {"error": f"exit {error.returncode}: {_last_line(log)}"}
        return figures


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def _write(
    results: Sequence[Result], sets: Sequence[SearchSet], arguments: Namespace
) -> tuple[list[list[list[str]]], list[Path]]:
    """Write figures, tables and plots; return the tables, and the paths of all files."""
    updates = update_lines(results)
    searches = {each.name: search_lines(results, each) for each in sets}
    tables = [*([update_table(updates)] if updates else []), *(search_table(*pair) for pair in searches.items())]
    arguments.out.mkdir(parents=True, exist_ok=True)
    made_with = {
        **provenance(),
        "peers": ", ".join(
            sorted({f"{peer.package} {version_of(peer)}" for peer in PEERS.values() if peer.environment})
        ),
        "arguments": " ".join(sys.argv[1:]),
    }
    kept = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_with": made_with,
        "updates": [asdict(line) for line in updates],
        "sets": {name: [asdict(line) for line in lines] for name, lines in searches.items()},
        "rounds": [{**asdict(result), "figures": lean(result.figures)} for result in results],
    }
    (arguments.out / "figures.json").write_text(json.dumps(kept, indent=1))
    versions = "\n".join(f"- {name}: {value}" for name, value in made_with.items())
    written = "\n\n".join([versions, *map(in_markdown, tables), EXPLAINED])
    (arguments.out / "table.md").write_text(written + "\n")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    plots = draw(updates, searches, arguments.out)
    return tables, [arguments.out / "figures.json", arguments.out / "table.md", *plots]


if __name__ == "__main__":
    main()
