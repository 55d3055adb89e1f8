"""Cost of publishing an unchanged folder again, as a nightly job does, and of reindexing it."""

import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rich.table import Table

from bench.pipeline.corpus import text_of
from bench.pipeline.ground import Figures, Ground, Published, Stack, publish
from bench.pipeline.plots import bars
from bench.pipeline.processes import cpu_spent
from freki.cli.changes import FileArguments, identify, open_source, upserts
from freki.infra.sources import walk
from freki.streams.wire.connect import open_index

TITLE = "Publishing an unchanged folder again"
FILES, QUICK_FILES = 10_000, 200
CHARACTERS = 400
"""Approximate length of a file in characters: one or two chunks."""


async def measure(ground: Ground) -> Figures:
    """Publish a folder to an empty index, then again: unchanged, and all of it by force."""
    with tempfile.TemporaryDirectory(prefix="freki-bench-files-") as directory:
        folder = Path(directory) / "handbook"
        _write_files(ground, folder, QUICK_FILES if ground.quick else FILES)
        async with ground.open_stack() as stack:
            return {
                "files": sum(1 for _ in walk([folder])),
                "bytes": sum(path.stat().st_size for path in folder.iterdir()),
                "runs": [
                    await _run(ground, stack, folder, "first"),
                    await _run(ground, stack, folder, "again"),
                    await _run(ground, stack, folder, "again, --force", force=True),
                ],
            }


def _write_files(ground: Ground, folder: Path, files: int) -> None:
    folder.mkdir()
    texts = (text for change in ground.corpus.documents() for text in _short_ones(text_of(change)))
    for number, text in enumerate(islice(texts, files)):
        (folder / f"{number:05}.md").write_text(f"# Page {number}\n\n{text}\n", encoding="utf-8")


def _short_ones(text: str) -> list[str]:
    parts, size = [""], 0
    for paragraph in text.split("\n\n"):
        if size >= CHARACTERS:
            parts.append("")
            size = 0
        parts[-1] += f"{paragraph}\n\n"
        size += len(paragraph)
    return parts


async def _run(ground: Ground, stack: Stack, folder: Path, title: str, *, force: bool = False) -> Figures:
    arguments = FileArguments(force=force)
    files = list(walk([folder]))
    with ground.step(f"files published: {title}", len(files)) as advance, cpu_spent(stack.pids) as cpu_s:
        started = time.perf_counter()
        async with (
            open_source(stack.settings, arguments, arguments.fields(stack.settings)) as source,
            open_index(stack.settings) as index,
        ):
            await identify(source, files, index)
            made = (make() for make in upserts(source, files, stack.settings))
            changes = [change for change in made if change is not None]
            await source.record(changes)
        published = await publish(stack.settings, changes, advance=advance)
        published = replace(published, seconds=time.perf_counter() - started)
    return _figures(title, published) | {
        "unchanged": len(files) - len(changes),
        "cpu_ms_per_document": {name: 1000 * seconds / len(files) for name, seconds in cpu_s.items()},
    }


def _figures(title: str, published: Published) -> Figures:
    return {
        "title": title,
        "seconds": published.seconds,
        "outcomes": Counter(outcome.status.value for outcome in published.outcomes),
        "chunks": published.chunks,
        "embedded": sum(outcome.embedded for outcome in published.outcomes),
    }


def tables(figures: Figures) -> list[Table]:
    """Return a table with one row per run."""
    table = Table(
        title=f"A folder of {figures['files']:,} Markdown files, {figures['bytes']:,} bytes, published again and again",
        caption="from the first event to the last receipt; embedded: chunks that went through the model",
    )
    for column in ("run", "files/s", "not published", "outcomes", "chunks", "embedded", "CPU ms per document"):
        table.add_column(column, justify="left" if column in {"run", "outcomes"} else "right")
    for run in figures["runs"]:
        outcomes = ", ".join(f"{number:,} {status.lower()}" for status, number in run["outcomes"].items())
        cpu = sum(run["cpu_ms_per_document"].values())
        rate = figures["files"] / run["seconds"]
        counts = (f"{run['chunks']:,}", f"{run['embedded']:,}", f"{cpu:.1f}")
        row = (f"{rate:,.0f}", f"{run['unchanged']:,}", outcomes, *counts)
        table.add_row(run["title"], *row)
    return [table]


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw CPU time by process for the first run and the forced one."""
    first, forced = figures["runs"][0], figures["runs"][-1]
    return [
        bars(
            folder / "republish-cpu.png",
            {"first": first["cpu_ms_per_document"], "again, --force": forced["cpu_ms_per_document"]},
            title="A folder published first and again: CPU by process (lower is better)",
            value="CPU time per document, ms",
        )
    ]
