"""Basis of a plan: each number with its unit, origin and source."""

from collections.abc import Iterator
from dataclasses import fields, replace
from enum import StrEnum
from typing import NamedTuple

from bench.pipeline.fit import Law, fitted
from bench.pipeline.ground import Figures
from freki.schemas.names import record


class Origin(StrEnum):
    """Origin of a number."""

    MEASURED = "measured"
    DOCUMENTED = "documented"
    ASSUMED = "assumed"


class Known(NamedTuple):
    """Number with its origin."""

    value: float
    unit: str
    origin: Origin
    source: str


def documented(value: float, unit: str, source: str) -> Known:
    """Return a number from documentation or source code."""
    return Known(value, unit, Origin.DOCUMENTED, source)


def assumed(value: float, unit: str, reason: str) -> Known:
    """Return an assumed, unmeasured number with the reason for its choice."""
    return Known(value, unit, Origin.ASSUMED, reason)


@record
class Basis:
    """All numbers of the model except loads and prices. CPU is that of one core of the measured machine."""

    chunk_cpu_ms: Known
    embed_cpu_ms: Known
    retrieve_cpu_ms: Known
    lexical_cpu_ms_per_million: Known
    embedded_per_change: Known
    chunks_per_document: Known
    dimensions: Known
    row_bytes: Known
    terms_per_chunk: Known
    document_bytes: Known
    work_bytes: Known
    answer_bytes: Known
    dense_cpu_ms_per_million: Known = documented(
        8 / 7153 * 1000,
        "core-ms per query and million vectors of 128 dimensions",
        "Milvus 2.2 Benchmark Test Report: 7,153 queries/s on 8 cores, 1 M vectors, HNSW M 8, ef 64",
    )
    dense_depth_factor: Known = assumed(
        200 / 64, "times", "Freki asks 200 deep, so ef 200 in place of 64; taken as linear"
    )
    dense_dim_factor: Known = assumed(3.0, "times", "384 dimensions in place of 128; taken as linear")
    sq8_cpu_factor: Known = assumed(4.0, "times HNSW", "IVF scans whole lists; depends on nprobe and the recall wanted")
    diskann_cpu_factor: Known = assumed(3.0, "times HNSW", "reads from NVMe and compares full vectors again")
    hnsw_links: Known = documented(
        36, "links of 4 bytes per vector", "Milvus AUTOINDEX: HNSW with M 18, so 2·M at the base"
    )
    sq8_share: Known = documented(0.28, "of the vector's bytes", "Milvus Sizing Tool: IVF_SQ8 takes 70 to 75 % less")
    diskann_pq_share: Known = documented(0.125, "of the vector's bytes", "Milvus knowhere: pq_code_budget_gb_ratio")
    diskann_cache_share: Known = documented(
        0.1, "of the vector's bytes", "Milvus knowhere: search_cache_budget_gb_ratio"
    )
    diskann_links: Known = documented(56, "links of 4 bytes per vector", "Milvus knowhere: DISKANN max_degree")
    posting_bytes: Known = assumed(
        8, "bytes per distinct term", "a 4-byte row number and a 4-byte weight, uncompressed"
    )
    key_bytes: Known = assumed(
        150, "bytes per chunk", "primary key of 32 characters, its map, and the index on root_id"
    )
    cached_rows: Known = assumed(0.1, "of the row bytes", "fields are memory-mapped from NVMe; a tenth stays in RAM")
    memory_fill: Known = assumed(
        0.75, "of RAM", "Milvus Limits allow 0.9; the rest is for growing and merging segments"
    )
    replicas: Known = assumed(2, "copies in the query nodes", "one may fail while answers go on")
    cpu_fill: Known = assumed(0.6, "of a core", "above that, queues make tail latency grow fast")
    build_core_ms: Known = assumed(
        5, "core-ms per vector", "HNSW with efConstruction 240, or DiskANN, on 384 dimensions"
    )
    rewrites: Known = assumed(3, "times", "a vector is indexed again when its segment is merged")
    shard_rows: Known = documented(1e9, "vectors", "Zilliz on tuning Milvus: at most 1 B vectors in a shard")
    shard_mb_per_s: Known = documented(10, "MB/s", "Zilliz on tuning Milvus: at most 10 MB/s of writes into a shard")
    shards_per_collection: Known = documented(8, "shards", "Zilliz on tuning Milvus: no more than 8; Milvus Limits: 16")
    object_copies: Known = assumed(2, "times", "binlogs and indexes of merged segments stay until they are collected")
    kafka_replication: Known = assumed(3, "copies", "survives one broker while another is maintained")
    kafka_uncompacted: Known = assumed(
        0.5, "of the compacted size", "dirty share before the cleaner runs: Kafka's default"
    )
    work_days: Known = documented(7, "days", "freki/streams/topics.py: chunks and contextual-chunks")
    answer_days: Known = documented(1, "days", "freki/streams/topics.py: queries and contexts")

    def known(self) -> Iterator[tuple[str, Known]]:
        """Yield all numbers by name."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)

    def scaled(self, name: str, factor: float) -> "Basis":
        """Return the basis with one number multiplied."""
        known: Known = getattr(self, name)
        return replace(self, **{name: known._replace(value=known.value * factor)})


def basis_of(found: Figures) -> Basis:
    """Return the basis from the figures of `make bench`, which must include `growth`.

    Uses the largest run with the model and one worker. Raises KeyError if growth is missing.
    """
    growth = found["measurements"]["growth"]["figures"]
    store, run = growth["store"], _largest(growth["pipeline"])
    where = f"growth, to {run['size']:,} chunks"
    alone = f"growth, {store['points'][-1]['chunks']:,} chunks in the store"

    def measured(value: float, unit: str, source: str) -> Known:
        return Known(value, unit, Origin.MEASURED, source)

    topics = store["bytes_per_chunk"]
    return Basis(
        chunk_cpu_ms=measured(run["cpu_ms_per_chunk"]["chunk-contextualise"], "core-ms per chunk", where),
        embed_cpu_ms=measured(run["cpu_ms_per_chunk"]["embed"], "core-ms per chunk", where),
        retrieve_cpu_ms=measured(run["cpu_ms_per_question"]["retrieve"], "core-ms per query", where),
        lexical_cpu_ms_per_million=measured(
            _per_million(store["points"], "lexical_cpu_ms"),
            "core-ms per query and million chunks",
            "growth: slope of the CPU of a BM25 search of Milvus Lite; taken as linear",
        ),
        embedded_per_change=_embedded(found["measurements"].get("freshness", {}).get("figures")),
        chunks_per_document=measured(store["chunks_per_document"], "chunks", alone),
        dimensions=measured(store["dim"], "dimensions", "the embedder"),
        row_bytes=measured(store["row_bytes"], "bytes per chunk row, its vector included", alone),
        terms_per_chunk=measured(store["distinct_terms_per_chunk"], "distinct terms", alone),
        document_bytes=measured(topics["documents"], "bytes per chunk on the documents topic", alone),
        work_bytes=measured(
            topics["chunks"] + topics["contextual-chunks"], "bytes per chunk on both chunk topics", alone
        ),
        answer_bytes=measured(run["answer_bytes"], "bytes per answer", where),
    )


def _largest(runs: list[Figures]) -> Figures:
    alone = [run for run in runs if run["embed_workers"] == 1]
    return max(alone, key=lambda run: run["size"])


def _per_million(points: list[Figures], name: str) -> float:
    slope = fitted(Law.LINEAR, [point["chunks"] for point in points], [point[name] for point in points]).b
    return max(0.0, slope) * 1e6


def _embedded(freshness: Figures | None) -> Known:
    """Return the mean number of embedded chunks per edit of the storms; an assumption without storms."""
    storms = [each for each in (freshness or {}).get("scenarios", ()) if "embedded_per_edit" in each["background"]]
    if not freshness or not storms:
        return assumed(3, "chunks per change", "a changed sentence, its section and the summary above")
    edits = [each["seconds"] * each["background"]["done_per_s"] for each in storms]
    embedded = [number * each["background"]["embedded_per_edit"] for number, each in zip(edits, storms, strict=True)]
    kind = "recorded" if freshness["recorded"] else "made-up"
    source = f"freshness: about {sum(edits):,.0f} {kind} edits in storms"
    return Known(sum(embedded) / sum(edits), "chunks per change", Origin.MEASURED, source)
