"""`make bench`: what Freki costs on this machine, and how soon and how fast it answers.

Ratios of one run are worth keeping; absolute times are of this machine at this hour.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from freki.infra.settings import Settings
from tests.bench import memory
from tests.bench.corpus import Corpus
from tests.bench.ground import Ground, Measurement
from tests.bench.machine import machine
from tests.bench.write import markdown

MEASUREMENTS: Mapping[str, Measurement] = {
    "memory": memory,
}
RESULTS = Path("bench-results")
DEFAULT_SIZES = (10_000,)
QUICK_SIZES = (1_000,)
console = Console()


async def main() -> None:
    """Measure, show, write."""
    arguments = _arguments()
    about = machine()
    began = datetime.now(UTC)
    figures: dict[str, Any] = {}
    with _bars() as progress, tempfile.TemporaryDirectory(prefix="freki-bench-") as directory:
        ground = _ground(arguments, arguments.keep or Path(directory), progress)
        for name in progress.track(arguments.only, description="measurements"):
            progress.console.rule(MEASUREMENTS[name].TITLE)
            started = time.perf_counter()
            figures[name] = await MEASUREMENTS[name].measure(ground)
            for table in MEASUREMENTS[name].tables(figures[name]):
                progress.console.print(table)
            progress.console.print(f"{name} took {time.perf_counter() - started:.0f} s")
    found = {"began_at": began.isoformat(timespec="seconds"), "machine": about, "run": _run(ground), "figures": figures}
    folder = RESULTS / f"{began:%Y-%m-%d}-{about['commit']}{'-dirty' if about['dirty'] else ''}"
    _write(found, folder)
    console.print(f"written to {folder} and {RESULTS / 'latest'}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), help="measure just these"
    )
    parser.add_argument("--sizes", nargs="+", type=int, help="chunks in the index")
    parser.add_argument("--quick", action="store_true", help="a few minutes: enough to see that it works")
    parser.add_argument("--data", nargs="+", type=Path, default=[], help="recorded streams; default: the samples")
    parser.add_argument("--keep", type=Path, help="folder in which filled stacks stay for later runs")
    parser.add_argument("--seed", type=int, default=1, help="for copies of documents, and questions")
    return parser.parse_args()


def _ground(arguments: argparse.Namespace, keep: Path, progress: Progress) -> Ground:
    return Ground(
        settings=Settings(),
        corpus=Corpus(streams=tuple(arguments.data), seed=arguments.seed),
        sizes=tuple(sorted(arguments.sizes or (QUICK_SIZES if arguments.quick else DEFAULT_SIZES))),
        quick=arguments.quick,
        seed=arguments.seed,
        keep=keep,
        progress=progress,
    )


def _run(ground: Ground) -> dict[str, Any]:
    return {"data": ground.corpus.named, "sizes": ground.sizes, "quick": ground.quick, "seed": ground.seed}


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _write(found: Mapping[str, Any], folder: Path) -> None:
    """Write figures, drawings and tables, and the same as the latest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text(json.dumps(found, indent=2, ensure_ascii=False), encoding="utf-8")
    sections: list[tuple[str, Sequence[Table], Sequence[Path]]] = []
    for name, figures in found["figures"].items():
        measurement = MEASUREMENTS[name]
        sections.append((measurement.TITLE, measurement.tables(figures), measurement.draw(figures, folder)))
    (folder / "table.md").write_text(markdown(found, sections), encoding="utf-8")
    shutil.rmtree(RESULTS / "latest", ignore_errors=True)
    shutil.copytree(folder, RESULTS / "latest")


if __name__ == "__main__":
    asyncio.run(main())
