"""Cost of the pipeline relative to its model, by process and topic, and of edits relative to first indexing."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from random import Random
from statistics import fmean

from rich.table import Table

from bench.pipeline.corpus import Words, seeded, some, text_of
from bench.pipeline.ground import (
    BENCHMARK,
    Advance,
    Figures,
    Ground,
    Published,
    Stack,
    outliner,
    percentiles,
    publish,
)
from bench.pipeline.plots import bars
from bench.pipeline.processes import cpu_spent
from freki.infra.cores import usable_cores
from freki.infra.kafka import Reader
from freki.infra.models import OnnxEmbedder
from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.packing import pack
from freki.infra.models.session import Model, open_model
from freki.infra.settings import Settings
from freki.operators.breadcrumb import breadcrumb, with_context
from freki.schemas import DocumentChange, DocumentId, TenantId
from freki.schemas.names import record
from freki.streams.wire.from_settings import topics_of

TITLE = "Ingest: the pipeline beside its bare model, and the cost of an edit"
CHARACTERS, QUICK_CHARACTERS = 1_500_000, 60_000
SLICE_TEXTS = 64
"""Texts per model call: about a batch of the embed stage, 8192 tokens."""
LARGE, QUICK_LARGE = 300_000, 30_000
"""Length of the edited document, in characters."""
LOOKED_AT = 200
"""Number of documents among which the longest is chosen."""
EDITS, QUICK_EDITS = 15, 3
EDITED = TenantId("bench-edits")
CHANGED_WORDS = 0.5
"""Share of exchanged words in an edited paragraph."""
LEAST_WORDS = 10
"""Minimum length of an edited paragraph in words, to exclude headings."""
MODEL = "for comparison: the model alone"
ONE_CALL_TOKENS = 2048
"""Tokens per batch of the comparison with one call of all threads at a time."""


async def measure(ground: Ground) -> Figures:
    """Measure on an empty index, after one warm-up document."""
    changes = list(some(ground.corpus.documents(), characters=QUICK_CHARACTERS if ground.quick else CHARACTERS))
    texts = await _texts(ground.settings, changes)
    async with OnnxEmbedder(ground.settings.models) as embedder, ground.open_stack() as stack:
        await publish(stack.settings, [replace(changes[0], tenant=EDITED)])
        tokens = sum(embedder.count_tokens(texts))
        halves = texts[::2], texts[1::2]
        one_call = await asyncio.to_thread(_one_call_model, ground.settings)
        with ground.step("texts through the bare model", 2 * len(texts)) as advance:
            # Two halves each, in turn: the load of the machine changes.
            first = await _bare(embedder, halves[0], advance), await _one_call(one_call, halves[0], advance)
            run = await _pipeline(ground, stack, changes)
            last = await _bare(embedder, halves[1], advance), await _one_call(one_call, halves[1], advance)
        edits = await _edits(ground, stack)
    bare, one_call_spent = (one + other for one, other in zip(first, last, strict=True))
    return {
        "documents": len(changes),
        "characters": sum(len(text_of(change)) for change in changes),
        "chunks": len(texts),
        "chunks_embedded": sum(outcome.embedded for outcome in run.published.outcomes),
        "tokens": tokens,
        "seconds": run.published.seconds,
        "one_call_tokens_per_s": tokens / one_call_spent.seconds,
        "bare_tokens_per_s": tokens / bare.seconds,
        "pipeline_tokens_per_s": tokens / run.published.seconds,
        "ratio": bare.seconds / run.published.seconds,
        "cpu_us_per_token": {
            "one call at a time": 1e6 * one_call_spent.cpu_s / tokens,
            "model alone": 1e6 * bare.cpu_s / tokens,
            "pipeline": 1e6 * sum(run.cpu_s.values()) / tokens,
        },
        "chunks_per_s": len(texts) / run.published.seconds,
        "documents_per_s": len(changes) / run.published.seconds,
        "cpu_ms_per_chunk": {
            **{name: 1000 * seconds / len(texts) for name, seconds in run.cpu_s.items()},
            MODEL: 1000 * bare.cpu_s / len(texts),
        },
        "bytes_per_chunk": {topic: size / len(texts) for topic, size in run.topic_bytes.items()},
        "edits": edits,
    }


async def _texts(settings: Settings, changes: Sequence[DocumentChange]) -> list[str]:
    """Return the texts that the pipeline will embed."""
    async with outliner(settings) as outline:
        outlines = [await outline(change, text_of(change)) for change in changes]
    return [with_context(breadcrumb(each.name, chunk), chunk.text) for each in outlines for chunk in each.chunks]


@dataclass(slots=True)
class Spent:
    """Time spent within a context."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """CPU time of this process, all threads, in seconds."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(seconds=self.seconds + other.seconds, cpu_s=self.cpu_s + other.cpu_s)


