"""Memory of each process of the stack: idle, while indexing, while answering."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from bench.pipeline.corpus import some
from bench.pipeline.ground import Figures, Ground, Stack, ask, indexed, open_filled, publish, questions
from bench.pipeline.plots import bars
from bench.pipeline.processes import KIB, Memory, cpu_spent, memory
from freki.schemas import Operation, TenantId
from freki.streams.wire.from_settings import wall_clock

TITLE = "Memory of each process"
EVERY_S = 0.5
IDLE_S, QUICK_IDLE_S = 15.0, 3.0
CHARACTERS, QUICK_CHARACTERS = 1_500_000, 60_000
QUESTIONS, QUICK_QUESTIONS = 400, 40
AT_ONCE = 16
TENANT = TenantId("bench-memory")
MIB = KIB * KIB


async def measure(ground: Ground) -> Figures:
    """Measure the processes of a filled stack; documents indexed meanwhile are deleted afterwards."""
    async with open_filled(ground, ground.sizes[-1]) as stack:
        asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS)
        idle_s = QUICK_IDLE_S if ground.quick else IDLE_S
        with cpu_spent(stack.pids) as cpu_s:
            async with _watched(stack) as idle:
                await asyncio.sleep(idle_s)
        async with _watched(stack) as ingest:
            indexed_chunks = await _ingest(ground, stack)
        with ground.step("queries while memory is sampled", len(asked)) as advance:
            async with _watched(stack) as queries:
                await ask(stack.settings, asked, at_once=AT_ONCE, advance=advance)
        held = sum((await indexed(stack.settings)).values())
    phases = {"idle": idle, "ingest": ingest, "queries": queries}
    return {
        "chunks_in_index": held,
        "chunks_ingested": indexed_chunks,
        "questions": len(asked),
        "questions_at_once": AT_ONCE,
        "idle_cpu_share": {name: seconds / idle_s for name, seconds in cpu_s.items()},
        "peak_mib": {phase: {name: _mib(most) for name, most in peaks.items()} for phase, peaks in phases.items()},
    }


@asynccontextmanager
async def _watched(stack: Stack) -> AsyncIterator[Mapping[str, Memory]]:
    """Yield a mapping of the peak memory of each process within the context."""
    peaks: dict[str, Memory] = {}

    def look() -> None:
        for name, pid in stack.pids.items():
            now, most = memory(pid), peaks.get(name, Memory(rss=0, pss=0))
            peaks[name] = Memory(rss=max(now.rss, most.rss), pss=max(now.pss, most.pss))

    async def watch() -> None:
        while True:
            look()
            await asyncio.sleep(EVERY_S)

    watching = asyncio.create_task(watch())
    try:
        yield peaks
    finally:
        look()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _ingest(ground: Ground, stack: Stack) -> int:
    characters = QUICK_CHARACTERS if ground.quick else CHARACTERS
    changes = [
        replace(change, version=wall_clock()) for change in some(ground.corpus.documents(TENANT), characters=characters)
    ]
    with ground.step("documents while memory is sampled", 2 * len(changes)) as advance:
        published = await publish(stack.settings, changes, advance=advance)
        gone = (
            replace(change, operation=Operation.DELETE, version=change.version + 1, content=None) for change in changes
        )
        await publish(stack.settings, gone, advance=advance)
    return published.chunks


def _mib(most: Memory) -> dict[str, float]:
    return {"rss": round(most.rss / MIB, 1), "pss": round(most.pss / MIB, 1)}


def tables(figures: Figures) -> list[Table]:
    """Return a table with one row per process and one column per phase."""
    peaks = figures["peak_mib"]
    table = Table(
        title=f"Peak MiB of each process, with {figures['chunks_in_index']:,} chunks in the index",
        caption="PSS (RSS): PSS divides shared pages among processes, so that sums count them once. "
        "CPU idle: share of one core",
    )
    table.add_column("process")
    for phase in peaks:
        table.add_column(phase, justify="right")
    table.add_column("CPU idle", justify="right")
    idle = figures["idle_cpu_share"]
    for name in peaks["idle"]:
        held = (f"{peak[name]['pss']:.0f} ({peak[name]['rss']:.0f})" for peak in peaks.values())
        table.add_row(name, *held, f"{100 * idle[name]:.1f} %")
    sums = (f"{sum(each['pss'] for each in peak.values()):.0f}" for peak in peaks.values())
    table.add_row("all", *sums, f"{100 * sum(idle.values()):.1f} %", style="bold")
    return [table]


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw one group of bars per process."""
    peaks = figures["peak_mib"]
    return [
        bars(
            folder / "memory.png",
            {phase: {name: each["pss"] for name, each in peak.items()} for phase, peak in peaks.items()},
            title=f"Memory by process, {figures['chunks_in_index']:,} chunks indexed (lower is better)",
            value="peak memory (PSS), MiB",
        )
    ]
