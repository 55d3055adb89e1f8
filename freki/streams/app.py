"""The pipeline on one screen: what each stage reads, does and sends, in flow order."""

import asyncio
import gc
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import faust
import structlog
from opentelemetry.trace import Tracer

from freki.infra.caches import BoundedCache
from freki.infra.claims import ClaimStore
from freki.infra.kafka import Producer, Reader, look_behind, make_app
from freki.infra.llm.client import LlmClient
from freki.infra.llm.ledger import TokenLedger
from freki.infra.milvus.index import MilvusIndex
from freki.infra.models import OnnxReranker, VectorCache, embedder_identity, open_embedder, open_token_counter
from freki.infra.registry import RegistryClient
from freki.infra.rerankers.remote import RemoteReranker
from freki.infra.rerankers.vertex import VertexReranker
from freki.infra.settings.sections import Settings
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.endpoint import serving
from freki.infra.telemetry.metrics import metering
from freki.infra.telemetry.telemetry import set_up_logging, tracing
from freki.operators.errors import OperatorError
from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextResult,
    ContextualChunkBatch,
    DocumentChange,
    IndexOutcome,
    Judgement,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.streams.connect import (
    analyser_of,
    check_shares,
    check_sources,
    group_of,
    index_of,
    open_outliner,
    open_registry,
    options_of,
    profiles_of,
    rules_of,
    topics_of,
    wall_clock,
)
from freki.streams.deliver.delivery import (
    Backoff,
    Decode,
    Delivery,
    Failures,
    Handle,
    OnDeadLetter,
    Prepare,
    RecordFilter,
    or_tombstone,
    required,
)
from freki.streams.deliver.lanes import Lane, in_lane, lanes_of
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.reject import rejecting
from freki.streams.deliver.stage import Stage, register, run_stages
from freki.streams.ingest.chunk import Chunking, chunking
from freki.streams.ingest.context_writer import ContextWriter
from freki.streams.ingest.contextualise import contextualising
from freki.streams.ingest.embed import embedding
from freki.streams.ingest.index import Indexer
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import reclaim
from freki.streams.ingest.outline import similarities_by
from freki.streams.observe.health import Health
from freki.streams.observe.meters import Meters
from freki.streams.ports import Embedder, Reranker
from freki.streams.retrieve.cache.caching import CachedSearch, Caches, CachingRetriever
from freki.streams.retrieve.cache.epochs import Epochs, follow_outcomes
from freki.streams.retrieve.follow_judgements import (
    erase_deleted,
    erase_judgements,
    erase_what_is_left,
    follow_judgements,
)
from freki.streams.retrieve.handler import QueryHandler
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.judged import JudgementBounds, Judgements
from freki.streams.retrieve.steps.llm_reranker import LlmReranker
from freki.streams.retrieve.steps.rewrite import Rewriter
from freki.streams.retrieve.trace import Models, QueryTrace
from freki.streams.topics import DAY_MS, TOMBSTONE_MS, Topic

LANES = {
    "chunk": (Lane.EXPRESS, Lane.REGULAR),
    "contextualise": tuple(Lane),
    "embed": tuple(Lane),
    "retrieve": (Lane.REGULAR,),
}
"""The lanes of each stage; which changes take which, `lanes.py` says."""
STAGES = tuple(LANES)
FAILURES = Failures(stop=(Misconfigured,), retry=(Unavailable,), dead_letter=(OperatorError, Rejected))
# A lone question should not wait for company.
QUERY_WAIT_S = 0.002
LLM_EVENTS = 4
"""Parts of 64 chunks, 13 calls each: more would look like standing still where a call takes half a minute."""
FORGET_EVERY_S = 3600.0
RECLAIM_EVERY_S = 6 * 3600.0
EMBED_AGAIN_S = 1.0
WELL_S = 60.0
"""A topic that was read for so long is well again: the next failure is another outage's first."""
MIB = 1 << 20