@contextmanager
def _spent() -> Iterator[Spent]:
    spent = Spent(seconds=-time.perf_counter(), cpu_s=-time.process_time())
    yield spent
    spent.seconds += time.perf_counter()
    spent.cpu_s += time.process_time()


async def _bare(embedder: OnnxEmbedder, texts: Sequence[str], advance: Advance) -> Spent:
    rest = iter(texts)
    with _spent() as spent:
        while piece := list(islice(rest, SLICE_TEXTS)):
            await embedder.embed_passages(piece)
            advance(len(piece))
    return spent


def _one_call_model(settings: Settings) -> Model:
    models = settings.models
    directory = obtain(models, models.embedder, ModelKind.EMBEDDER)
    return open_model(directory, threads=models.threads or usable_cores())


async def _one_call(model: Model, texts: Sequence[str], advance: Advance) -> Spent:
    """Embed texts by one call of all threads at a time, in large batches: how an engine is often called."""
    rest = iter(texts)
    with _spent() as spent:
        while piece := [model.manifest.passage_prefix + text for text in islice(rest, SLICE_TEXTS)]:
            encodings = await asyncio.to_thread(model.encode, piece)
            for batch in pack(list(map(len, encodings)), budget=ONE_CALL_TOKENS):
                await asyncio.to_thread(model.passages, [encodings[index] for index in batch], [0] * len(batch))
            advance(len(piece))
    return spent


@record
class Run:
    """Resources used by the pipeline for a run of documents."""

    published: Published
    cpu_s: dict[str, float]
    topic_bytes: dict[str, int]


async def _pipeline(ground: Ground, stack: Stack, changes: Sequence[DocumentChange]) -> Run:
    bytes_before = await _topic_bytes(stack.settings)
    with (
        ground.step("documents through the pipeline", len(changes)) as advance,
        cpu_spent(stack.pids) as cpu_s,
        _spent() as own,
    ):
        published = await publish(stack.settings, changes, advance=advance)
    bytes_after = await _topic_bytes(stack.settings)
    return Run(
        published=published,
        cpu_s={**cpu_s, BENCHMARK: own.cpu_s},
        topic_bytes={topic: bytes_after[topic] - bytes_before[topic] for topic in bytes_after},
    )


async def _topic_bytes(settings: Settings) -> dict[str, int]:
    """Return bytes of keys, values and headers on the ingest topics, as consumed."""
    topics = topics_of(settings)
    sizes = {}
    for topic in (topics.documents, *topics.chunks.values(), *topics.contextual_chunks.values(), topics.outcomes):
        async with Reader(settings.kafka, topic.name, start="earliest") as reader:
            sizes[topic.name] = 0
            async for stored in reader.until_end():
                headers = sum(len(name) + len(value) for name, value in stored.headers)
                sizes[topic.name] += len(stored.key or b"") + len(stored.value or b"") + headers
    return sizes


