"""All stages in one process, joined by records in memory, each with real spans."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from freki.infra.claims import ClaimStore
from freki.infra.models.fake import FakeEmbedder
from freki.infra.models.vectors import VectorCache
from freki.infra.settings import ChunkingSettings, ClaimSettings, ContextSettings, RetrievalSettings
from freki.operators.analyse_text import ANALYSER, analyse_text
from freki.operators.identify import record_key
from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextResult,
    ContextualChunkBatch,
    DocumentChange,
    IndexOutcome,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.index import Exclusions, Generation
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue, OnDeadLetter
from freki.streams.deliver.delivery import Delivery
from freki.streams.deliver.intake import Intake, or_tombstone, required
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.deliver.reject import reject_with_receipt
from freki.streams.deliver.replies import Replies
from freki.streams.deliver.retry import Retry
from freki.streams.ingest.chunk import Chunker, chunk_handler
from freki.streams.ingest.context_writer import ContextWriter
from freki.streams.ingest.contextualise import contextualise_handler
from freki.streams.ingest.embed import embed_handler
from freki.streams.ingest.index import Indexer, IndexRules
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.messages import Headers
from freki.streams.observe.meters import Meters
from freki.streams.ports import Llm, Reranker, Scanner, TokenBudget
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels
from freki.streams.retrieve.handler import QueryHandler, noted
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.trace import Models, QueryTrace
from freki.streams.wire.rules import limits_of, rules_of
from tests.memory_index import MemoryIndex
from tests.parsing import parse_here
from tests.simulated_time import clock_of_quick_machine
from tests.unit.deliveries import DEAD_LETTERS, Event, FakeProducer, Sent, Spans, Waits
from tests.unit.questions import stores

MODELS = Models(embedder="fake@64", reranker="fake-reranker-1")


class Pipeline:
    """Takes changes and queries through real stages; embeds with a fake, and keeps the index in memory."""

    def __init__(  # noqa: PLR0913 - whatever a test wants otherwise
        self,
        *,
        content: bool = False,
        rerankers: Iterable[Reranker] = (),
        contexts: ContextSettings | None = None,
        llm: Llm | None = None,
        ledger: TokenBudget | None = None,
        index: MemoryIndex | None = None,
        reply_topics: Sequence[str] = (),
        scanner: Scanner | None = None,
        left_out: Callable[[TenantId], Exclusions] = lambda _: Exclusions(),
        log_candidates: bool = False,
        **options: Any,
    ) -> None:
        self.spans = Spans()
        self.producer = FakeProducer()
        outbox = Outbox(self.producer, self.spans.tracer)
        embedder = FakeEmbedder()
        self.index = index or MemoryIndex(
            Generation(name="g1", embedder=embedder.fingerprint, dim=embedder.dim, analyser=ANALYSER)
        )
        contexts = contexts or ContextSettings()
        writer = None
        if llm is not None and ledger is not None:
            writer = ContextWriter(rules_of(contexts), llm=llm, ledger=ledger, store=self.index, meters=Meters())
        limits = limits_of(ChunkingSettings(min_tokens=5, max_tokens=40))
        self.chunker = chunk = Chunker(
            claims=ClaimStore(ClaimSettings()),
            outliner=Outliner(
                OutlineRules(
                    limits=limits,
                    define=contexts.definitions,
                    lead_characters=contexts.document_chars if writer else 0,
                ),
                parse=parse_here,
                count_tokens=embedder.count_tokens,
            ),
            part_chunks=4,
            now=_now,
            tracer=self.spans.tracer,
            scanner=scanner,
        )
        self.indexer = indexer = Indexer(
            IndexRules(
                generation="g1",
                analyse_text=analyse_text,
                analyser=ANALYSER,
                slice_tokens=1_000,
            ),
            store=self.index,
            embedder=embedder,
            vectors=VectorCache("", 0),
            now=_now,
            tracer=self.spans.tracer,
        )
        self.retrieving = QueryHandler(
            Retriever(
                RetrievalModels(embedder=embedder, rerankers=list(rerankers)),
                stores(self.index),
                # However busy the machine is, each step has time, and no root gets old.
                QueryDefaults(
                    options=RetrievalSettings(**{"deadline_ms": 60_000, **options}).options, left_out=left_out
                ),
                Clocks(now=_now, ns=clock_of_quick_machine()),
            ),
            replies=Replies(Sink(outbox, "contexts", Codec(ContextResult).encode), noted=noted),
            reply_topics=reply_topics,
            max_query_chars=1_000,
            traces=QueryTrace(self.spans.tracer, models=MODELS, content=content),
            meters=Meters(),
            log_candidates=log_candidates,
        )
        self._deliveries: dict[str, Delivery[Any]] = {}
        for topic, decode, handle in (
            (
                "documents",
                or_tombstone(Codec(DocumentChange).decode),
                chunk_handler(chunk, Sink(outbox, "chunks", Codec(ChunkBatch).encode)),
            ),
            (
                "chunks",
                required(Codec(ChunkBatch).decode),
                contextualise_handler(
                    Sink(outbox, "contextual-chunks", Codec(ContextualChunkBatch).encode), write_contexts=writer
                ),
            ),
            (
                "contextual-chunks",
                required(Codec(ContextualChunkBatch).decode),
                embed_handler(indexer, Sink(outbox, "outcomes", Codec(IndexOutcome).encode), meters=Meters()),
            ),
        ):
            reject: OnDeadLetter[Any] = reject_with_receipt(
                Sink(outbox, "outcomes", Codec(IndexOutcome).encode), generation="g1", meters=Meters()
            )
            self._deliveries[topic] = self._delivery(topic, decode, handle, outbox, reject)
        self._deliveries["queries"] = self._delivery(
            "queries", required(Codec(ContextQuery).decode), self.retrieving.handle, outbox, self.retrieving.give_up
        )

    def _delivery(
        self,
        topic: str,
        decode: Callable[..., Any],
        handle: Callable[..., Any],
        outbox: Outbox,
        on_dead_letter: OnDeadLetter[Any],
    ) -> Delivery[Any]:
        return Delivery(
            topic,
            intake=Intake(decode),
            handle=handle,
            dead_letters=DeadLetterQueue(outbox, DEAD_LETTERS, on_dead_letter=on_dead_letter),
            tracer=self.spans.tracer,
            retry=Retry(topic, sleep=Waits()),
        )

    async def take(self, topic: str, *events: Event) -> None:
        """Take records through the stage of a topic."""
        await self._deliveries[topic].deliver(events, group="g")

    async def publish(self, *changes: DocumentChange, headers: Headers = ()) -> None:
        """Take changes to their outcomes, all in one batch."""
        events = [
            Event(
                topic="documents",
                key=record_key(change.tenant, change.document_id),
                value=Codec(DocumentChange).encode(change),
                headers=headers,
            )
            for change in changes
        ]
        before = {topic: len(self.producer.to(topic)) for topic in ("chunks", "contextual-chunks")}
        await self._deliveries["documents"].deliver(events, group="g")
        for topic, seen in before.items():
            await self._deliveries[topic].deliver(
                [_arrived(sent) for sent in self.producer.to(topic)[seen:]], group="g"
            )

    async def ask(self, query: ContextQuery, *, headers: Headers = ()) -> ContextResult:
        """Take a question to its answer, and until it is reported."""
        return (await self.ask_together(query, headers=headers))[-1]

    async def ask_together(self, *queries: ContextQuery, headers: Headers = ()) -> list[ContextResult]:
        """Take questions of one batch to their answers, in the order in which these were sent."""
        before = len(self.producer.to("contexts"))
        events = [
            Event(topic="queries", offset=offset, key=b"q", value=Codec(ContextQuery).encode(query), headers=headers)
            for offset, query in enumerate(queries)
        ]
        await self._deliveries["queries"].deliver(events, group="g")
        # Some may be answered beside their batch, and nobody is told of that.
        while not self.retrieving.is_idle:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return [Codec(ContextResult).decode(sent.value or b"") for sent in self.producer.to("contexts")[before:]]


def _arrived(sent: Sent) -> Event:
    return Event(topic=sent.topic, key=sent.key, value=sent.value, headers=sent.headers)


def _now() -> Timestamp:
    return Timestamp(time.time_ns() // 1_000_000)
