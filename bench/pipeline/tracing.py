"""Cost of traces while indexing: two stacks index the same documents alternately, one with traces."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from rich.table import Table

from bench.pipeline.corpus import some
from bench.pipeline.ground import BENCHMARK, Advance, Figures, Ground, Stack, percentiles, publish
from bench.pipeline.plots import bars
from bench.pipeline.processes import cpu_spent
from freki.infra.settings import Settings
from freki.schemas import DocumentChange, TenantId
from freki.schemas.names import record

TITLE = "Telemetry: what traces cost while documents are indexed"
CHARACTERS, QUICK_CHARACTERS = 400_000, 20_000
ROUNDS, QUICK_ROUNDS = 10, 2
OFF, ON = "off", "on"
SHARES = {OFF: 0.0, ON: 1.0}
"""Shares of sampled traces, written to files."""


@record
class Round:
    """CPU time of a stack for the documents of one round."""

    chunks: int
    cpu_s: Mapping[str, float]
    """CPU seconds by process, including the benchmark's."""

    @property
    def ms_per_chunk(self) -> float:
        """CPU milliseconds per chunk, all processes together."""
        return 1000 * sum(self.cpu_s.values()) / self.chunks


async def measure(ground: Ground) -> Figures:
    """Index the same documents in both stacks, each round with its own tenant, in alternating order."""
    rounds = QUICK_ROUNDS if ground.quick else ROUNDS
    documents = list(some(ground.corpus.documents(), characters=QUICK_CHARACTERS if ground.quick else CHARACTERS))
    results: dict[str, list[Round]] = {OFF: [], ON: []}
    async with (
        ground.open_stack(environment=_environment(OFF)) as off,
        ground.open_stack(environment=_environment(ON)) as on,
    ):
        stacks = {OFF: off, ON: on}
        for mode, stack in stacks.items():
            await _round(stack, mode, _under("warm-up", documents[:1]))
        with ground.step("documents, with traces and without", 2 * rounds * len(documents)) as advance:
            for number in range(rounds):
                for mode in (OFF, ON) if number % 2 == 0 else (ON, OFF):
                    changes = _under(f"round-{number}", documents)
                    results[mode].append(await _round(stacks[mode], mode, changes, advance))
        spans = _traced_bytes(on.settings)
    ratios = [
        with_.ms_per_chunk / without.ms_per_chunk for with_, without in zip(results[ON], results[OFF], strict=True)
    ]
    return {
        "documents": len(documents),
        "chunks": results[ON][0].chunks,
        "rounds": rounds,
        "ratios": ratios,
        "ratio": median(ratios),
        "quartiles": percentiles(ratios, (25, 75)),
        "cpu_ms_per_chunk": {mode: _by_process(each) for mode, each in results.items()},
        "trace_bytes_per_chunk": spans / sum(result.chunks for result in results[ON]),
    }


def _environment(mode: str) -> dict[str, str]:
    return {"FREKI_TELEMETRY__TRACE_SHARE": str(SHARES[mode])}


def _under(tenant: str, changes: Sequence[DocumentChange]) -> list[DocumentChange]:
    return [replace(change, tenant=TenantId(f"bench-{tenant}")) for change in changes]


async def _round(
    stack: Stack, mode: str, changes: Sequence[DocumentChange], advance: Advance = lambda _: None
) -> Round:
    # Workers follow the sampling decision of the publisher, so it needs the same share.
    telemetry = stack.settings.telemetry.model_copy(update={"trace_share": SHARES[mode]})
    settings = stack.settings.model_copy(update={"telemetry": telemetry})
    with cpu_spent(stack.pids) as cpu_s:
        began_s = time.process_time()
        published = await publish(settings, changes, advance=advance)
        own_s = time.process_time() - began_s
    return Round(chunks=published.chunks, cpu_s={**cpu_s, BENCHMARK: own_s})


def _by_process(results: Sequence[Round]) -> dict[str, float]:
    """Return CPU milliseconds per chunk by process, median of all rounds."""
    return {name: median(1000 * result.cpu_s[name] / result.chunks for result in results) for name in results[0].cpu_s}


def _traced_bytes(settings: Settings) -> int:
    directory = settings.telemetry.trace_dir
    return 0 if directory is None else sum(path.stat().st_size for path in directory.glob("*.jsonl"))


def tables(figures: Figures) -> list[Table]:
    """Return CPU time by process without and with traces, and the ratio of the sums with its spread."""
    off, on = (figures["cpu_ms_per_chunk"][mode] for mode in (OFF, ON))
    quartiles, ratios = figures["quartiles"], figures["ratios"]
    table = Table(
        title="CPU time per chunk, without traces and with all traces",
        caption=f"{figures['rounds']} rounds of {figures['documents']:,} documents, {figures['chunks']:,} chunks, on "
        f"alternating stacks; half of the ratios within {quartiles['p25']:.3f} and {quartiles['p75']:.3f}, all within "
        f"{min(ratios):.3f} and {max(ratios):.3f}; {figures['trace_bytes_per_chunk']:,.0f} bytes of spans per chunk",
    )
    table.add_column("process")
    for column in ("off, ms", "on, ms"):
        table.add_column(column, justify="right")
    for name in on:
        table.add_row(name, f"{off[name]:.2f}", f"{on[name]:.2f}")
    table.add_row("on / off, median of the rounds", "", f"{figures['ratio']:.3f}", style="bold")
    return [table]


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw a pair of bars per process."""
    return [
        bars(
            folder / "telemetry.png",
            {f"traces {mode}": figures["cpu_ms_per_chunk"][mode] for mode in (OFF, ON)},
            title=f"Traces: {figures['ratio'] - 1:+.1%} CPU time while documents are indexed (lower is better)",
            value="CPU time per chunk, ms",
        )
    ]