def paragraph_changed(text: str, random: Random) -> str:
    """Exchange words within one paragraph of running text. Raises ValueError if there is none."""
    paragraphs = text.split("\n\n")
    running = [place for place, paragraph in enumerate(paragraphs) if len(paragraph.split()) > LEAST_WORDS]
    if not running:
        raise ValueError("no paragraph is long enough")
    place, words = random.choice(running), Words(text)
    paragraphs[place] = words.exchanged(paragraphs[place], random, share=CHANGED_WORDS)
    return "\n\n".join(paragraphs)


def paragraph_inserted(text: str, random: Random) -> str:
    """Insert a paragraph near the beginning, which shifts all following text."""
    first, _, rest = text.partition("\n\n")
    words = text.split()
    return "\n\n".join([first, " ".join(random.sample(words, min(60, len(words)))), rest])


def unchanged(text: str, _random: Random) -> str:
    """Return the text unchanged, like a producer that republishes everything nightly."""
    return text


KINDS: dict[str, Callable[[str, Random], str]] = {
    "one paragraph changed": paragraph_changed,
    "a paragraph inserted at the beginning": paragraph_inserted,
    "the same content again": unchanged,
}


async def _edits(ground: Ground, stack: Stack) -> Figures:
    """Edit a large document repeatedly; each edit waits for the receipt of the previous one."""
    edits = QUICK_EDITS if ground.quick else EDITS
    change, random, versions = _large(ground), seeded(ground.seed, "edits"), count(1)
    text = text_of(change)

    async def index(content: str) -> Published:
        return await publish(stack.settings, [replace(change, version=next(versions), content=content)])

    first = await index(text)
    kinds = {}
    with ground.step("edits of a large document", edits * len(KINDS)) as advance:
        for kind, edit in KINDS.items():
            runs = []
            for _ in range(edits):
                text = edit(text, random)
                runs.append(await index(text))
                advance(1)
            kinds[kind] = {
                "edits": edits,
                "embedded": fmean(run.outcomes[0].embedded for run in runs),
                "share_embedded": fmean(run.outcomes[0].embedded / max(1, run.chunks) for run in runs),
                "ms": percentiles([run.seconds * 1000 for run in runs], (50, 95)),
            }
    return {
        "characters": len(text_of(change)),
        "chunks": first.chunks,
        "first_ms": first.seconds * 1000,
        "kinds": kinds,
    }


def _large(ground: Ground) -> DocumentChange:
    """Return a document of that size: the longest of the first ones, repeated if too short."""
    longest = max(islice(ground.corpus.documents(EDITED), LOOKED_AT), key=lambda change: len(text_of(change)))
    size, text = QUICK_LARGE if ground.quick else LARGE, text_of(longest)
    words, parts = Words(text), [text]
    while sum(map(len, parts)) < size:
        parts.append(words.exchanged(text, seeded(ground.seed, "large", len(parts)), share=CHANGED_WORDS))
    return replace(longest, document_id=DocumentId(f"{longest.document_id}/large"), content="\n\n".join(parts)[:size])


def tables(figures: Figures) -> list[Table]:
    """Return tables of throughput, cost by process, cost by topic and cost of edits."""
    return [_speed(figures), _cpu(figures), _bytes(figures), _edit_costs(figures["edits"])]


def _speed(figures: Figures) -> Table:
    table = Table(
        title="The same texts through the model alone and through the whole pipeline",
        caption=f"{figures['documents']:,} documents, {figures['characters']:,} characters, "
        f"{figures['tokens']:,} tokens; {figures['chunks_embedded']:,} of {figures['chunks']:,} chunks were embedded",
    )
    table.add_column("figure")
    table.add_column("value", justify="right")
    one_call, bare = figures["one_call_tokens_per_s"], figures["bare_tokens_per_s"]
    table.add_row("model alone, one call of all threads at a time, tokens/s", f"{one_call:,.0f}")
    table.add_row("model alone, as the pipeline calls it, tokens/s", f"{bare:,.0f}")
    table.add_row("the latter / the former", f"{bare / one_call:.2f}", style="bold")
    table.add_row("pipeline, tokens/s", f"{figures['pipeline_tokens_per_s']:,.0f}")
    table.add_row("pipeline / model alone", f"{figures['ratio']:.2f}", style="bold")
    for name, microseconds in figures["cpu_us_per_token"].items():
        table.add_row(f"CPU µs per token, {name}", f"{microseconds:,.0f}")
    table.add_row("pipeline, chunks/s", f"{figures['chunks_per_s']:,.1f}")
    table.add_row("pipeline, documents/s", f"{figures['documents_per_s']:,.2f}")
    return table


