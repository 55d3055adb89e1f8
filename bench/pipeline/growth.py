"""Growth: cost of a chunk, a commit and a search by size of the index, with one embed worker and with two.

The whole pipeline with its real model runs up to 10,000 chunks. Beyond that the model would take most of the time
without new insight, as its cost per token is the same in both of those runs; the store alone is filled up to 100,000
chunks by the pipeline's `Indexer`, with vectors of a fake model of the same dimension.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean, median

import numpy as np
from rich.table import Table

from bench.pipeline.corpus import TENANT, WARM_UP
from bench.pipeline.filler import Filler, SizedEmbedder
from bench.pipeline.fit import Fit, fit
from bench.pipeline.ground import Figures, Ground, Stack, ask, fill, outliner, percentiles, publish, questions
from bench.pipeline.plots import lines
from bench.pipeline.processes import KIB, cpu_by_name, cpu_spent, memory
from freki.infra.cores import usable_cores
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import CHUNKS, size_of
from freki.infra.milvus.rows import chunk_row
from freki.infra.models import embedder_identity
from freki.infra.models.tokens import open_token_counter
from freki.operators.analyse_text import analyse_text
from freki.schemas import ChunkId, ChunkLevel, ContextResult, RootId
from freki.schemas.arrays import Floats
from freki.schemas.avro import Codec
from freki.schemas.index import IndexedChunk, RowId, Scope
from freki.streams.wire.from_settings import index_of

TITLE = "Growth: costs as the index grows"

PIPELINE_SIZES, QUICK_PIPELINE_SIZES = (1_000, 10_000), (500, 1_500)
STORE_SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
QUICK_STORE_SIZES = (500, 1_000, 2_000, 3_000)
EMBED_WORKERS = (1, 2)
QUESTIONS, QUICK_QUESTIONS = 60, 8
WARM_UP_QUESTIONS = 4
REPEATED, QUICK_REPEATED = 30, 5
"""Number of timed repetitions of each call to the store."""
SEARCHED, QUICK_SEARCHED = 500, 100
"""Number of BM25 searches while the store's CPU is counted, which Linux does in steps of 10 ms."""
DEPTH = 200
"""Default search depth of each retriever."""
ROWS = 64
"""Chunk rows per insert: about a batch of the embed stage."""
SAMPLED_ROWS = 500
MIB = KIB * KIB
TIMED = {
    "dense_ms": "dense search",
    "lexical_ms": "BM25 search",
    "rows_ms": "insert of rows",
    "root_ms": "commit of a root",
    "left_ms": "look-up before sweeping",
}
GROWING = {
    **TIMED,
    "lexical_cpu_ms": "BM25 search, CPU of the store",
    "disk_bytes": "bytes on disk",
    "memory_bytes": "bytes in memory",
}
EVERYTHING = Scope(
    tenant=TENANT, principals=(), levels=(ChunkLevel.DOCUMENT, ChunkLevel.SECTION, ChunkLevel.PARAGRAPH), filters=()
)


async def measure(ground: Ground) -> Figures:
    """Measure the growth of the whole pipeline with its model, then of the store alone."""
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS)
    pipeline: list[Figures] = []
    for workers in EMBED_WORKERS:
        pipeline += await _pipeline(ground, asked, workers)
    return {"pipeline": pipeline, "store": await _store(ground, asked)}


