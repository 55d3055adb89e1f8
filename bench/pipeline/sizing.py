"""Sizing of a Milvus cluster for an index of any size: workers, topics, nodes, storage, and euros per month.

Pure: the same load and basis yield the same plan. It extrapolates; docs/scaling.md lists the limits.
"""

import math
from enum import StrEnum
from typing import NamedTuple

from bench.pipeline.basis import Basis
from freki.schemas.names import record

HOURS_PER_MONTH = 730
DAY_S = 86_400
GIB, TB, MILLION = 2**30, 1e12, 1e6
LEAST_WORKERS = 2
LEAST_BROKERS = 3
BROKER_TB = 8.0
"""Maximum data of one broker in TB: more makes its replacement slow."""
ROOM_TO_GROW = 1.5
PARTITIONS_STEP = 12
"""Partitions are multiples of this number, which has many divisors, for an even split among workers."""
MAX_PARTITIONS = 1_000
"""Maximum number of partitions per topic in the settings."""
PROXY_QUERIES_PER_S = 500


class Index(StrEnum):
    """Type of the vector index."""

    HNSW = "HNSW"
    IVF_SQ8 = "IVF_SQ8"
    DISKANN = "DISKANN"


@record
class Load:
    """Load of the cluster."""

    chunks: float
    queries_per_s: float
    changes_per_s: float
    """Changed documents per second; each is chunked completely, but only its new chunks are embedded."""
    searched_share: float = 1.0
    """Share of the index searched by a query: 1, or with a partition key and many tenants Milvus' default of 1/16."""


@record
class Prices:
    """Prices in euros: assumptions close to public list prices without a commitment; replace them by your own."""

    as_of: str = "November 2026"
    vcpu_hour: float = 0.040
    gib_hour: float = 0.005
    """Price of a GiB of RAM per hour."""
    nvme_tb_month: float = 80.0
    """Price of a TB of local disk per month."""
    block_tb_month: float = 90.0
    """Price of a TB of network disk per month."""
    object_tb_month: float = 23.0


class Shape(NamedTuple):
    """Resources of a machine or of a process."""

    vcpu: float
    gib: float
    nvme_tb: float = 0.0


WORKER = Shape(1, 2)
"""Beside a parser process of up to FREKI_PARSING__MAX_MEMORY_MB."""
MODEL_WORKER = Shape(2, 2)
"""Shape as measured: a model on 2 cores."""
BROKER = Shape(4, 16)
QUERY_NODE = Shape(16, 128, 3.8)
DATA_NODE = Shape(8, 32)
COORDINATOR = Shape(4, 16)
PROXY = Shape(4, 8)
ETCD = Shape(2, 8)


@record
class Item:
    """Line of a plan."""

    name: str
    count: int
    shape: Shape = Shape(0, 0)
    block_tb: float = 0.0
    """Network disk of all together, in TB."""
    object_tb: float = 0.0
    because: str

    def euros(self, prices: Prices) -> float:
        """Return the euros per month."""
        machine = (self.shape.vcpu * prices.vcpu_hour + self.shape.gib * prices.gib_hour) * HOURS_PER_MONTH
        machine += self.shape.nvme_tb * prices.nvme_tb_month
        return self.count * machine + self.block_tb * prices.block_tb_month + self.object_tb * prices.object_tb_month


@record
class Plan:
    """Resources for a load."""

    load: Load
    index: Index
    items: tuple[Item, ...]
    partitions: int
    """Number of partitions of each topic."""
    collections: int
    """Number of collections of chunks; more than one need an assignment of tenants."""
    fill_core_hours: float
    """Core hours of chunk and embed workers to index all chunks once."""
    notes: tuple[str, ...]

    def euros(self, prices: Prices) -> float:
        """Return the euros per month."""
        return math.fsum(item.euros(prices) for item in self.items)


def plan(load: Load, index: Index, basis: Basis) -> Plan:
    """Return the plan of a load. No figure decreases as chunks, queries or changes grow.

    Raises ValueError for negative rates, no chunks, or a searched share outside (0, 1].
    """
    _check(load)
    workers = _workers(load, basis)
    most = max(item.count for item in workers)
    partitions = PARTITIONS_STEP * math.ceil(ROOM_TO_GROW * most / PARTITIONS_STEP)
    shards = _shards(load, basis)
    collections = math.ceil(shards / basis.shards_per_collection.value)
    items = (
        *workers,
        _kafka(load, basis),
        _query_nodes(load, index, basis),
        _data_nodes(load, basis, shards),
        Item(
            name="Milvus proxies",
            count=max(LEAST_WORKERS, math.ceil(load.queries_per_s / PROXY_QUERIES_PER_S)),
            shape=PROXY,
            because=f"{PROXY_QUERIES_PER_S} queries/s each (assumed)",
        ),
        Item(name="Milvus coordinators", count=2, shape=COORDINATOR, because="one active, one in reserve"),
        Item(name="etcd", count=3, shape=ETCD, because="a majority survives the loss of one"),
        _object_store(load, index, basis),
    )
    fill_ms = load.chunks * (basis.chunk_cpu_ms.value + basis.embed_cpu_ms.value)
    return Plan(
        load=load,
        index=index,
        items=items,
        partitions=partitions,
        collections=collections,
        fill_core_hours=fill_ms / 1000 / 3600,
        notes=tuple(_notes(partitions, shards, collections)),
    )