def _cpu(figures: Figures) -> Table:
    table = Table(
        title="CPU time per chunk by process, while indexing",
        caption="including the idle load of a process, which is all that `retrieve` has here",
    )
    table.add_column("process")
    table.add_column("CPU ms per chunk", justify="right")
    spent = figures["cpu_ms_per_chunk"]
    for name, milliseconds in spent.items():
        if name != MODEL:
            table.add_row(name, f"{milliseconds:.2f}")
    table.add_row("all", f"{sum(spent.values()) - spent[MODEL]:.2f}", style="bold")
    table.add_row(MODEL, f"{spent[MODEL]:.2f}", style="dim")
    return table


def _bytes(figures: Figures) -> Table:
    table = Table(title="Bytes per chunk on each topic", caption="keys, values and headers, before compression")
    table.add_column("topic")
    table.add_column("bytes per chunk", justify="right")
    for topic, size in figures["bytes_per_chunk"].items():
        table.add_row(topic, f"{size:,.0f}")
    table.add_row("all", f"{sum(figures['bytes_per_chunk'].values()):,.0f}", style="bold")
    return table


def _edit_costs(edits: Figures) -> Table:
    table = Table(
        title=f"Edits of a document of {edits['characters']:,} characters, {edits['chunks']:,} chunks",
        caption="from event to receipt; embedded: chunks that went through the model",
    )
    table.add_column("event", no_wrap=True)
    for column in ("embedded", "share", "p50 ms", "p95 ms", "of first"):
        table.add_column(column, justify="right")
    first_ms = edits["first_ms"]
    table.add_row("first indexing", f"{edits['chunks']}", "100 %", f"{first_ms:,.0f}", "", "")
    for kind, cost in edits["kinds"].items():
        p50, p95 = cost["ms"]["p50"], cost["ms"]["p95"]
        shares = f"{cost['share_embedded']:.1%}".replace("%", " %"), f"{p50 / first_ms:.1%}".replace("%", " %")
        table.add_row(kind, f"{cost['embedded']:.1f}", shares[0], f"{p50:,.0f}", f"{p95:,.0f}", shares[1])
    return table


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw one plot per table."""
    edits = figures["edits"]
    return [
        bars(
            folder / "ingest-speed.png",
            {
                "tokens": {
                    "model alone": figures["bare_tokens_per_s"],
                    "whole pipeline": figures["pipeline_tokens_per_s"],
                }
            },
            title=f"Ingest: {figures['ratio']:.0%} of the speed of the bare model (higher is better)",
            value="tokens per second",
        ),
        bars(
            folder / "ingest-cpu.png",
            {"per chunk": figures["cpu_ms_per_chunk"]},
            title="Ingest: CPU time per chunk by process (lower is better)",
            value="CPU time per chunk, ms",
        ),
        bars(
            folder / "ingest-bytes.png",
            {"per chunk": figures["bytes_per_chunk"]},
            title="Ingest: bytes per chunk on each topic (lower is better)",
            value="bytes per chunk",
        ),
        bars(
            folder / "ingest-edit.png",
            {
                "median time": {
                    f"first indexing of {edits['chunks']:,} chunks": edits["first_ms"],
                    **{kind: cost["ms"]["p50"] for kind, cost in edits["kinds"].items()},
                }
            },
            title="Edits of a large document, from event to receipt (lower is better)",
            value="milliseconds from event to receipt",
        ),
    ]