async def _pipeline(ground: Ground, asked: Sequence[str], workers: int) -> list[Figures]:
    """Fill one stack incrementally and run queries at each size. The models share the cores equally."""
    cores = ground.settings.models.threads or usable_cores()
    models = ground.settings.models.model_copy(update={"threads": max(1, cores // workers)})
    shared = replace(ground, settings=ground.settings.model_copy(update={"models": models}))
    stages = (("chunk", "contextualise"), *[("embed",)] * workers, ("retrieve",))
    sizes = QUICK_PIPELINE_SIZES if ground.quick else PIPELINE_SIZES
    async with shared.open_stack(workers=stages) as stack:
        await publish(stack.settings, [replace(next(ground.corpus.documents()), tenant=WARM_UP)])
        return [{"embed_workers": workers, "size": size, **await _grown(shared, stack, size, asked)} for size in sizes]


async def _grown(ground: Ground, stack: Stack, size: int, asked: Sequence[str]) -> Figures:
    before = _by_stage(stack)
    published = await fill(ground, stack, size)
    filled = _by_stage(stack)
    with ground.step(f"queries at {size:,} chunks", len(asked)) as advance:
        await ask(stack.settings, asked[:WARM_UP_QUESTIONS], at_once=1)
        warm = _by_stage(stack)
        answers = await ask(stack.settings, asked, at_once=1, advance=advance)
    answered = _by_stage(stack)
    tokens = sum(outcome.tokens for outcome in published.outcomes)
    encode = Codec(ContextResult).encode
    return {
        "chunks": published.chunks,
        "documents": len(published.outcomes),
        "tokens": tokens,
        "chunks_per_s": published.chunks / published.seconds,
        "tokens_per_s": tokens / published.seconds,
        "cpu_ms_per_chunk": {name: 1000 * (filled[name] - before[name]) / published.chunks for name in filled},
        "embed_cpu_us_per_token": 1e6 * (filled["embed"] - before["embed"]) / tokens,
        "answer_bytes": fmean(len(encode(answer.result)) for answer in answers),
        "question_ms": percentiles(answer.milliseconds for answer in answers),
        "cpu_ms_per_question": {name: 1000 * (answered[name] - warm[name]) / len(asked) for name in answered},
    }


def _by_stage(stack: Stack) -> dict[str, float]:
    """Return CPU seconds so far, summed over workers of the same stages."""
    spent: dict[str, float] = {}
    for name, seconds in cpu_by_name(stack.pids).items():
        stage = name.rstrip("-0123456789")
        spent[stage] = spent.get(stage, 0.0) + seconds
    return spent


async def _store(ground: Ground, asked: Sequence[str]) -> Figures:
    """Fill a store incrementally and time the pipeline's calls at each size."""
    fingerprint, dim = embedder_identity(ground.settings.models)
    del fingerprint  # the vectors are not from that model
    fake = SizedEmbedder(dim, await open_token_counter(ground.settings.models))
    sizes = QUICK_STORE_SIZES if ground.quick else STORE_SIZES
    async with (
        ground.open_stack(workers=()) as stack,
        index_of(stack.settings, embedder=fake.fingerprint, dim=dim) as index,
        outliner(ground.settings) as outline,
    ):
        filler = Filler(ground, index, fake, outline)
        points = [await _point(ground, stack, filler, size, asked) for size in sizes]
        rows = await _rows(index, filler.chunk_ids[:: max(1, len(filler.chunk_ids) // SAMPLED_ROWS)])
    return {
        "dim": dim,
        "points": points,
        "row_bytes": fmean(size_of(CHUNKS, chunk_row(row, vector)) for row, vector in rows.values()),
        "distinct_terms_per_chunk": fmean(len(set(row.lexical.split())) for row, _ in rows.values()),
        "chunks_per_document": len(filler.chunk_ids) / filler.documents,
        "bytes_per_chunk": {topic: size / len(filler.chunk_ids) for topic, size in filler.topic_bytes.items()},
    }


async def _point(ground: Ground, stack: Stack, filler: Filler, size: int, asked: Sequence[str]) -> Figures:
    held = len(filler.chunk_ids)
    with (
        ground.step(f"filling the store alone to {size:,} chunks", size - held) as advance,
        cpu_spent(stack.pids) as cpu_s,
    ):
        seconds = await filler.fill(size, advance)
    written = len(filler.chunk_ids) - held
    return {
        "chunks": len(filler.chunk_ids),
        "written_per_s": written / seconds,
        "store_cpu_ms_per_chunk": 1000 * cpu_s["store"] / written,
        "disk_bytes": _size(stack.state.directory / "store"),
        "memory_bytes": memory(stack.pids["store"]).rss,
        **await _timed(filler, asked, QUICK_REPEATED if ground.quick else REPEATED),
        "lexical_cpu_ms": await _lexical_cpu_ms(stack, filler, asked, QUICK_SEARCHED if ground.quick else SEARCHED),
    }


async def _timed(filler: Filler, asked: Sequence[str], number: int) -> Figures:
    """Time each call, sequentially; written rows are copies of existing ones, which are deleted again."""
    index, vectors = filler.index, (await filler.embedder.embed_queries(asked)).vectors
    terms = [analyse_text(text, language="de") for text in asked]
    rows = await _rows(index, filler.chunk_ids[:ROWS])
    roots = await index.roots(filler.root_ids[:number])
    contents, embedded = [row for row, _ in rows.values()], np.vstack([vector for _, vector in rows.values()])
    written: list[RowId] = []

    async def insert() -> None:
        copies = [replace(row, row_id=RowId(f"{row.row_id}{len(written)}")) for row in contents]
        written.extend(row.row_id for row in copies)
        await index.insert(copies, embedded)

    calls: dict[str, Callable[[int], Awaitable[object]]] = {
        "dense_ms": lambda turn: index.dense(vectors[[turn]], [EVERYTHING], limit=DEPTH, strong=True),
        "lexical_ms": lambda turn: index.lexical([terms[turn]], [EVERYTHING], limit=DEPTH, strong=True),
        "rows_ms": lambda _: insert(),
        "root_ms": lambda turn: index.commit([roots[filler.root_ids[turn]]], []),
        "left_ms": lambda turn: _before_sweeping(index, filler.root_ids[turn]),
    }
    found = {name: await _median_ms(call, min(number, len(asked), len(roots))) for name, call in calls.items()}
    await index.delete(written)
    return found


async def _rows(index: MilvusIndex, chunk_ids: Sequence[ChunkId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
    """Return the rows of chunks."""
    stored = await index.stored(chunk_ids)
    return await index.fetch([row.row_id for rows in stored.values() for row in rows])


async def _before_sweeping(index: MilvusIndex, root_id: RootId) -> None:
    """Run the reads that determine the obsolete rows of a document."""
    await index.commits([root_id])
    await asyncio.gather(index.page_heads([root_id]), index.rows_of([root_id]))


async def _lexical_cpu_ms(stack: Stack, filler: Filler, asked: Sequence[str], number: int) -> float:
    """Return the CPU milliseconds of the store per BM25 search, independent of other load."""
    terms = [analyse_text(text, language="de") for text in asked]
    with cpu_spent(stack.pids) as cpu_s:
        for text in islice(cycle(terms), number):
            await filler.index.lexical([text], [EVERYTHING], limit=DEPTH, strong=True)
    return 1000 * cpu_s["store"] / number


async def _median_ms(call: Callable[[int], Awaitable[object]], number: int) -> float:
    """Return the median duration of the calls in milliseconds, after one warm-up call."""
    await call(0)
    times = []
    for turn in range(number):
        started = time.perf_counter()
        await call(turn)
        times.append((time.perf_counter() - started) * 1000)
    return median(times)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def fits(figures: Figures) -> dict[str, Fit]:
    """Return the fitted growth of each figure of the store."""
    points = figures["store"]["points"]
    sizes = [point["chunks"] for point in points]
    return {name: fit(sizes, [point[name] for point in points]) for name in GROWING}


def tables(figures: Figures) -> list[Table]:
    """Return tables of the pipeline with its model, the store alone, and the growth of the store."""
    return [_pipeline_table(figures["pipeline"]), _store_table(figures["store"]), _fits_table(fits(figures))]


def _pipeline_table(runs: Sequence[Figures]) -> Table:
    table = Table(
        title="The whole pipeline with its model",
        caption="CPU in ms per chunk, by process. A row measures the growth from the size before. The embed workers "
        "share the cores; embed CPU includes their own work beside the model.",
    )
    names = ("chunk-contextualise", "embed", "store", "broker")
    columns = ("embed workers", "to chunks", "chunks/s", "tokens/s", "embed CPU µs/token", *names, "query p50 ms")
    for column in (*columns, "retrieve CPU ms/query"):
        table.add_column(column, justify="right")
    for run in runs:
        table.add_row(
            *(
                str(run["embed_workers"]),
                f"{run['size']:,}",
                f"{run['chunks_per_s']:.0f}",
                f"{run['tokens_per_s']:,.0f}",
            ),
            f"{run['embed_cpu_us_per_token']:.0f}",
            *(f"{run['cpu_ms_per_chunk'][name]:.2f}" for name in names),
            *(f"{run['question_ms']['p50']:.0f}", f"{run['cpu_ms_per_question']['retrieve']:.0f}"),
        )
    return table


def _store_table(store: Figures) -> Table:
    table = Table(
        title="The store alone, filled by the indexer with vectors of a fake model",
        caption=f"{store['dim']} dimensions; {store['row_bytes']:.0f} bytes per row as sent. Times in ms: medians, "
        f"one call at a time: searches {DEPTH} deep; {ROWS} chunk rows; one root; rows of one document.",
    )
    columns = ("chunks", "written/s", "store CPU ms/chunk", "disk B/chunk", "memory B/chunk", "memory MiB")
    for column in (*columns, *TIMED.values(), "CPU of BM25"):
        table.add_column(column, justify="right")
    for point in store["points"]:
        chunks = point["chunks"]
        table.add_row(
            *(f"{chunks:,}", f"{point['written_per_s']:.0f}", f"{point['store_cpu_ms_per_chunk']:.2f}"),
            *(f"{point['disk_bytes'] / chunks:,.0f}", f"{point['memory_bytes'] / chunks:,.0f}"),
            f"{point['memory_bytes'] / MIB:,.0f}",
            *(f"{point[name]:.1f}" for name in (*TIMED, "lexical_cpu_ms")),
        )
    return table


def _fits_table(found: dict[str, Fit]) -> Table:
    table = Table(
        title="How the store grows with n chunks",
        caption="The better fit of two laws by least squares, with 95 % intervals of b; extrapolated beyond the sizes.",
    )
    for column in ("figure", "law", "b", "b within"):
        table.add_column(column, justify="left" if column in {"figure", "law"} else "right")
    for name, fitted in found.items():
        low, high = fitted.b_within
        numbers = (f"{fitted.b:.3g}", f"{low:.3g} … {high:.3g}")
        table.add_row(GROWING[name], fitted.law, *numbers)
    return table


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw times and bytes by size, with fits dashed."""
    found = fits(figures)
    points = figures["store"]["points"]
    sizes = [point["chunks"] for point in points]

    def series(names: Iterable[str], unit: float = 1.0) -> dict[str, list[tuple[float, float]]]:
        return {
            label: line
            for name in names
            for label, line in (
                (GROWING[name], [(point["chunks"], point[name] / unit) for point in points]),
                (f"fit: {GROWING[name]}", [(size, found[name].at(size) / unit) for size in sizes]),
            )
        }

    times, bytes_ = series(TIMED), series(("disk_bytes", "memory_bytes"), MIB)
    return [
        lines(
            folder / "growth-times.png",
            times,
            title="Calls to the store by size; dashed: the fitted law",
            x="chunks in the store",
            y="ms, median",
            logarithmic=(True, True),
            dashed=[label for label in times if label.startswith("fit: ")],
        ),
        lines(
            folder / "growth-bytes.png",
            bytes_,
            title="Disk and memory of the store by size; dashed: the fitted law",
            x="chunks in the store",
            y="MiB",
            logarithmic=(True, True),
            dashed=[label for label in bytes_ if label.startswith("fit: ")],
        ),
    ]
