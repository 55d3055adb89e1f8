"""`make bench`: throughput, latency, freshness and cost of Freki on this machine.

Compare ratios within a run; absolute times depend on the machine and its other load.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.pipeline import (
    apis,
    freshness,
    generations,
    growth,
    ingest,
    memory,
    overload,
    pinned,
    protection,
    query,
    republish,
    rights,
    single,
    steps,
    tracing,
)
from bench.pipeline.corpus import Corpus
from bench.pipeline.ground import Figures, Ground, Measurement
from bench.pipeline.machine import machine
from bench.pipeline.write import Section, markdown
from freki.cli.bars import bars
from freki.infra.settings.read import read_settings

MEASUREMENTS: Mapping[str, Measurement] = {
    "ingest": ingest,
    "single": single,
    "republish": republish,
    "steps": steps,
    "query": query,
    "apis": apis,
    "overload": overload,
    "rights": rights,
    "protection": protection,
    "freshness": freshness,
    "memory": memory,
    "growth": growth,
    "pinned": pinned,
    "generations": generations,
    "telemetry": tracing,
}
RESULTS = Path("bench-results")
FIGURES = "figures.json"
DEFAULT_SIZES = (10_000,)
QUICK_SIZES = (1_000,)
console = Console()


async def main() -> None:
    """Run the measurements; print and write the results after each."""
    arguments = _arguments()
    if find_spec("matplotlib") is None:
        # Not after an hour of measuring.
        sys.exit("matplotlib is not installed: `make bench` installs it")
    about, began = machine(), datetime.now(UTC)
    folder = RESULTS / f"{began:%Y-%m-%d}-{about['commit']}{'-dirty' if about['dirty'] else ''}"
    found = _earlier(folder, about)
    with bars(console) as progress, tempfile.TemporaryDirectory(prefix="freki-bench-") as directory:
        ground = _ground(arguments, arguments.keep or Path(directory), progress)
        for name in progress.track(arguments.only, description="measurements"):
            progress.console.rule(MEASUREMENTS[name].TITLE)
            found["measurements"][name] = await _measured(name, ground)
            for table in MEASUREMENTS[name].tables(found["measurements"][name]["figures"]):
                progress.console.print(table)
            _write(found, folder)
    console.print(f"written to {folder} and {RESULTS / 'latest'}")


def _earlier(folder: Path, about: Figures) -> Figures:
    """Return measurements of earlier runs of the day on this machine with this code, else nothing."""
    try:
        found: Figures = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
    except OSError:
        found = {}
    return found if found.get("machine") == about else {"machine": about, "measurements": {}}


async def _measured(name: str, ground: Ground) -> Figures:
    began, started = datetime.now(UTC), time.perf_counter()
    figures = await MEASUREMENTS[name].measure(ground)
    return {
        "began_at": began.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - started),
        "run": {
            "documents": ground.corpus.named,
            "sizes": list(ground.sizes),
            "quick": ground.quick,
            "seed": ground.seed,
        },
        "figures": figures,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), help="measurements to run (default: all)"
    )
    parser.add_argument("--sizes", nargs="+", type=int, help="sizes of the index in chunks")
    parser.add_argument(
        "--copies",
        action="store_true",
        help="fill sizes above the smallest with copies of its documents with random vectors, which needs no model",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a run of a few minutes that only shows that everything works"
    )
    parser.add_argument("--data", nargs="+", type=Path, default=[], help="recorded streams; default: the samples")
    parser.add_argument("--keep", type=Path, help="folder that keeps filled stacks for later runs")
    parser.add_argument("--seed", type=int, default=1, help="seed of copies of documents and of queries")
    return parser.parse_args()


def _ground(arguments: argparse.Namespace, keep: Path, progress: Progress) -> Ground:
    return Ground(
        settings=read_settings(),
        corpus=Corpus(streams=tuple(arguments.data), seed=arguments.seed),
        sizes=tuple(sorted(arguments.sizes or (QUICK_SIZES if arguments.quick else DEFAULT_SIZES))),
        copies=arguments.copies,
        quick=arguments.quick,
        seed=arguments.seed,
        keep=keep,
        progress=progress,
    )


def _write(found: Figures, folder: Path) -> None:
    """Write figures, plots and tables, and copy them to `latest`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FIGURES).write_text(json.dumps(found, indent=2, ensure_ascii=False), encoding="utf-8")
    sections = [
        Section(
            title=measurement.TITLE,
            measured=found["measurements"][name],
            tables=measurement.tables(found["measurements"][name]["figures"]),
            drawings=measurement.draw(found["measurements"][name]["figures"], folder),
        )
        for name, measurement in MEASUREMENTS.items()
        if name in found["measurements"]
    ]
    (folder / "table.md").write_text(markdown(found["machine"], sections), encoding="utf-8")
    shutil.rmtree(RESULTS / "latest", ignore_errors=True)
    shutil.copytree(folder, RESULTS / "latest")


if __name__ == "__main__":
    asyncio.run(main())
