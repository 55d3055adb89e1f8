"""Parts of the retrieve stage."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from freki.infra.caches import BoundedCache
from freki.infra.kafka import Reader
from freki.infra.models import OnnxReranker
from freki.infra.rerankers.remote import RemoteReranker
from freki.infra.rerankers.vertex import VertexReranker
from freki.schemas import ContextResult, DocumentReport, IndexOutcome, Judgement
from freki.schemas.avro import Codec
from freki.streams.deliver.replies import Replies
from freki.streams.documents.handler import DocumentHandler, ReportRules
from freki.streams.documents.handler import noted as noted_in_report
from freki.streams.ports import Reranker
from freki.streams.retrieve.cache.caching import CachedSearch, Caches, CachingRetriever
from freki.streams.retrieve.cache.epochs import Epochs, follow_outcomes
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels, Stores
from freki.streams.retrieve.follow_judgements import erase_deleted, erase_judgements, follow_judgements
from freki.streams.retrieve.handler import QueryHandler, noted, without_content
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.judged import JudgementBounds, Judgements
from freki.streams.retrieve.steps.llm_reranker import LlmReranker
from freki.streams.retrieve.steps.rewrite import Rewriter
from freki.streams.retrieve.trace import Models, QueryTrace
from freki.streams.topics import Topic
from freki.streams.wire.background import embed_judgements, follow
from freki.streams.wire.from_settings import MIB, analyser_of, fingerprints_of, profiles_of, thesaurus_of, wall_clock
from freki.streams.wire.topic_records import TopicRecords

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts


REPORT_BYTES = 900_000
"""Maximum length of a report, in bytes: consumers of Kafka fetch 1 MiB unless they are told otherwise."""
RECORD_MARGIN_BYTES = 4_096
"""Space for key and headers beside a value of the maximum size, in bytes."""


class QueryParts:
    """Parts of the retrieve stage."""

    def __init__(self, parts: "Parts") -> None:
        self._parts = parts
        self._settings = parts.settings

    async def open_handler(self) -> QueryHandler:
        """Open the retriever, load its models, and return the handler of queries."""
        parts, settings = self._parts, self._settings.retrieval
        results = parts.sink(ContextResult, parts.topics.contexts)
        retriever = await self.open_retriever()
        await retriever.warm_up()
        embedder = await parts.open_embedder()
        models = Models(embedder=embedder.fingerprint, reranker=self._settings.models.reranker or "")
        return QueryHandler(
            retriever,
            replies=Replies(results, noted=noted, emptied=without_content),
            reply_topics=settings.reply_topics,
            max_query_chars=settings.max_query_chars,
            traces=QueryTrace(parts.tracer, models=models, content=self._settings.telemetry.content),
            meters=parts.meters,
            authenticator=parts.authenticator,
            audit=parts.audit,
            limits=parts.query_limits,
            log_candidates=self._settings.telemetry.candidates,
        )

    async def open_document_handler(self) -> DocumentHandler:
        """Return the handler of questions about documents."""
        parts, settings = self._parts, self._settings
        reports = parts.sink(DocumentReport, parts.topics.document_reports)
        return DocumentHandler(
            await parts.open_index(),
            TopicRecords(settings, parts.registry),
            rules=ReportRules(
                generation=settings.milvus.generation,
                current=fingerprints_of(settings),
                max_bytes=min(REPORT_BYTES, settings.kafka.max_message_bytes - RECORD_MARGIN_BYTES),
                reply_topics=settings.retrieval.reply_topics,
            ),
            replies=Replies(reports, noted=noted_in_report),
            encode=reports.encode,
            now=wall_clock,
            admit=None if parts.authenticator is None else parts.authenticator.admit_question,
            audit=parts.audit,
            left_out=parts.objections.left_out,
        )

    async def open_retriever(self) -> Retriever | CachingRetriever:
        """Open the retriever, with the caches that the settings ask for."""
        parts, settings = self._parts, self._settings.retrieval
        index = await parts.open_index()
        caches = self._caches() if settings.cache_mb else None
        retriever = Retriever(
            RetrievalModels(
                embedder=await parts.open_embedder(),
                rerankers=await self._open_rerankers(),
                rewriter=await self._open_rewriter(),
                embeddings=caches.embeddings if caches else None,
                late_interaction=self._settings.models.reranker is not None,
            ),
            Stores(
                search=CachedSearch(index, rankings=caches.rankings, epochs=caches.epochs) if caches else index,
                rows=index,
                roots=index,
                strong=settings.strong,
                generation=self._settings.milvus.generation,
            ),
            QueryDefaults(
                options=settings.options,
                profiles=profiles_of(settings),
                analyse_text=analyser_of(self._settings.lexical).of_queries,
                left_out=parts.objections.left_out,
                thesaurus=thesaurus_of(settings),
            ),
            Clocks(now=wall_clock, ns=time.time_ns),
            judgements=await self._open_judgements(caches.epochs if caches else None),
            meters=parts.meters,
        )
        if caches is None:
            return retriever
        parts.objections.listeners.append(caches.epochs.changed)
        parts.opened.callback(parts.objections.listeners.remove, caches.epochs.changed)
        self._follow(
            parts.topics.outcomes,
            "latest",
            partial(
                follow_outcomes,
                epochs=caches.epochs,
                decode=parts.codec(IndexOutcome).decode,
                prepare=parts.prepare,
            ),
        )
        return CachingRetriever(
            retriever,
            caches=caches,
            search=index,
            roots=index,
            encode=Codec(ContextResult).encode,
            decode=Codec(ContextResult).decode,
            now=wall_clock,
        )

    def _caches(self) -> Caches:
        """Return the caches: half of the memory for results, the rest for rankings and query vectors."""
        settings = self._settings.retrieval

        def cache(name: str, share: float) -> BoundedCache[Any]:
            max_bytes = int(settings.cache_mb * MIB * share)
            return BoundedCache(name, most_bytes=max_bytes, seconds=settings.cache_s, calls=self._parts.calls)

        return Caches(
            embeddings=cache("question_vectors", 0.1),
            rankings=cache("rankings", 0.4),
            answers=cache("answers", 0.5),
            epochs=Epochs(strong=settings.strong),
        )

    async def _open_rerankers(self) -> list[Reranker]:
        """Open the rerankers that the settings name; cosine needs no connection."""
        parts, settings = self._parts, self._settings
        rerankers: list[Reranker] = []
        if settings.remote_reranker.url is not None:
            rerankers.append(await parts.opened.enter_async_context(RemoteReranker(settings.remote_reranker)))
        if settings.vertex_reranker.project is not None:
            rerankers.append(await parts.opened.enter_async_context(VertexReranker(settings.vertex_reranker)))
        if settings.llm.url is not None:
            rerankers.append(LlmReranker(await parts.open_llm(), parts.token_ledger()))
        if settings.models.cross_encoder is not None:
            reranker = OnnxReranker(settings.models, calls=parts.calls)
            rerankers.append(await parts.opened.enter_async_context(reranker))
        return rerankers

    async def _open_rewriter(self) -> Rewriter | None:
        """Open the rewriter of queries by a language model; None if the settings name no model."""
        settings = self._settings
        if settings.llm.url is None and settings.llm.model is None:
            return None
        return Rewriter(
            await self._parts.open_llm(), self._parts.token_ledger(), limit_s=settings.retrieval.widen_llm_s
        )

    async def _open_judgements(self, epochs: Epochs | None) -> Judgements | None:
        """Follow users' judgements of results; None if the settings disable them."""
        parts, settings = self._parts, self._settings.feedback
        if not settings.read:
            return None
        topics = parts.topics
        bounds = JudgementBounds(
            most=settings.most,
            most_of_judge=settings.most_of_judge,
            half_life_days=settings.half_life_days,
            least_cosine=settings.least_cosine,
        )
        judgements = Judgements(await parts.open_embedder(), bounds)
        take = partial(
            follow_judgements,
            judgements=judgements,
            decode=parts.codec(Judgement).decode,
            now=wall_clock,
            epochs=epochs,
            prepare=parts.prepare,
        )
        erase = partial(
            erase_deleted,
            judgements=judgements,
            decode=parts.codec(IndexOutcome).decode,
            erase=partial(erase_judgements, parts.outbox, topics.judgements.name),
            prepare=parts.prepare,
        )
        self._follow(topics.judgements, "earliest", take)
        self._follow(topics.outcomes, "latest", erase)
        parts.background.spawn(embed_judgements(judgements))
        return judgements

    def _follow(
        self, topic: Topic, start: Literal["earliest", "latest"], take: Callable[[Reader], Awaitable[None]]
    ) -> None:
        self._parts.background.spawn(follow(self._settings.kafka, topic.name, start, take))