def _check(load: Load) -> None:
    rates = load.queries_per_s, load.changes_per_s
    if not (1 <= load.chunks < math.inf and all(0 <= rate < math.inf for rate in rates)):
        raise ValueError(f"a load has at least one chunk, and rates of at least 0, all finite: {load}")
    if not 0 < load.searched_share <= 1:
        raise ValueError(f"a query searches a share above 0 and up to 1, not {load.searched_share}")


def _workers(load: Load, basis: Basis) -> list[Item]:
    chunked = load.changes_per_s * basis.chunks_per_document.value
    embedded = load.changes_per_s * basis.embedded_per_change.value
    return [
        _worker("chunk workers", WORKER, chunked * basis.chunk_cpu_ms.value, basis, f"{chunked:,.0f} chunks/s"),
        _worker("embed workers", MODEL_WORKER, embedded * basis.embed_cpu_ms.value, basis, f"{embedded:,.0f} chunks/s"),
        _worker(
            "retrieve workers",
            MODEL_WORKER,
            load.queries_per_s * basis.retrieve_cpu_ms.value,
            basis,
            f"{load.queries_per_s:,.0f} queries/s",
        ),
    ]


def _worker(name: str, shape: Shape, core_ms_per_s: float, basis: Basis, rate: str) -> Item:
    cores = core_ms_per_s / 1000 / basis.cpu_fill.value
    return Item(
        name=name,
        count=max(LEAST_WORKERS, math.ceil(cores / shape.vcpu)),
        shape=shape,
        because=f"{rate} take {cores:,.1f} cores at {basis.cpu_fill.value:.0%}",
    )


def _kafka(load: Load, basis: Basis) -> Item:
    documents = load.chunks * basis.document_bytes.value * (1 + basis.kafka_uncompacted.value)
    worked = load.changes_per_s * basis.chunks_per_document.value * basis.work_bytes.value
    changed = load.changes_per_s * basis.chunks_per_document.value * basis.document_bytes.value
    answered = load.queries_per_s * basis.answer_bytes.value
    kept = documents + DAY_S * (worked * basis.work_days.value + answered * basis.answer_days.value)
    # Not yet compacted: at most a day of changes, plus the dirty share.
    terabytes = (kept + DAY_S * changed) * basis.kafka_replication.value / TB
    return Item(
        name="Kafka brokers",
        count=max(LEAST_BROKERS, math.ceil(terabytes / BROKER_TB)),
        shape=BROKER,
        block_tb=terabytes,
        because=f"{terabytes:,.1f} TB with replicas, {BROKER_TB:.0f} TB on each",
    )


def memory_bytes(index: Index, basis: Basis) -> float:
    """Return the RAM of one chunk in one query node, in bytes, before headroom."""
    vector = 4 * basis.dimensions.value
    vectors = {
        Index.HNSW: vector + 4 * basis.hnsw_links.value,
        Index.IVF_SQ8: vector * basis.sq8_share.value,
        Index.DISKANN: vector * (basis.diskann_pq_share.value + basis.diskann_cache_share.value),
    }[index]
    postings = basis.terms_per_chunk.value * basis.posting_bytes.value
    return vectors + postings + basis.key_bytes.value + basis.row_bytes.value * basis.cached_rows.value


def disk_bytes(index: Index, basis: Basis) -> float:
    """Return the NVMe bytes of one chunk in one query node: memory-mapped rows with vectors, and an index on disk."""
    vector = 4 * basis.dimensions.value
    graph = vector + 4 * basis.diskann_links.value if index is Index.DISKANN else 0.0
    return basis.row_bytes.value + graph