_log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class Pipeline:
    """The stages of one process. Entering it connects to the broker; what a stage needs is opened with the stage."""

    def __init__(self, settings: Settings, tracer: Tracer, meters: Meters, calls: Calls) -> None:
        self._settings = settings
        self._tracer = tracer
        self._meters = meters
        self._calls = calls
        self._topics = topics_of(settings)
        self._opened = AsyncExitStack()
        self._outbox: Outbox
        self._registry: RegistryClient | None = None
        self._embedder: Embedder | None = None
        self._index: MilvusIndex | None = None
        self._indexer: Indexer | None = None
        self._writer: ContextWriter | None = None
        self._apps: dict[str, faust.App] = {}
        self._background_tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._registry = await self._opened.enter_async_context(open_registry(self._settings))
        producer = await self._opened.enter_async_context(Producer(self._settings.kafka))
        self._outbox = Outbox(producer, self._tracer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    async def stages(self, names: Collection[str]) -> list[Stage]:
        """Make stages by name, each in all of its lanes. This is the flow."""
        topics = self._topics
        flow: dict[str, Callable[[Lane], Awaitable[Stage]]] = {
            "chunk": lambda lane: self._chunk(lane, topics.documents, topics.chunks),
            "contextualise": lambda lane: self._contextualise(
                lane, topics.chunks[lane], topics.contextual_chunks[lane]
            ),
            "embed": lambda lane: self._embed(lane, topics.contextual_chunks[lane], topics.outcomes),
            "retrieve": lambda _: self._retrieve(topics.queries, topics.contexts),
        }
        made = [await make(lane) for name, make in flow.items() if name in names for lane in LANES[name]]
        await check_sources(self._settings, [(stage.app.conf.id, stage.topic) for stage in made])
        return made

    async def _chunk(self, lane: Lane, source: Topic, sinks: Mapping[Lane, Topic]) -> Stage:
        settings = self._settings
        count_tokens = await open_token_counter(settings.models)
        is_semantic = settings.chunking.least_similarity is not None
        similarities = similarities_by(await self._opened_embedder()) if is_semantic else None
        stage = Chunking(
            claims=ClaimStore(settings.claims),
            # Processes of its own, or an urgent document would wait for a large one to be parsed.
            outliner=await self._opened.enter_async_context(
                open_outliner(settings, count_tokens, similarities=similarities)
            ),
            part_chunks=settings.chunking.part_chunks,
            now=wall_clock,
            tracer=self._tracer,
        )
        handle = chunking(
            stage,
            encode=self._codec(ChunkBatch).encode,
            outbox=self._outbox,
            sink=sinks[lane].name,
            large=sinks[Lane.BULK if lane is Lane.REGULAR else lane].name,
            at_once=settings.parsing.processes,
        )
        decode = or_tombstone(self._codec(DocumentChange).decode)
        name = in_lane("chunk", lane)
        return self._stage(
            name,
            source,
            decode,
            handle,
            # The lanes read the same topic, each at its own pace.
            group=name,
            on_dead_letter=self._rejecting(),
            accepts=lambda stored: lane in lanes_of(stored, decode),
        )

    async def _contextualise(self, lane: Lane, source: Topic, sink: Topic) -> Stage:
        encode = self._codec(ContextualChunkBatch).encode
        writer = await self._context_writer()
        handle = contextualising(encode=encode, outbox=self._outbox, sink=sink.name, situate_all=writer)
        decode = required(self._codec(ChunkBatch).decode)
        most = None if writer is None else LLM_EVENTS
        name = in_lane("contextualise", lane)
        return self._stage(
            name, source, decode, handle, group="contextualise", on_dead_letter=self._rejecting(), most=most
        )

    async def _embed(self, lane: Lane, source: Topic, sink: Topic) -> Stage:
        indexer = await self._opened_indexer()
        encode = self._codec(IndexOutcome).encode
        handle = embedding(indexer, lane=lane, encode=encode, outbox=self._outbox, sink=sink.name, meters=self._meters)
        decode = required(self._codec(ContextualChunkBatch).decode)
        name = in_lane("embed", lane)
        # One group for all lanes: what is written to a document is written by one process.
        return self._stage(name, source, decode, handle, group="embed", on_dead_letter=self._rejecting())

    async def _retrieve(self, source: Topic, sink: Topic) -> Stage:
        settings = self._settings.retrieval
        index = await self._opened_index()
        caches = self._caches() if settings.cache_mb else None
        search = CachedSearch(index, rankings=caches.rankings, epochs=caches.epochs) if caches else index
        retriever: Retriever | CachingRetriever
        retriever = found = Retriever(
            embedder=await self._opened_embedder(),
            vectors=caches.vectors if caches else None,
            search=search,
            rows=index,
            roots=index,
            rerankers=await self._rerankers(),
            analyse_text=analyser_of(self._settings.lexical).of_queries,
            rewriter=await self._rewriter(),
            defaults=options_of(settings),
            profiles=profiles_of(settings),
            generation=self._settings.milvus.generation,
            strong=settings.strong,
            failures=(InfraError,),
            outages=(Unavailable, Misconfigured),
            now=wall_clock,
            clock_ns=time.time_ns,
            judgements=await self._judgements(caches.epochs if caches else None),
            meters=self._meters,
        )
        if caches:
            retriever = CachingRetriever(
                found,
                caches=caches,
                search=index,
                roots=index,
                encode=Codec(ContextResult).encode,
                decode=Codec(ContextResult).decode,
                failures=(InfraError,),
                now=wall_clock,
            )
            decode_outcome = self._codec(IndexOutcome).decode
            follow = partial(follow_outcomes, epochs=caches.epochs, decode=decode_outcome, prepare=self._prepare)
            self.spawn(self._follow(self._topics.outcomes, "latest", follow))
        await retriever.warm_up()
        handler = QueryHandler(
            retriever,
            encode=self._codec(ContextResult).encode,
            outbox=self._outbox,
            sink=sink.name,
            reply_topics=settings.reply_topics,
            max_query_chars=settings.max_query_chars,
            failures=(InfraError,),
            traces=await self._query_trace(),
            meters=self._meters,
        )
        decode = required(self._codec(ContextQuery).decode)
        return self._stage(
            "retrieve",
            source,
            decode,
            handler.handle,
            group="retrieve",
            most=settings.batch_queries,
            within_s=QUERY_WAIT_S,
            at_once=settings.batches,
        )

    def _stage(  # noqa: PLR0913 - one place where a stage is put together
        self,
        name: str,
        source: Topic,
        decode: Decode[T],
        handle: Handle[T],
        *,
        group: str,
        on_dead_letter: OnDeadLetter[T] | None = None,
        accepts: RecordFilter | None = None,
        most: int | None = None,
        within_s: float | None = None,
        at_once: int = 1,
    ) -> Stage:
        """Join a handler to its topic, as a member of a consumer group."""
        settings = self._settings
        delivery = Delivery(
            stage=name,
            decode=decode,
            handle=handle,
            outbox=self._outbox,
            dead_letters=self._topics.dead_letters.name,
            failures=FAILURES,
            tracer=self._tracer,
            on_dead_letter=on_dead_letter,
            prepare=self._prepare,
            accepts=accepts,
            meters=self._meters,
        )
        if group not in self._apps:
            state_dir = settings.local.state_dir / "faust"
            self._apps[group] = make_app(settings.kafka, group_of(settings, group), state_dir=state_dir)
        return register(
            self._apps[group],
            source.name,
            delivery,
            batch_events=most or settings.ingest.batch_events,
            batch_wait_s=settings.ingest.batch_wait_s if within_s is None else within_s,
            at_once=at_once,
            meters=self._meters,
        )

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside the stages until they end."""
        task = asyncio.create_task(work)
        self._background_tasks.append(task)
        self._opened.push_async_callback(_cancelled, task)

    @property
    def background_tasks(self) -> Sequence[asyncio.Task[None]]:
        """All that is done beside the stages; none of it ends by itself but by failing."""
        return self._background_tasks

    async def check_store(self) -> None:
        """Find out whether the store answers, if a stage of this process needs it; raises InfraError if it does not."""
        if self._index is not None:
            await self._index.check()

    @property
    def described(self) -> dict[str, str]:
        """Say what runs, as far as answers depend on it."""
        models = self._settings.models
        return {
            "version": version("freki"),
            "generation": self._settings.milvus.generation,
            "embedder": models.all_embedders,
            "reranker": models.reranker or "",
        }

    @property
    def _prepare(self) -> Prepare | None:
        return None if self._registry is None else self._registry.prepare

    def _codec(self, record: type[R]) -> Codec[R]:
        return Codec(record, registry=self._registry)

    def _rejecting(self) -> OnDeadLetter[DocumentChange | ChunkBatch | ContextualChunkBatch | None]:
        return rejecting(
            encode=self._codec(IndexOutcome).encode,
            outbox=self._outbox,
            sink=self._topics.outcomes.name,
            generation=self._settings.milvus.generation,
            meters=self._meters,
        )

    async def _opened_embedder(self) -> Embedder:
        if self._embedder is None:
            self._embedder = await self._opened.enter_async_context(
                open_embedder(self._settings.models, calls=self._calls)
            )
        return self._embedder

    async def _opened_indexer(self) -> Indexer:
        """Give the one that all lanes share, so that they take turns."""
        if self._indexer is None:
            await check_shares(self._settings)
            index, embedder = await self._opened_index(), await self._opened_embedder()
            analyser = analyser_of(self._settings.lexical)
            self._indexer = Indexer(
                rows=index,
                roots=index,
                embedder=embedder,
                vectors=VectorCache(embedder.fingerprint, self._settings.models.embed_cache_mb * MIB, self._calls),
                analyse_text=analyser.of_chunks,
                analyser=analyser.version,
                generation=self._settings.milvus.generation,
                slice_tokens=self._settings.ingest.slice_tokens,
                now=wall_clock,
                tracer=self._tracer,
            )
            await _warn_of_standstill(index)
            # Here and not where judgements count: they may be given where nobody reads them.
            erase = partial(self._erase_judgements_left, index)
            self.spawn(_forgetting(index, self._settings.ingest.deleted_retention_days, erase))
            self.spawn(_reclaiming(index, Committer(rows=index, roots=index, now=wall_clock, tracer=self._tracer)))
        return self._indexer

    def _caches(self) -> Caches:
        """Make room for what is remembered of questions: half for answers, the rest for what they are made of."""
        settings = self._settings.retrieval

        def cache(name: str, share: float) -> BoundedCache[Any]:
            most_bytes = int(settings.cache_mb * MIB * share)
            return BoundedCache(name, most_bytes=most_bytes, seconds=settings.cache_s, calls=self._calls)

        return Caches(
            vectors=cache("question_vectors", 0.1),
            rankings=cache("rankings", 0.4),
            answers=cache("answers", 0.5),
            epochs=Epochs(strong=settings.strong),
        )

    async def _judgements(self, epochs: Epochs | None) -> Judgements | None:
        """Read what users say of answers; None where it is not to count."""
        settings = self._settings.feedback
        if not settings.read:
            return None
        topics, embedder = self._topics, await self._opened_embedder()
        bounds = JudgementBounds(
            most=settings.most,
            most_of_judge=settings.most_of_judge,
            half_life_days=settings.half_life_days,
            least_cosine=settings.least_cosine,
        )
        judgements = Judgements(embedder, bounds)
        take = partial(
            follow_judgements,
            judgements=judgements,
            decode=self._codec(Judgement).decode,
            now=wall_clock,
            epochs=epochs,
            prepare=self._prepare,
        )
        erase = partial(
            erase_deleted,
            judgements=judgements,
            decode=self._codec(IndexOutcome).decode,
            erase=partial(erase_judgements, self._outbox, topics.judgements.name),
            prepare=self._prepare,
        )
        self.spawn(self._follow(topics.judgements, "earliest", take))
        self.spawn(self._follow(topics.outcomes, "latest", erase))
        self.spawn(_embedding(judgements))
        return judgements

    async def _erase_judgements_left(self, index: MilvusIndex) -> None:
        """Erase what was said of documents whose deletion nobody noticed who reads judgements."""
        topic = self._topics.judgements.name
        async with Reader(self._settings.kafka, topic, start="earliest") as reader:
            erase = partial(erase_judgements, self._outbox, topic)
            if erased := await erase_what_is_left(reader.until_end(), index, erase=erase):
                _log.info("judgements of deleted documents were erased", judgements=erased)

    async def _follow(
        self, topic: Topic, start: Literal["earliest", "latest"], follow: Callable[[Reader], Awaitable[None]]
    ) -> None:
        """Read a topic on and on, anew after an outage, and as patiently as a stage; then raise what failed."""
        backoff, attempt = Backoff(), 0
        while True:
            opened_s = math.inf
            try:
                async with Reader(self._settings.kafka, topic.name, start=start) as reader:
                    opened_s = time.monotonic()
                    await follow(reader)
            except Unavailable as error:
                attempt = 1 if time.monotonic() - opened_s > WELL_S else attempt + 1
                if attempt >= backoff.attempts:
                    raise
                _log.warning("a topic is not read for now", topic=topic.name, error=str(error))
            await asyncio.sleep(backoff.wait_s(max(attempt, 1), random.random()))  # noqa: S311 - spreads load

    async def _query_trace(self) -> QueryTrace:
        embedder = await self._opened_embedder()
        models = Models(embedder=embedder.fingerprint, reranker=self._settings.models.reranker or "")
        return QueryTrace(self._tracer, models=models, content=self._settings.telemetry.content)

    async def _rewriter(self) -> Rewriter | None:
        """Open what puts questions in other words; None where no language model is set."""
        settings = self._settings
        if settings.llm.url is None and settings.llm.model is None:
            return None
        llm = await self._opened.enter_async_context(LlmClient(settings.llm, self._calls))
        ledger = TokenLedger(settings.llm.ledger, most=settings.llm.max_tokens_day)
        return Rewriter(llm, ledger, limit_s=settings.retrieval.widen_llm_s)

    async def _context_writer(self) -> ContextWriter | None:
        """Open what a language model writes contexts with; None where none is to."""
        settings = self._settings
        if self._writer is None and (settings.contexts.llm or settings.contexts.summaries):
            index = await self._opened_index()
            self._writer = ContextWriter(
                rules_of(settings.contexts),
                llm=await self._opened.enter_async_context(LlmClient(settings.llm, self._calls)),
                ledger=self._token_ledger(),
                rows=index,
                roots=index,
                meters=self._meters,
                tracer=self._tracer,
            )
        return self._writer

    def _token_ledger(self) -> TokenLedger:
        return TokenLedger(self._settings.llm.ledger, most=self._settings.llm.max_tokens_day)

    async def _opened_index(self) -> MilvusIndex:
        if self._index is None:
            # Not the embedder's own: a process that embeds nothing needs none.
            fingerprint, dim = embedder_identity(self._settings.models)
            index = index_of(self._settings, embedder=fingerprint, dim=dim, calls=self._calls)
            self._index = await self._opened.enter_async_context(index)
        return self._index

    async def _rerankers(self) -> list[Reranker]:
        """Open those that are configured; cosine needs nothing from outside."""
        found: list[Reranker] = []
        if self._settings.remote_reranker.url is not None:
            found.append(await self._opened.enter_async_context(RemoteReranker(self._settings.remote_reranker)))
        if self._settings.vertex_reranker.project is not None:
            found.append(await self._opened.enter_async_context(VertexReranker(self._settings.vertex_reranker)))
        if self._settings.llm.url is not None:
            llm = await self._opened.enter_async_context(LlmClient(self._settings.llm, self._calls))
            found.append(LlmReranker(llm, self._token_ledger()))
        if self._settings.models.reranker:
            reranker = OnnxReranker(self._settings.models, calls=self._calls)
            found.append(await self._opened.enter_async_context(reranker))
        return found


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def _embedding(judgements: Judgements) -> None:
    """Give the questions of new judgements their vectors, a few at a time."""
    while True:
        with suppress(InfraError):  # the next round is soon enough
            while await judgements.embed_some():
                pass
        await asyncio.sleep(EMBED_AGAIN_S)


async def _forgetting(index: MilvusIndex, retention_days: float, erase: Callable[[], Awaitable[None]]) -> None:
    """Forget deletions that are older than any event that may still come late, and what was said of the documents."""
    while True:
        with suppress(Unavailable):  # the next round is soon enough
            # Before they are forgotten: then nothing tells any more that the documents are gone.
            await erase()
            await index.purge_deleted(Timestamp(wall_clock() - int(retention_days * DAY_MS)))
        await asyncio.sleep(FORGET_EVERY_S)


async def _warn_of_standstill(index: MilvusIndex) -> None:
    """Say so where deletions may have left the topic since something was committed last."""
    last = max((mark.committed_at for mark in await index.watermarks()), default=None)
    if last is not None and wall_clock() - last > TOMBSTONE_MS:
        _log.warning(
            "nothing was committed for longer than the topic keeps deletions: if no worker ran in that time,"
            " run `freki verify --repair`",
            days=(wall_clock() - last) // DAY_MS,
        )


async def _reclaiming(index: MilvusIndex, committer: Committer) -> None:
    """Delete what processes left behind that died; each at a time of its own, for one of them is enough."""
    while True:
        await asyncio.sleep(RECLAIM_EVERY_S * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load
        with suppress(Unavailable):  # the next round is soon enough
            if removed := await reclaim(index, committer, now=wall_clock):
                _log.info("rows left behind were removed", rows=removed)


async def run_worker(settings: Settings, names: Collection[str], stop: asyncio.Event) -> None:
    """Run stages in this process until `stop` is set; the ready file tells a supervisor that they are at work."""
    component, health = "-".join(names), Health()
    set_up_logging(settings.telemetry)
    with (
        tracing(settings.telemetry, component) as tracer,
        metering(settings.telemetry, component) as (meter, registry),
        serving(settings.telemetry, registry, health.checks) as url,
    ):

        def on_ready() -> None:
            # What is open now stays: every full collection would walk all of it, and hold up a question for 0.1 s.
            gc.collect()
            gc.freeze()
            health.joined()
            if settings.ready_file is not None:
                settings.ready_file.write_text(url, encoding="utf-8")

        meters = Meters(meter)
        async with Pipeline(settings, tracer, meters, Calls(meter)) as pipeline:
            stages = await pipeline.stages(names)
            health.opened(stages)
            meters.stands(lambda: {stage.name: stage.standing(wall_clock()) for stage in stages})
            meters.built(**pipeline.described)
            pipeline.spawn(health.watch(pipeline.check_store))
            await run_stages(stages, stop, look_behind=look_behind, on_ready=on_ready, beside=pipeline.background_tasks)
