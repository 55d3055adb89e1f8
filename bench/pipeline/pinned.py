"""Embed workers with a core each: how much faster a second one makes ingest, without cores that both may use."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from rich.table import Table

from bench.pipeline.corpus import WARM_UP, some, text_of
from bench.pipeline.ground import Figures, Ground, Stack, publish
from bench.pipeline.plots import bars
from bench.pipeline.processes import cpu_spent, session
from freki.schemas import DocumentChange

TITLE = "Embed workers with a core each"
CHARACTERS, QUICK_CHARACTERS = 600_000, 30_000
WORKERS = (1, 2, 2, 1)
"""Numbers of embed workers, in the order of the runs: each twice, since the load of the machine changes."""


async def measure(ground: Ground) -> Figures:
    """Index the same documents on an empty stack in each run. Raises ValueError with fewer cores than embed workers."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < max(WORKERS):
        raise ValueError(f"{max(WORKERS)} embed workers need {max(WORKERS)} cores; this machine has {len(cores)}")
    documents = list(some(ground.corpus.documents(), characters=QUICK_CHARACTERS if ground.quick else CHARACTERS))
    with ground.step("documents, by embed workers", len(WORKERS) * len(documents)) as advance:
        runs = []
        for workers in WORKERS:
            runs.append(await _run(ground, documents, workers, cores))
            advance(len(documents))
    return {
        "documents": len(documents),
        "characters": sum(len(text_of(change)) for change in documents),
        "cores": len(cores),
        "runs": runs,
    }


async def _run(ground: Ground, documents: Sequence[DocumentChange], workers: int, cores: Sequence[int]) -> Figures:
    models = ground.settings.models.model_copy(update={"threads": 1})
    one_thread = replace(ground, settings=ground.settings.model_copy(update={"models": models}))
    stages = (("chunk", "contextualise"), *[("embed",)] * workers)
    async with one_thread.open_stack(workers=stages) as stack:
        _pin(stack, cores)
        await publish(stack.settings, [replace(documents[0], tenant=WARM_UP)])
        with cpu_spent(stack.pids) as cpu_s:
            published = await publish(stack.settings, documents)
    embed_s = [seconds for name, seconds in cpu_s.items() if "embed" in name]
    return {
        "embed_workers": workers,
        "chunks": published.chunks,
        "chunks_per_s": published.chunks / published.seconds,
        "embed_cpu_ms_per_chunk": 1000 * sum(embed_s) / published.chunks,
        "least_share": min(embed_s) / sum(embed_s),
    }


def _pin(stack: Stack, cores: Sequence[int]) -> None:
    """Give each embed worker a core of its own; all others the cores that are left, or any where none is."""
    embed = [pid for name, pid in stack.pids.items() if "embed" in name]
    left = set(cores[len(embed) :]) or set(cores)
    for pid in stack.pids.values():
        allowed = {cores[embed.index(pid)]} if pid in embed else left
        for member in session(pid):
            # Threads that run already have their own affinity.
            for thread in Path(f"/proc/{member}/task").iterdir():
                os.sched_setaffinity(int(thread.name), allowed)


def _by_workers(figures: Figures, name: str) -> dict[int, float]:
    runs = figures["runs"]
    return {
        workers: fmean(run[name] for run in runs if run["embed_workers"] == workers)
        for workers in sorted({run["embed_workers"] for run in runs})
    }


def tables(figures: Figures) -> list[Table]:
    """Return a table with one row per number of embed workers, the mean of its runs."""
    table = Table(
        title=f"{figures['documents']} documents, {figures['characters']:,} characters, {figures['cores']} cores",
        caption="each embed worker has one core and one thread; all other processes have the other cores, or all",
    )
    for column in ("embed workers", "chunks/s", "ratio", "embed CPU ms per chunk", "least share of a worker"):
        table.add_column(column, justify="right")
    speed = _by_workers(figures, "chunks_per_s")
    cpu, share = _by_workers(figures, "embed_cpu_ms_per_chunk"), _by_workers(figures, "least_share")
    for workers, chunks_per_s in speed.items():
        table.add_row(
            f"{workers}",
            f"{chunks_per_s:.1f}",
            f"{chunks_per_s / min(speed.items())[1]:.2f}",
            f"{cpu[workers]:.1f}",
            f"{share[workers]:.2f}",
        )
    return [table]


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw the throughput."""
    values = {"chunks/s": {f"{workers}": each for workers, each in _by_workers(figures, "chunks_per_s").items()}}
    return [bars(folder / "pinned-chunks.png", values, title=TITLE, value="chunks/s")]
