"""Parts of the stages of a process, opened when a stage first needs them."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Self, TypeVar

import faust
import structlog
from opentelemetry.trace import Tracer

from freki.client.tasks import cancel_and_wait
from freki.infra.claims import ClaimStore
from freki.infra.kafka import KafkaProducer, Reader
from freki.infra.kafka.app import make_app
from freki.infra.keys import cipher_of
from freki.infra.llm.client import LlmClient
from freki.infra.llm.ledger import TokenLedger
from freki.infra.models import VectorCache, check_window, embedder_identity, open_embedder, open_token_counter
from freki.infra.registry import RegistryClient
from freki.infra.scan import open_scanner
from freki.infra.settings import Settings
from freki.infra.telemetry.calls import Calls
from freki.operators.detect_language import load_languages
from freki.schemas import ChunkBatch, ContextualChunkBatch, DocumentChange, IndexOutcome, Objection, RootId
from freki.schemas.avro import Codec
from freki.schemas.index import Root
from freki.schemas.stalling import MAX_BATCH_S
from freki.streams.audit.events import changed, reloaded
from freki.streams.audit.log import AuditLog
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue, OnDeadLetter
from freki.streams.deliver.delivery import Delivery, Handle
from freki.streams.deliver.intake import Decode, Intake, Prepare, RecordFilter
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.deliver.reject import reject_with_receipt
from freki.streams.deliver.stage import Batching, Stage, register
from freki.streams.ingest.chunk import Chunker
from freki.streams.ingest.context_writer import ContextWriter
from freki.streams.ingest.index import BeforeCommit, Indexer, IndexRules
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.outline import similarities_by
from freki.streams.limits.changes import ChangeLimits
from freki.streams.limits.queries import QueryLimits
from freki.streams.observe.meters import Meters
from freki.streams.ports import Embedder
from freki.streams.privacy.objections import Objections
from freki.streams.retrieve.authenticate import Authenticator
from freki.streams.retrieve.direct import Mailboxes
from freki.streams.retrieve.follow_judgements import erase_what_is_left
from freki.streams.retrieve.serving import Serving
from freki.streams.topics import Topic
from freki.streams.wire.audit import open_audit
from freki.streams.wire.authentication import open_authenticator
from freki.streams.wire.background import (
    Background,
    purge_deletions,
    read_and_follow,
    reclaim_rows,
    take_over_watermarks,
    warn_of_missed_deletions,
)
from freki.streams.wire.connect import open_registry
from freki.streams.wire.erasing.topics import ChangeReader, NamedClaims
from freki.streams.wire.from_settings import MIB, analyser_of, group_of, index_of, rows_version, topics_of, wall_clock
from freki.streams.wire.limits import open_change_limits, open_query_limits
from freki.streams.wire.parsing import open_outliner
from freki.streams.wire.provision import check_shares, check_sources
from freki.streams.wire.reload import ReloadableParts
from freki.streams.wire.rules import rules_of

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex

QUERY_WAIT_S = 0.002
"""Maximum wait for a batch of queries to fill, in seconds: do not delay a query to fill a batch."""
LLM_EVENTS = 4
"""Maximum parts per batch with a language model: at 13 calls of 30 s for 64 chunks, a larger batch seems stalled."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class Parts:
    """Parts of one process. Entering connects to the broker.

    Embedder, store, indexer and context writer are opened on the first call; chunkers and language models on each call.
    """

    def __init__(
        self,
        settings: Settings,
        tracer: Tracer,
        meters: Meters,
        calls: Calls,
        *,
        mailboxes: Mailboxes | None = None,
        creates: bool = True,
    ) -> None:
        """Create them.

        mailboxes: where answers go instead of to topics; creates: whether missing collections are created.
        """
        self.mailboxes = mailboxes
        self._creates = creates
        self.settings = settings
        self.tracer = tracer
        self.meters = meters
        self.calls = calls
        self.topics = topics_of(settings)
        self.background = Background()
        self.cipher = cipher_of(settings.encryption)
        self.outbox: Outbox
        self.opened = AsyncExitStack()
        self._registry: RegistryClient | None = None
        self._embedder: Embedder | None = None
        self._index: MilvusIndex | None = None
        self._indexer: Indexer | None = None
        self._writer: ContextWriter | None = None
        self._apps: dict[str, faust.App] = {}
        self._serving: Serving | None = None
        self.authenticator: Authenticator | None = None
        self.audit: AuditLog | None = None
        self.objections = Objections()
        """Those that answers respect; empty before `open_serving`."""
        self.query_limits: QueryLimits | None = None
        self._change_limits: ChangeLimits | None = None
        self._others: list[Parts] = []
        self.reloadable = ReloadableParts()
        self.reloadable.add(lambda after: partial(self._keep, after))

    async def __aenter__(self) -> Self:
        self._registry = await self.opened.enter_async_context(open_registry(self.settings))
        self.outbox = Outbox(await self.opened.enter_async_context(KafkaProducer(self.settings.kafka)), self.tracer)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.background.aclose()
        await self.opened.aclose()

    async def beside(self, settings: Settings) -> "Parts":
        """Return the parts of another generation, which share the connection to the broker, and the same embedder.

        The caller closes them, by `__aexit__`.
        """
        # Who offered it has made its collections. Who dropped it must not find them again, however long this takes.
        other = Parts(settings, self.tracer, self.meters, self.calls, mailboxes=self.mailboxes, creates=False)
        other.outbox, other._registry = self.outbox, self._registry
        other.authenticator = self.authenticator
        other.audit = self.audit
        other.objections = self.objections
        other.query_limits = self.query_limits
        if settings.models == self.settings.models:
            other._embedder = await self.open_embedder()
        self._others.append(other)
        other.opened.callback(self._others.remove, other)
        return other

    @property
    def registry(self) -> RegistryClient | None:
        """The schema registry; None if the settings name none."""
        return self._registry

    @property
    def prepare(self) -> Prepare | None:
        """Function that fetches the schemas that decoding needs; None without a schema registry."""
        return None if self._registry is None else self._registry.prepare

    def codec(self, record: type[R]) -> Codec[R]:
        """Return the Avro codec of a record."""
        return Codec(record, registry=self._registry)

    def intake(self, decode: Decode[T], *, accepts: RecordFilter | None = None) -> Intake[T]:
        """Return the intake of a stage."""
        return Intake(decode, prepare=self.prepare, accepts=accepts)

    def sink(self, record: type[R], topic: Topic) -> Sink[R]:
        """Return a sink for records of a type on a topic."""
        return Sink(self.outbox, topic.name, self.codec(record).encode)

    def reject(self) -> OnDeadLetter[DocumentChange | ChunkBatch | ContextualChunkBatch | None]:
        """Return a callback that sends a REJECTED receipt for each dead letter."""
        receipts = self.sink(IndexOutcome, self.topics.outcomes)
        return reject_with_receipt(receipts, generation=self.settings.milvus.generation, meters=self.meters)

    def batching(self, *, calls_llm: bool = False, parses: bool = False) -> Batching:
        """Return the batching of an ingest stage."""
        ingest = self.settings.ingest
        records = LLM_EVENTS if calls_llm else ingest.batch_events
        if parses:
            records = min(records, self._most_parsed())
        return Batching(records=records, wait_s=ingest.batch_wait_s)

    def _most_parsed(self) -> int:
        """Return the maximum documents per batch with which a stage does not seem stalled, however long each takes."""
        # A document that takes too long ends its batch, whose halves start over: each may be read twice.
        return max(1, int(MAX_BATCH_S / (2 * self.settings.document_s)))

    def query_batching(self) -> Batching:
        """Return the batching of the retrieve stage."""
        retrieval = self.settings.retrieval
        return Batching(records=retrieval.batch_queries, wait_s=QUERY_WAIT_S, in_flight=retrieval.batches)

    def stage(
        self,
        name: str,
        source: Topic,
        intake: Intake[T],
        handle: Handle[T],
        *,
        group: str,
        on_dead_letter: OnDeadLetter[T] | None = None,
        batching: Batching | None = None,
    ) -> Stage:
        """Join a handler to its topic, as a member of a consumer group."""
        delivery = Delivery(
            name,
            intake=intake,
            handle=handle,
            dead_letters=DeadLetterQueue(
                self.outbox, self.topics.dead_letters.name, on_dead_letter=on_dead_letter, cipher=self.cipher
            ),
            tracer=self.tracer,
            meters=self.meters,
        )
        if group not in self._apps:
            state_dir = self.settings.local.state_dir / "faust"
            self._apps[group] = make_app(self.settings.kafka, group_of(self.settings, group), state_dir=state_dir)
        return register(self._apps[group], source.name, delivery, batching or self.batching(), meters=self.meters)

    async def open_embedder(self) -> Embedder:
        """Load the embedding model."""
        if self._embedder is None:
            opening = open_embedder(self.settings.models, calls=self.calls)
            self._embedder = await self.opened.enter_async_context(opening)
        return self._embedder

    async def open_index(self) -> "MilvusIndex":
        """Open the store."""
        if self._index is None:
            # By settings, so that a process that embeds nothing does not load the model.
            fingerprint, dim = embedder_identity(self.settings.models)
            index = index_of(self.settings, embedder=fingerprint, dim=dim, calls=self.calls, creates=self._creates)
            self._index = await self.opened.enter_async_context(index)
        return self._index

    async def open_index_and_embedder(self) -> "tuple[MilvusIndex, Embedder]":
        """Open both at once: the one waits for the store, the other computes."""
        embedder = asyncio.create_task(self.open_embedder())
        try:
            return await self.open_index(), await embedder
        finally:
            # Where the store failed, nothing goes on alone.
            await cancel_and_wait([embedder])

    async def open_chunker(self) -> Chunker:
        """Open a chunker with its own parser processes."""
        settings = self.settings
        written_chars = settings.contexts.max_chars if settings.contexts.llm else 0
        for remark in check_window(
            settings.models, max_tokens=settings.chunking.max_tokens, written_chars=written_chars
        ):
            _log.warning("an embedder cuts off long chunks", remark=remark)
        count_tokens, _ = await asyncio.gather(open_token_counter(settings.models), asyncio.to_thread(load_languages))
        similarities = similarities_by(await self.open_embedder()) if settings.chunking.is_semantic else None
        return Chunker(
            claims=ClaimStore(settings.claims, self.cipher),
            outliner=await self.opened.enter_async_context(
                # One per lane, so that urgent documents do not wait for the parsing of large ones.
                open_outliner(settings, count_tokens, similarities=similarities)
            ),
            part_chunks=settings.chunking.part_chunks,
            now=wall_clock,
            tracer=self.tracer,
            scanner=open_scanner(settings.scan),
            limits=await self._open_change_limits(),
        )

    async def _open_change_limits(self) -> ChangeLimits | None:
        """Open the limits of changes, which all lanes share; None if the settings have none."""
        if self._change_limits is None:
            self._change_limits = await open_change_limits(self)
        return self._change_limits

    async def open_context_writer(self) -> ContextWriter | None:
        """Open the writer of contexts; None if the settings enable neither contexts nor summaries."""
        contexts = self.settings.contexts
        if self._writer is None and (contexts.llm or contexts.summaries):
            index = await self.open_index()
            self._writer = ContextWriter(
                rules_of(contexts),
                llm=await self.open_llm(),
                ledger=self.token_ledger(),
                store=index,
                meters=self.meters,
                tracer=self.tracer,
            )
        return self._writer

    async def open_llm(self) -> LlmClient:
        """Open a connection to the language model."""
        return await self.opened.enter_async_context(LlmClient(self.settings.llm, self.calls))

    def token_ledger(self) -> TokenLedger:
        """Return the daily token budget of the language model."""
        return TokenLedger(self.settings.llm.ledger, most=self.settings.llm.max_tokens_day)

    async def open_indexer(self) -> Indexer:
        """Open the indexer, which all lanes share so that one writes at a time."""
        if self._indexer is None:
            await check_shares(self.settings)
            await self.open_audit("embed")
            index, embedder = await self.open_index_and_embedder()
            analyser = analyser_of(self.settings.lexical)
            self._indexer = Indexer(
                IndexRules(
                    generation=self.settings.milvus.generation,
                    analyse_text=analyser.of_chunks,
                    analyser=rows_version(self.settings),
                    slice_tokens=self.settings.ingest.slice_tokens,
                ),
                store=index,
                embedder=embedder,
                vectors=VectorCache(embedder.fingerprint, self.settings.models.embed_cache_mb * MIB, self.calls),
                now=wall_clock,
                tracer=self.tracer,
                before_commit=self._before_commit(),
            )
            await warn_of_missed_deletions(index)
            # In the embed stage, because judgements may be given even if no retrieve stage reads them.
            erase = partial(self._erase_judgements_of_deleted, index)
            claims, retention_days = ClaimStore(self.settings.claims), self.settings.ingest.deleted_retention_days
            named = NamedClaims(ChangeReader(self.settings, self._registry), claims)
            self.background.spawn(purge_deletions(index, claims, retention_days, erase, named.any))
            self.background.spawn(take_over_watermarks(index))
            committer = Committer(store=index, now=wall_clock, tracer=self.tracer)
            self.background.spawn(reclaim_rows(index, committer))
        return self._indexer

    async def open_audit(self, part: str) -> AuditLog | None:
        """Open the audit log, which all stages of a process share; None if the settings want none."""
        if self.audit is None:
            opening = open_audit(self.settings, self.outbox, part=part, registry=self._registry, meters=self.meters)
            self.audit = await self.opened.enter_async_context(opening)
        return self.audit

    def _before_commit(self) -> BeforeCommit | None:
        """Return what records a commit in the audit log; None without one."""
        audit, generation = self.audit, self.settings.milvus.generation
        if audit is None:
            return None

        async def record(roots: Sequence[Root], bases: Mapping[RootId, Root | None]) -> None:
            await audit.record(*changed(roots, bases, generation=generation))

        return record

    async def open_serving(self) -> Serving:
        """Open retrieval."""
        if self._serving is None:
            self.authenticator = await open_authenticator(self)
            take = partial(self.objections.take, decode=self.codec(Objection).decode)
            await read_and_follow(self, self.topics.objections.name, opened=self.objections.opened, take=take)
            # Settings are compared with those of the last process of the same kind.
            await self.open_audit("retrieve" if self.mailboxes is None else "serve")
            self.query_limits = await open_query_limits(self)
            # Workers of stages that answer nothing start sooner without it, and take less memory.
            from freki.streams.wire.serving import open_serving  # noqa: PLC0415

            self._serving = await open_serving(self)
        return self._serving

    def _keep(self, settings: Settings) -> None:
        """Open later generations by these settings."""
        self.settings = settings

    async def record_reload(self, names: Sequence[str]) -> None:
        """Record in the audit log, if there is one, that these settings are about to be others. Raises Unavailable."""
        if self.audit is not None:
            await self.audit.record(reloaded(names))

    async def check_sources(self, stages: Sequence[Stage]) -> None:
        """Raise Misconfigured unless the topics and consumer groups of stages are accessible."""
        await check_sources(self.settings, [(stage.app.conf.id, stage.topic) for stage in stages])

    async def check_store(self) -> None:
        """Raise InfraError if a stage of this process needs the store and it does not answer."""
        if self._index is not None:
            await self._index.check()
        for other in self._others:
            await other.check_store()

    @property
    def described(self) -> dict[str, str]:
        """Versions and models that results depend on."""
        models = self.settings.models
        return {
            "version": version("freki"),
            "generation": self.settings.milvus.generation if self._serving is None else self._serving.generation,
            "embedder": models.all_embedders,
            "reranker": models.reranker or "",
        }

    async def _erase_judgements_of_deleted(self, index: "MilvusIndex") -> None:
        """Erase judgements of documents that were deleted while no worker read judgements."""
        topic = self.topics.judgements.name
        async with Reader(self.settings.kafka, topic, start="earliest") as reader:
            if erased := await erase_what_is_left(reader.until_end(), index, self.outbox):
                _log.info("judgements of deleted documents were erased", judgements=erased)
