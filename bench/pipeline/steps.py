"""Cost of each optional step of ingest: the same documents with and without it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from bench.pipeline.corpus import WARM_UP, some, text_of
from bench.pipeline.ground import Figures, Ground, publish
from bench.pipeline.plots import bars
from bench.pipeline.processes import cpu_spent
from freki.schemas import DocumentChange
from tests.llm_server import LlmServer, an_llm_server

TITLE = "Steps of ingest: throughput with and without each"
CHARACTERS, QUICK_CHARACTERS = 600_000, 20_000
AS_SET = "as set"
AGAIN = "as set, again"
"""Repetition of the settings, to show the noise."""


def _steps(server: LlmServer) -> Mapping[str, Mapping[str, str]]:
    llm = {"FREKI_LLM__URL": server.url, "FREKI_LLM__MODEL": "scripted", "FREKI_LLM__MAX_TOKENS_DAY": "0"}
    return {
        AS_SET: {},
        "abbreviations explained": {"FREKI_CONTEXTS__DEFINITIONS": "true"},
        "contexts of a language model that answers at once": {**llm, "FREKI_CONTEXTS__LLM": "true"},
        "summaries of one, too": {**llm, "FREKI_CONTEXTS__LLM": "true", "FREKI_CONTEXTS__SUMMARIES": "true"},
        "long prose cut by meaning": {"FREKI_CHUNKING__LEAST_SIMILARITY": "0.84"},
        "late chunking": {"FREKI_MODELS__LATE_WINDOW_TOKENS": "480"},
        "plain terms": {"FREKI_LEXICAL__ANALYSER": "plain"},
        AGAIN: {},
    }


async def measure(ground: Ground) -> Figures:
    """Index the same documents on an empty stack for each step, after one warm-up document."""
    documents = list(some(ground.corpus.documents(), characters=QUICK_CHARACTERS if ground.quick else CHARACTERS))
    with an_llm_server() as server:
        steps = _steps(server)
        with ground.step("documents, by step", len(steps) * len(documents)) as advance:
            runs = {}
            for title, environment in steps.items():
                calls = len(server.requests)
                runs[title] = await _run(ground, environment, documents)
                runs[title]["calls"] = len(server.requests) - calls
                advance(len(documents))
    return {"documents": len(documents), "characters": sum(len(text_of(change)) for change in documents), "runs": runs}


async def _run(ground: Ground, environment: Mapping[str, str], documents: Sequence[DocumentChange]) -> Figures:
    async with ground.open_stack(environment=environment) as stack:
        await publish(stack.settings, [replace(documents[0], tenant=WARM_UP)])
        with cpu_spent(stack.pids) as cpu_s:
            published = await publish(stack.settings, documents)
    return {
        "chunks": published.chunks,
        "chunks_per_s": published.chunks / published.seconds,
        "cpu_ms_per_chunk": {name: 1000 * seconds / published.chunks for name, seconds in cpu_s.items()},
    }


def tables(figures: Figures) -> list[Table]:
    """Return a table with one row per step and ratios to the settings."""
    table = Table(
        title=f"{figures['documents']} documents, {figures['characters']:,} characters, with one step changed",
        caption="ratios of throughput and of CPU time per chunk, over all processes, to those as set",
    )
    table.add_column("step")
    for column in ("chunks", "chunks/s", "ratio", "CPU ms per chunk", "ratio", "calls of the language model"):
        table.add_column(column, justify="right")
    base = figures["runs"][AS_SET]
    for title, run in figures["runs"].items():
        table.add_row(
            title,
            f"{run['chunks']:,}",
            f"{run['chunks_per_s']:.1f}",
            f"{run['chunks_per_s'] / base['chunks_per_s']:.2f}",
            f"{_cpu(run):.1f}",
            f"{_cpu(run) / _cpu(base):.2f}",
            f"{run['calls']:,}" if run["calls"] else "",
        )
    return [table]


def _cpu(run: Figures) -> float:
    return float(sum(run["cpu_ms_per_chunk"].values()))


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw CPU time by process for each step."""
    return [
        bars(
            folder / "steps-cpu.png",
            {title: run["cpu_ms_per_chunk"] for title, run in figures["runs"].items()},
            title="Steps of ingest: CPU time per chunk (lower is better)",
            value="CPU time per chunk, ms",
        )
    ]
