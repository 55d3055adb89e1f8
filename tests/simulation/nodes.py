"""Worker processes: the stages of the pipeline, put together as `freki/streams/app.py` does it."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Protocol, cast

from freki.infra.caches import BoundedCache
from freki.infra.claims import ClaimStore
from freki.infra.models.vectors import VectorCache
from freki.infra.settings import ChunkingSettings, ClaimSettings
from freki.operators.analyse_text import analyse_text
from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextResult,
    ContextualChunkBatch,
    DocumentChange,
    IndexOutcome,
    Timestamp,
)
from freki.schemas.avro.codec import UndecodableError
from freki.schemas.errors import InfraError
from freki.schemas.query_options import QueryOptions
from freki.streams.app import LANES, OVERLAPPING_BATCHES
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue
from freki.streams.deliver.delivery import Delivery
from freki.streams.deliver.intake import Intake, or_tombstone, required
from freki.streams.deliver.lanes import Lane, in_lane, lanes_of
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.deliver.progress import Progress
from freki.streams.deliver.reject import reject_with_receipt
from freki.streams.deliver.replies import Replies
from freki.streams.deliver.stage import Batching, Stage
from freki.streams.ingest.chunk import Chunker, chunk_handler
from freki.streams.ingest.contextualise import contextualise_handler
from freki.streams.ingest.embed import embed_handler
from freki.streams.ingest.index import Indexer, IndexRules
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import UNTRACED
from freki.streams.retrieve.cache.known_rows import KnownRows, RowCaches
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels, Stores
from freki.streams.retrieve.handler import QueryHandler, noted
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.trace import Models, QueryTrace
from freki.streams.wire.parts import QUERY_WAIT_S
from freki.streams.wire.query_parts import KEPT_S, MANIFEST_BYTES
from freki.streams.wire.rules import limits_of
from tests.parsing import parse_here
from tests.simulation import adapter
from tests.simulation.codecs import CODECS
from tests.simulation.consumer import Consumer
from tests.simulation.embedder import SlowEmbedder
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.producer import Producer
from tests.simulation.scenario import UNREADABLE
from tests.simulation.store import StoreClient

DRAIN_S = 20.0
STOP_S = 10.0
PART_CHUNKS = 4
SLICE_TOKENS = 60
GENERATION = "g1"
BATCH_WAIT_S = 0.02
TOPICS = (
    "documents",
    *(in_lane("chunks", lane) for lane in Lane),
    *(in_lane("contextual-chunks", lane) for lane in Lane),
    "outcomes",
    "queries",
    "contexts",
    "dead-letters",
)
_METERS = Meters()
_OPTIONS = QueryOptions(widen=())
_ANALYSED = lru_cache(maxsize=50_000)(analyse_text)


class Surroundings(Protocol):
    """What a worker is connected to."""

    loop: SimulatedLoop
    batch_events: int
    bounded: bool
    token_s: float

    def new_producer(self, process: Process) -> Producer: ...
    def new_store(self, process: Process | None = None) -> StoreClient: ...
    def new_consumer(
        self, process: Process, group: str, topics: Sequence[str], stages: Sequence[Stage]
    ) -> Consumer: ...
    def now(self) -> Timestamp: ...


@dataclass(slots=True)
class Running:
    """A stage with the consumer's topic that it reads."""

    stage: Stage
    delivery: Delivery[Any]
    group: str
    topic: str
    batching: Batching


