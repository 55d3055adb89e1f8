"""Parts of the retrieve stage."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from freki.infra.caches import BoundedCache
from freki.infra.elapsed import elapsed_ns
from freki.infra.kafka import Reader
from freki.infra.models import OnnxReranker, embed_once
from freki.infra.rerankers.remote import RemoteReranker
from freki.infra.rerankers.vertex import VertexReranker
from freki.infra.settings import Settings
from freki.schemas import ContextResult, DocumentReport, IndexOutcome, Judgement
from freki.schemas.avro import Codec
from freki.schemas.names import record
from freki.streams.deliver.replies import Replies, with_message
from freki.streams.documents.handler import DocumentHandler, ReportRules
from freki.streams.ports import Reranker
from freki.streams.retrieve.cache.caching import CachedSearch, Caches, CachingRetriever
from freki.streams.retrieve.cache.epochs import Epochs, follow_outcomes
from freki.streams.retrieve.cache.known_rows import KnownRows, RowCaches
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
from freki.streams.wire.from_settings import (
    MIB,
    allowed_reply_topics,
    analyser_of,
    profiles_of,
    thesaurus_of,
    wall_clock,
)
from freki.streams.wire.reload import TakeOver
from freki.streams.wire.rules import fingerprints_of
from freki.streams.wire.topic_records import TopicRecords

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts


REPORT_BYTES = 900_000
"""Maximum length of a report, in bytes: consumers of Kafka fetch 1 MiB unless they are told otherwise."""
RECORD_MARGIN_BYTES = 4_096
"""Space for key and headers beside a value of the maximum size, in bytes."""


_CACHE_SHARES = {"answers": 0.5, "rankings": 0.4, "question_vectors": 0.1}
"""Share of FREKI_RETRIEVAL__CACHE_MB that each cache has."""
MANIFEST_BYTES = 16 * MIB
"""Most bytes that are kept of places, and as many of manifest pages: of some 40,000 and 20,000 chunks."""
KEPT_S = 600.0
"""Time for which places, pages and rows are kept, in seconds: they never change, but their document may be gone."""
ROW_SHARES = {"match_codes": 0.75, "contents": 0.15, "passage_texts": 0.1}
"""Share of FREKI_RETRIEVAL__ROW_CACHE_MB of what is read of rows, about as much as a query reads of each."""


@record
class Handlers:
    """Handlers of the retrieve stage, and how they take over other settings."""

    queries: QueryHandler
    documents: DocumentHandler
    prepare: Callable[[Settings], TakeOver]
    """Check settings, and return what makes the handlers use them; raises Misconfigured."""


class QueryParts:
    """Parts of the retrieve stage."""

    def __init__(self, parts: "Parts") -> None:
        self._parts = parts
        self._settings = parts.settings
        self._rewriter: Rewriter | None = None
        self._caches: dict[str, BoundedCache[Any]] = {}
        """Those that stay when settings change."""

    async def open_handlers(self) -> Handlers:
        """Open the retriever, load its models, and return the handlers."""
        retriever = await self.open_retriever()
        await retriever.warm_up()
        queries, documents = await self._query_handler(retriever), await self._document_handler()

        def prepare(settings: Settings) -> TakeOver:
            retrieval, defaults = settings.retrieval, self._defaults(settings)
            reply_topics = allowed_reply_topics(settings)

            def take_over() -> None:
                self._settings = settings
                if self._rewriter is not None:
                    self._rewriter.limit_s = retrieval.widen_llm_s
                if isinstance(retriever, CachingRetriever):
                    retriever.take_over(defaults, self._renewed_answers())
                else:
                    retriever.take_over(defaults)
                queries.take_over(reply_topics=reply_topics, max_query_chars=retrieval.max_query_chars)
                documents.take_over(reply_topics)

            return take_over

        return Handlers(queries=queries, documents=documents, prepare=prepare)

    async def _query_handler(self, retriever: Retriever | CachingRetriever) -> QueryHandler:
        parts, settings, direct = self._parts, self._settings.retrieval, self._parts.mailboxes
        results = parts.sink(ContextResult, parts.topics.contexts)
        embedder = await parts.open_embedder()
        models = Models(embedder=embedder.fingerprint, reranker=self._settings.models.reranker or "")
        return QueryHandler(
            retriever,
            replies=Replies(results, noted=noted, emptied=without_content) if direct is None else direct.results,
            reply_topics=allowed_reply_topics(self._settings),
            max_query_chars=settings.max_query_chars,
            traces=QueryTrace(parts.tracer, models=models, content=self._settings.telemetry.content),
            meters=parts.meters,
            authenticator=parts.authenticator,
            audit=parts.audit,
            limits=parts.query_limits,
            log_candidates=self._settings.telemetry.candidates,
            on_step=None if direct is None else direct.on_step,
            encrypts_names=self._settings.encryption.keys is not None,
        )

    async def _document_handler(self) -> DocumentHandler:
        parts, settings = self._parts, self._settings
        reports = parts.sink(DocumentReport, parts.topics.document_reports)
        return DocumentHandler(
            await parts.open_index(),
            TopicRecords(settings, parts.registry),
            rules=ReportRules(
                generation=settings.milvus.generation,
                current=fingerprints_of(settings),
                max_bytes=min(REPORT_BYTES, settings.kafka.max_message_bytes - RECORD_MARGIN_BYTES),
                reply_topics=allowed_reply_topics(settings),
            ),
            replies=Replies(reports, noted=with_message) if parts.mailboxes is None else parts.mailboxes.reports,
            encode=reports.encode,
            now=wall_clock,
            admit=None if parts.authenticator is None else parts.authenticator.admit_document_query,
            audit=parts.audit,
            left_out=parts.objections.left_out,
        )

    def _defaults(self, settings: Settings) -> QueryDefaults:
        """Return how queries are parsed by these settings."""
        return QueryDefaults(
            options=settings.retrieval.options,
            profiles=profiles_of(settings.retrieval),
            analyse_text=analyser_of(settings.lexical).of_queries,
            left_out=self._parts.objections.left_out,
            thesaurus=thesaurus_of(settings.retrieval),
        )

    async def open_retriever(self) -> Retriever | CachingRetriever:
        """Open the retriever, with the caches that the settings ask for."""
        parts, settings = self._parts, self._settings.retrieval
        index, embedder = await parts.open_index_and_embedder()
        caches = self._open_caches() if settings.cache_mb else None
        self._rewriter = await self._open_rewriter()
        retriever = Retriever(
            RetrievalModels(
                embedder=embedder,
                rerankers=await self._open_rerankers(),
                rewriter=self._rewriter,
                embeddings=caches.embeddings if caches else None,
                embed_examples=partial(embed_once, embedder, directory=self._settings.models.cache_dir),
                late_interaction=self._settings.models.reranker is not None,
            ),
            Stores(
                search=CachedSearch(index, rankings=caches.rankings, epochs=caches.epochs) if caches else index,
                rows=KnownRows(index, self._row_caches()) if settings.row_cache_mb else index,
                roots=index,
                places=self._kept("places"),
                pages=self._kept("pages"),
                strong=settings.strong,
                generation=self._settings.milvus.generation,
            ),
            self._defaults(self._settings),
            # A machine may sleep between a look at roots and the answer that quotes them.
            Clocks(now=wall_clock, ns=elapsed_ns),
            judgements=await self._open_judgements(caches.epochs if caches else None),
            meters=parts.meters,
        )
        parts.opened.callback(retriever.close)
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

    def _open_caches(self) -> Caches:
        self._caches = {name: self._cache(name) for name in ("question_vectors", "rankings")}
        return Caches(
            embeddings=self._caches["question_vectors"],
            rankings=self._caches["rankings"],
            answers=self._cache("answers"),
            epochs=Epochs(strong=self._settings.retrieval.strong),
        )

    def _row_caches(self) -> RowCaches:
        most_bytes = self._settings.retrieval.row_cache_mb * MIB
        kept = {name: self._kept(name, int(share * most_bytes)) for name, share in ROW_SHARES.items()}
        return RowCaches(match_codes=kept["match_codes"], contents=kept["contents"], passages=kept["passage_texts"])

    def _kept(self, name: str, most_bytes: int = MANIFEST_BYTES) -> BoundedCache[Any]:
        return BoundedCache(name, most_bytes=most_bytes, seconds=KEPT_S, calls=self._parts.calls)

    def _cache(self, name: str) -> BoundedCache[Any]:
        return BoundedCache(
            name, most_bytes=self._room(name), seconds=self._settings.retrieval.cache_s, calls=self._parts.calls
        )

    def _room(self, name: str) -> int:
        return int(self._settings.retrieval.cache_mb * MIB * _CACHE_SHARES[name])

    def _renewed_answers(self) -> BoundedCache[Any]:
        """Give the caches the size that the settings say, and return an empty one for answers.

        The one before stays with the queries in flight, whose answers are made by the settings before.
        """
        for name, cache in self._caches.items():
            cache.resize(most_bytes=self._room(name), seconds=self._settings.retrieval.cache_s)
        return self._cache("answers")

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
        )
        erase = partial(
            erase_deleted,
            judgements=judgements,
            decode=parts.codec(IndexOutcome).decode,
            erase=partial(erase_judgements, parts.outbox, topics.judgements.name),
        )
        self._follow(topics.judgements, "earliest", take)
        self._follow(topics.outcomes, "latest", erase)
        parts.background.spawn(embed_judgements(judgements))
        return judgements

    def _follow(
        self, topic: Topic, start: Literal["earliest", "latest"], take: Callable[[Reader], Awaitable[None]]
    ) -> None:
        parts = self._parts
        parts.background.spawn(follow(self._settings.kafka, topic.name, start, take, registry=parts.registry))