def query_core_s(load: Load, index: Index, basis: Basis) -> float:
    """Return the CPU seconds of the query nodes per query.

    Milvus searches each segment separately, and segments have a maximum size: the cost of a query grows with their
    number, hence linearly with the chunks searched, even if the index of a segment is logarithmic.
    """
    factor = {Index.HNSW: 1.0, Index.IVF_SQ8: basis.sq8_cpu_factor.value, Index.DISKANN: basis.diskann_cpu_factor.value}
    dense = basis.dense_cpu_ms_per_million.value * basis.dense_depth_factor.value * basis.dense_dim_factor.value
    millions = load.chunks * load.searched_share / MILLION
    return millions * (dense * factor[index] + basis.lexical_cpu_ms_per_million.value) / 1000


def _query_nodes(load: Load, index: Index, basis: Basis) -> Item:
    gib = load.chunks * memory_bytes(index, basis) / GIB / basis.memory_fill.value * basis.replicas.value
    nvme_tb = load.chunks * disk_bytes(index, basis) / TB / basis.memory_fill.value * basis.replicas.value
    cores = load.queries_per_s * query_core_s(load, index, basis) / basis.cpu_fill.value
    needs = {
        "memory": gib / QUERY_NODE.gib,
        "disk": nvme_tb / QUERY_NODE.nvme_tb,
        "CPU": cores / QUERY_NODE.vcpu,
        "replicas": basis.replicas.value,
    }
    largest = max(needs, key=lambda need: needs[need])
    return Item(
        name="Milvus query nodes",
        count=math.ceil(needs[largest]),
        shape=QUERY_NODE,
        because=f"by {largest}; {gib:,.0f} GiB RAM, {nvme_tb:,.1f} TB NVMe, {cores:,.0f} cores",
    )


def _shards(load: Load, basis: Basis) -> int:
    by_rows = load.chunks / basis.shard_rows.value
    return max(1, math.ceil(by_rows), math.ceil(_written_mb_per_s(load, basis) / basis.shard_mb_per_s.value))


def _written_mb_per_s(load: Load, basis: Basis) -> float:
    return load.changes_per_s * basis.embedded_per_change.value * basis.row_bytes.value / MILLION


def _data_nodes(load: Load, basis: Basis, shards: int) -> Item:
    built = load.changes_per_s * basis.embedded_per_change.value * basis.rewrites.value
    cores = built * basis.build_core_ms.value / 1000 / basis.cpu_fill.value
    return Item(
        name="Milvus data and streaming nodes",
        count=max(LEAST_WORKERS, math.ceil(cores / DATA_NODE.vcpu) + math.ceil(shards / DATA_NODE.vcpu)),
        shape=DATA_NODE,
        because=f"{cores:,.1f} cores for indexes, {shards} shard(s), {_written_mb_per_s(load, basis):,.1f} MB/s",
    )


def _object_store(load: Load, index: Index, basis: Basis) -> Item:
    graph = 4 * basis.hnsw_links.value if index is Index.HNSW else 4 * basis.diskann_links.value
    indexed = {
        Index.HNSW: 4 * basis.dimensions.value + graph,
        Index.IVF_SQ8: 4 * basis.dimensions.value * basis.sq8_share.value,
        Index.DISKANN: 4 * basis.dimensions.value * (1 + basis.diskann_pq_share.value) + graph,
    }[index]
    postings = basis.terms_per_chunk.value * basis.posting_bytes.value
    terabytes = load.chunks * (basis.row_bytes.value + indexed + postings) * basis.object_copies.value / TB
    return Item(
        name="object store", count=1, object_tb=terabytes, because=f"{terabytes:,.1f} TB: rows and indexes, twice"
    )


def _notes(partitions: int, shards: int, collections: int) -> list[str]:
    notes = []
    if partitions > MAX_PARTITIONS:
        notes.append(f"{partitions:,} partitions: the settings take {MAX_PARTITIONS:,}; split the topics by prefix")
    if shards > 1:
        notes.append(f"{shards} shards: Milvus creates 1 by default, and Freki does not set the number yet")
    if collections > 1:
        notes.append(f"{collections} collections: Freki has one for chunks; several need one Freki each, by tenant")
    return notes


class Sensitive(NamedTuple):
    """Cost of a plan with one number of the basis changed."""

    name: str
    halved: float
    doubled: float


def sensitivity(load: Load, index: Index, basis: Basis, prices: Prices) -> list[Sensitive]:
    """Return the euros per month for each number halved and doubled, largest effect first."""

    def euros(name: str, factor: float) -> float:
        return plan(load, index, basis.scaled(name, factor)).euros(prices)

    found = [Sensitive(name, euros(name, 0.5), euros(name, 2.0)) for name, _ in basis.known()]
    return sorted(found, key=lambda each: (-abs(each.doubled - each.halved), each.name))
