"""`make bench`: what the pipeline costs beside its model, and where a question's time goes, on this machine.

Ratios of one run are worth keeping; absolute times are of this machine at this hour.
"""

import argparse
import asyncio
import json
import math
import os
import platform
import shutil
import subprocess
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.models import OnnxEmbedder
from freki.infra.settings import LocalSettings, Settings
from freki.operators.situate import situate
from freki.schemas import ContextQuery, ContextResult, DocumentChange, Operation, QueryId, TenantId
from freki.streams.commands.operate import report
from freki.streams.commands.publish import ChangeMaker
from freki.streams.connect import apply_topics, limits_of, open_asker, open_publisher, open_receipts, wall_clock
from freki.streams.outline import Outliner

LAWS = Path("../shared/data/streams/gesetze.jsonl.zst")
QUESTIONS = (
    "Welche Pflichten hat der Vermieter nach § 535 BGB?",
    "Wann verjähren Ansprüche auf Rückzahlung?",
    "Wer ist für die Erteilung der Erlaubnis zuständig?",
    "Kündigungsfrist Mietvertrag",
    "Welche Unterlagen sind dem Antrag beizufügen?",
    "Wie hoch ist das Bußgeld bei einer Ordnungswidrigkeit?",
    "Einleiten von Abwasser in Gewässer",
    "Was gilt als höhere Gewalt?",
)
PATIENCE_S = 300.0
console = Console()


async def main() -> None:
    """Run all measurements and print them."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="freki-bench-") as directory:
        settings = Settings(local=LocalSettings(state_dir=Path(directory)))
        changes = list(_changes(settings, arguments.characters))
        async with _stack(settings) as here:
            ingest = await _ingest(here, changes)
            queries = [await _queries(here, at_once, arguments.rounds) for at_once in (1, 8)]
    results = {"machine": _machine(), "ingest": ingest, "queries": queries}
    _show(results)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=2), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("--characters", type=int, default=1_500_000, help="how much text to ingest")
    parser.add_argument("--rounds", type=int, default=25, help="how often each question is asked")
    parser.add_argument(
        "--json", type=Path, default=Path("bench-results/latest.json"), help="where to write the figures"
    )
    return parser.parse_args()


def _changes(settings: Settings, characters: int) -> Iterable[DocumentChange]:
    """Take real laws where they are, else repeat the samples with a changed word, so that nothing is reused."""
    maker = ChangeMaker(settings, None, None, priority=0)
    taken = 0
    for change in _upserts(maker):
        if taken >= characters:
            return
        taken += len(change.content or "")
        yield change


def _upserts(maker: ChangeMaker) -> Iterable[DocumentChange]:
    if LAWS.exists():
        yield from (change for change in maker.recorded(LAWS) if change.operation is Operation.UPSERT)
        return
    samples = sorted(Path("freki/samples").iterdir())
    for number in range(10_000):
        for sample in samples:
            text = sample.read_text(encoding="utf-8").replace(". ", f". Nr. {number}: ")
            yield maker.text(f"{number}/{sample.name}", text)


@asynccontextmanager
async def _stack(settings: Settings) -> AsyncIterator[Settings]:
    async with LocalStack(settings, report=report, prepare=apply_topics) as stack:
        yield settings_for(settings, stack.state)


async def _ingest(settings: Settings, changes: Sequence[DocumentChange]) -> dict[str, float]:
    """Compare the pipeline with the bare model on the same texts: half of those before it, half after."""
    async with OnnxEmbedder(settings.models) as embedder:
        outliner = Outliner(
            limits_of(settings.chunking),
            max_characters=settings.chunking.max_characters,
            count_tokens=embedder.count_tokens,
        )
        texts = [text for change in changes for text in _texts(outliner, change)]
        tokens = sum(embedder.count_tokens(texts))
        console.print(f"{len(changes)} documents, {len(texts)} chunks, {tokens} tokens")
        bare_s = await _bare(embedder, texts[::2])
        pipeline_s, embedded = await _pipeline(settings, changes)
        bare_s += await _bare(embedder, texts[1::2])
    return {
        "documents": len(changes),
        "chunks": len(texts),
        "chunks_embedded": embedded,
        "tokens": tokens,
        "bare_tokens_per_s": tokens / bare_s,
        "pipeline_tokens_per_s": tokens / pipeline_s,
        "ratio": bare_s / pipeline_s,
    }


def _texts(outliner: Outliner, change: DocumentChange) -> list[str]:
    outline = outliner(change, change.content or "")
    return [f"{situate(outline.name, chunk)}\n{chunk.text}" for chunk in outline.chunks]


async def _bare(embedder: OnnxEmbedder, texts: Sequence[str]) -> float:
    """Embed in slices as large as the pipeline's."""
    started = time.perf_counter()
    rest = iter(texts)
    while piece := list(islice(rest, 64)):
        await embedder.embed_passages(piece)
    return time.perf_counter() - started


async def _pipeline(settings: Settings, changes: Sequence[DocumentChange]) -> tuple[float, int]:
    async with open_receipts(settings) as receipts, open_publisher(settings) as publisher:
        started = time.perf_counter()
        for change in changes:
            receipts.expect(change)
            await publisher.publish(change)
        embedded = 0
        for _ in changes:
            embedded += (await receipts.next(patience_s=PATIENCE_S)).embedded
        return time.perf_counter() - started, embedded


async def _queries(settings: Settings, at_once: int, rounds: int) -> dict[str, object]:
    async with open_asker(settings) as asker:
        slots = asyncio.Semaphore(at_once)
        whole: list[float] = []

        async def ask(text: str) -> ContextResult:
            async with slots:
                query = ContextQuery(
                    query_id=QueryId(str(uuid.uuid4())),
                    tenant=TenantId(settings.tenant),
                    text=text,
                    asked_at=wall_clock(),
                )
                started = time.perf_counter()
                result = await asker.ask(query, patience_s=PATIENCE_S)
                whole.append((time.perf_counter() - started) * 1000)
                return result

        await asyncio.gather(*(ask(text) for text in QUESTIONS))
        whole.clear()
        results = await asyncio.gather(*(ask(text) for _ in range(rounds) for text in QUESTIONS))
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        for stage in result.stages:
            stages[stage.stage].append(stage.milliseconds)
    return {
        "at_once": at_once,
        "questions": len(results),
        "question_to_answer_ms": _percentiles(whole),
        "stages_ms": {stage: _percentiles(times) for stage, times in stages.items()},
    }


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{share}": round(ordered[math.ceil(share / 100 * len(ordered)) - 1], 2) for share in (50, 95, 99)}


def _machine() -> dict[str, object]:
    git = shutil.which("git")
    told = git and subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
    return {
        "commit": (told or "unknown").strip(),
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("onnxruntime", "pymilvus", "milvus-lite", "faust-streaming")},
    }


def _show(results: dict[str, object]) -> None:
    ingest, queries = results["ingest"], results["queries"]
    assert isinstance(ingest, dict)
    assert isinstance(queries, list)
    table = Table("ingest", "", title="The same texts through the model alone and through the whole pipeline")
    for name, value in ingest.items():
        table.add_row(name, f"{value:.2f}" if name == "ratio" else f"{value:.0f}")
    console.print(table)
    for run in queries:
        table = Table("stage, ms", "p50", "p95", "p99", title=f"{run['at_once']} questions at once")
        table.add_row("question to answer", *map(str, run["question_to_answer_ms"].values()), style="bold")
        for stage, times in run["stages_ms"].items():
            table.add_row(stage, *map(str, times.values()))
        console.print(table)


if __name__ == "__main__":
    asyncio.run(main())