@dataclass(slots=True)
class Worker:
    """One life of a worker process."""

    process: Process
    names: Collection[str]
    surroundings: Surroundings
    clock_ms: int = 0
    """How far its clock is ahead."""
    release: int = 0
    reads_from_s: float = 0.0
    """It cannot decode changes before."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    consumers: list[Consumer] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    failure: BaseException | None = None

    async def run(self) -> None:
        """Work until `stop` is set or a stage fails; then finish what is at hand, commit and leave."""
        apps: dict[str, Any] = {}
        running = list(self._made(apps))
        self.stages = [each.stage for each in running]
        for group in dict.fromkeys(each.group for each in running):
            own = [each for each in running if each.group == group]
            topics = [each.topic for each in own]
            stages = [each.stage for each in own]
            self.consumers.append(self.surroundings.new_consumer(self.process, group, topics, stages))
        tasks = [asyncio.create_task(self._consume(each)) for each in running]
        stopped = asyncio.create_task(self.stop.wait())
        for consumer in self.consumers:
            consumer.start()
        beside = [task for consumer in self.consumers for task in consumer.failed]
        done, _ = await asyncio.wait({stopped, *tasks, *beside}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            self.failure = task.exception() or RuntimeError("a stage ended")
        await _within(DRAIN_S, [stage.drain() for stage in self.stages])
        for app in apps.values():
            app.should_stop = True
        await _within(STOP_S, [consumer.stop() for consumer in self.consumers])
        for task in (stopped, *tasks):
            task.cancel()
        await asyncio.gather(stopped, *tasks, return_exceptions=True)

    def now(self) -> Timestamp:
        """Give the time by its own clock."""
        return Timestamp(self.surroundings.now() + self.clock_ms)

    async def reclaim(self) -> None:
        """Do what embed workers do every few hours."""
        with suppress(InfraError):
            await adapter.reclaim(self.surroundings.new_store(self.process), self.now)

    async def _consume(self, running: Running) -> None:
        stream = cast("Any", self._consumer(running.topic, running.group).streams[running.topic])
        await running.stage.consume(stream, running.delivery, running.batching)

    def _consumer(self, topic: str, group: str) -> Consumer:
        return next(each for each in self.consumers if topic in each.streams and each.name.endswith(f"@{group}"))

    def _holds(self, topic: str, group: str, message: Any) -> bool:
        return self._consumer(topic, group).holds(message)

    def _made(self, apps: dict[str, Any]) -> Sequence[Running]:
        around = self.surroundings
        outbox = Outbox(around.new_producer(self.process), UNTRACED)
        store = around.new_store(self.process)
        embedder = SlowEmbedder(around.token_s)
        made: list[Running] = []

        def add(name: str, source: str, intake: Any, handle: Any, *, group: str, **options: Any) -> None:
            delivery: Delivery[Any] = Delivery(
                name,
                intake=intake,
                handle=handle,
                dead_letters=DeadLetterQueue(
                    outbox,
                    "dead-letters",
                    on_dead_letter=options.get("on_dead_letter"),
                    clock=lambda: around.now() / 1000,
                ),
                tracer=UNTRACED,
                meters=_METERS,
            )
            batching = options.get("batching", Batching(records=around.batch_events, wait_s=BATCH_WAIT_S))
            app = apps.setdefault(group, SimpleNamespace(conf=SimpleNamespace(id=group), should_stop=False))
            holds = partial(self._holds, source, group)
            stage = Stage(app, name, source, meters=_METERS, holds=holds)
            stage.progress = Progress(around.loop.time)
            made.append(Running(stage, delivery, group, source, batching))

        receipts = Sink(outbox, "outcomes", CODECS[IndexOutcome].encode)
        rejected: Any = reject_with_receipt(receipts, generation=GENERATION, meters=_METERS)
        if "chunk" in self.names:
            self._chunk(add, outbox, embedder, rejected)
        if "contextualise" in self.names:
            for lane in LANES["contextualise"]:
                sink = in_lane("contextual-chunks", lane)
                handle = contextualise_handler(Sink(outbox, sink, CODECS[ContextualChunkBatch].encode))
                intake = Intake(required(CODECS[ChunkBatch].decode))
                name, source = in_lane("contextualise", lane), in_lane("chunks", lane)
                add(name, source, intake, handle, group="contextualise", on_dead_letter=rejected)
        if "embed" in self.names:
            self._embed(add, outbox, embedder, store, rejected)
        if "retrieve" in self.names:
            self._retrieve(add, outbox, embedder, store)
        return made

    def _chunk(self, add: Any, outbox: Outbox, embedder: SlowEmbedder, rejected: Any) -> None:
        chunker = Chunker(
            claims=ClaimStore(ClaimSettings()),
            outliner=Outliner(
                OutlineRules(limits=_LIMITS[self.release]), parse=parse_here, count_tokens=embedder.count_tokens
            ),
            part_chunks=PART_CHUNKS,
            now=self.now,
        )
        decode = or_tombstone(self._change)
        for lane in LANES["chunk"]:
            large = in_lane("chunks", Lane.BULK if lane is Lane.REGULAR else lane)
            handle = chunk_handler(
                chunker,
                Sink(outbox, in_lane("chunks", lane), CODECS[ChunkBatch].encode),
                large=Sink(outbox, large, CODECS[ChunkBatch].encode),
                max_in_flight=2,
            )
            name = in_lane("chunk", lane)
            intake = Intake(decode, accepts=partial(_is_of, lane, decode))
            add(name, "documents", intake, handle, group=name, on_dead_letter=rejected)

    def _change(self, value: bytes) -> DocumentChange:
        if self.surroundings.loop.time() < self.reads_from_s:
            raise UndecodableError(UNREADABLE)
        return cast("DocumentChange", CODECS[DocumentChange].decode(value))

    def _embed(self, add: Any, outbox: Outbox, embedder: SlowEmbedder, store: Any, rejected: Any) -> None:
        indexer = Indexer(
            IndexRules(
                generation=GENERATION,
                analyse_text=_ANALYSED,
                analyser="simulated",
                slice_tokens=SLICE_TOKENS,
            ),
            store=store,
            embedder=embedder,
            vectors=VectorCache(embedder.fingerprint, 1 << 20),
            now=self.now,
            entropy=adapter.entropy,
        )
        for lane in LANES["embed"]:
            receipts = Sink(outbox, "outcomes", CODECS[IndexOutcome].encode)
            handle = embed_handler(indexer, receipts, lane=lane, meters=_METERS)
            name, source = in_lane("embed", lane), in_lane("contextual-chunks", lane)
            intake = Intake(required(CODECS[ContextualChunkBatch].decode))
            batching = Batching(
                records=self.surroundings.batch_events, wait_s=BATCH_WAIT_S, in_flight=OVERLAPPING_BATCHES[lane]
            )
            add(name, source, intake, handle, group="embed", on_dead_letter=rejected, batching=batching)

    def _kept(self, name: str) -> BoundedCache[Any]:
        def timer() -> float:
            return self.surroundings.now() / 1000

        return BoundedCache(name, most_bytes=MANIFEST_BYTES, seconds=KEPT_S, timer=timer)

    def _retrieve(self, add: Any, outbox: Outbox, embedder: SlowEmbedder, store: Any) -> None:
        retriever = Retriever(
            RetrievalModels(embedder=embedder),
            Stores(
                search=store,
                rows=KnownRows(
                    store,
                    RowCaches(
                        match_codes=self._kept("match_codes"),
                        contents=self._kept("contents"),
                        passages=self._kept("passages"),
                    ),
                ),
                roots=store,
                places=self._kept("places"),
                pages=self._kept("pages"),
                strong=not self.surroundings.bounded,
                generation=GENERATION,
            ),
            QueryDefaults(options=_OPTIONS),
            Clocks(now=self.surroundings.now, ns=lambda: self.surroundings.now() * 1_000_000),
        )
        retrieving = QueryHandler(
            retriever,
            replies=Replies(Sink(outbox, "contexts", CODECS[ContextResult].encode), noted=noted),
            reply_topics=(),
            max_query_chars=1_000,
            traces=QueryTrace(UNTRACED, models=Models(embedder=embedder.fingerprint, reranker=""), content=False),
            meters=_METERS,
        )
        intake = Intake(required(CODECS[ContextQuery].decode))
        batching = Batching(records=self.surroundings.batch_events, wait_s=QUERY_WAIT_S, in_flight=4)
        add("retrieve", "queries", intake, retrieving.handle, group="retrieve", batching=batching)


_LIMITS = [
    {
        profile: replace(limits, min_tokens=least, max_tokens=most, overlap_chars=0)
        for profile, limits in limits_of(ChunkingSettings()).items()
    }
    for least, most in ((3, 9), (12, 20))
]
"""Of each release: one puts a paragraph into a chunk, the other one two."""


def _is_of(lane: Lane, decode: Any, stored: Any) -> bool:
    return lane in lanes_of(stored, decode)


async def _within(limit_s: float, works: Sequence[Any]) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*works)
    except Exception:  # noqa: BLE001, S110 - what is not finished is read again
        pass
