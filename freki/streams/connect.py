"""Opens what lies outside, as the settings say: for workers, and for commands that talk to a running Freki."""

import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

from opentelemetry.trace import Tracer

from freki.infra.claims import ClaimStore
from freki.infra.kafka import Admin, KafkaProducer, Reader
from freki.infra.milvus.index import MilvusIndex
from freki.infra.models import apart_identities, embedder_identity
from freki.infra.models.tokens import open_counter
from freki.infra.processes.child import Children
from freki.infra.registry import RegistryClient
from freki.infra.settings import (
    PROFILES,
    ChunkingSettings,
    ChunkProfile,
    ContextSettings,
    LexicalSettings,
    RetrievalSettings,
    Settings,
)
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.traces import tracing
from freki.operators.analyse_text import ANALYSER, PLAIN, analyse_text, plain_terms, query_terms
from freki.operators.chunk import ChunkLimits, Similarities
from freki.operators.recognise import Profile
from freki.schemas import (
    CitationStyle,
    ContextQuery,
    ContextResult,
    DocumentChange,
    Fusion,
    IndexOutcome,
    Metric,
    RerankerChoice,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import Generation
from freki.streams.client import Asker, Publisher, Receipts
from freki.streams.deliver.outbox import Outbox
from freki.streams.feed.ledger import SourceLedger
from freki.streams.ingest.context_prompts import ContextRules
from freki.streams.ingest.outline import CountTokens, Outliner, OutlineRules
from freki.streams.ingest.parse import ParseLimits, by_weight, parse
from freki.streams.ports import AnalyseText
from freki.streams.retrieve.profiles import ReaderProfile
from freki.streams.retrieve.query_options import QueryOptions
from freki.streams.topics import Topics

T = TypeVar("T")


def wall_clock() -> Timestamp:
    """Milliseconds since 1970."""
    return Timestamp(time.time_ns() // 1_000_000)


def topics_of(settings: Settings) -> Topics:
    """Name and size the topics."""
    kafka = settings.kafka
    return Topics.from_settings(
        prefix=kafka.topic_prefix,
        version=kafka.topic_version,
        generation=settings.milvus.generation,
        partitions=kafka.partitions,
        replication=kafka.replication,
        max_message_bytes=kafka.max_message_bytes,
    )


def group_of(settings: Settings, name: str) -> str:
    """Give a consumer group its whole name: each generation reads the stream for itself."""
    return f"{settings.kafka.topic_prefix}-{settings.milvus.generation}-{name}"


def options_of(settings: RetrievalSettings) -> QueryOptions:
    """Give the options of a query that turns none."""
    return QueryOptions(
        top_k=settings.top_k,
        candidates=None,
        fusion=Fusion(settings.fusion),
        alpha=None,
        hybrid_alpha=settings.hybrid_alpha,
        keyword_alpha=settings.keyword_alpha,
        lexical_pivot=settings.lexical_pivot,
        rrf_k=settings.rrf_k,
        widen=settings.widen,
        widen_when=settings.widen_when,
        metric=Metric.COSINE,
        reranker=RerankerChoice(settings.reranker),
        rerank_candidates=settings.rerank_candidates,
        rerank_blend=None,
        usual_blend=settings.usual_blend,
        exact_blend=settings.exact_blend,
        fold_at=settings.fold_at,
        per_document=settings.per_document,
        mmr_lambda=settings.mmr_lambda,
        min_score=settings.min_score,
        parents=settings.parents,
        neighbours=settings.neighbours,
        context_tokens=settings.context_tokens,
        citations=CitationStyle(settings.citations),
        exact=settings.exact,
        prototypes=settings.prototypes,
        deadline_ms=settings.deadline_ms,
        min_similarity=settings.min_similarity,
        expand_documents=settings.expand_documents,
        expand_chunks=settings.expand_chunks,
        expand_similarity=settings.expand_similarity,
        unrelated_cosine=settings.unrelated_cosine,
        related_cosine=settings.related_cosine,
        feedback=settings.feedback,
        cached=settings.cache_mb > 0,
    )


def profiles_of(settings: RetrievalSettings) -> Mapping[str, ReaderProfile]:
    """Give the profiles that queries may name by the model that reads the context."""
    return {
        name: ReaderProfile(
            context_tokens=profile.context_tokens,
            top_k=profile.hits,
            min_similarity=profile.min_similarity,
            count_tokens=None if profile.tokenizer is None else open_counter(profile.tokenizer),
        )
        for name, profile in {**PROFILES, **settings.profiles}.items()
    }


def limits_of(settings: ChunkingSettings) -> Mapping[Profile, ChunkLimits]:
    """Give the sizes of chunks by kind of document."""

    def limits(profile: ChunkProfile) -> ChunkLimits:
        return ChunkLimits(
            min_tokens=settings.min_tokens,
            max_tokens=settings.max_tokens,
            max_chars=profile.max_chars,
            overlap_chars=profile.overlap_chars,
            least_similarity=settings.least_similarity,
        )

    return {
        Profile.MARKDOWN: limits(settings.markdown),
        Profile.RST: limits(settings.markdown),
        Profile.HTML: limits(settings.html),
        Profile.TEXT: limits(settings.text),
        Profile.CODE: limits(settings.code),
        Profile.PDF: limits(settings.pdf),
        Profile.DOCX: limits(settings.docx),
        Profile.ODT: limits(settings.docx),
        Profile.ODP: limits(settings.docx),
        Profile.ODS: limits(settings.docx),
        Profile.PPTX: limits(settings.docx),
        Profile.XLSX: limits(settings.docx),
        Profile.EMAIL: limits(settings.text),
    }


def rules_of(settings: ContextSettings) -> ContextRules:
    """Say what a language model is to write."""
    return ContextRules(
        contexts=settings.llm,
        summaries=settings.summaries,
        batch_chunks=settings.batch_chunks,
        min_chars=settings.min_chars,
        max_tokens_document=settings.max_tokens_document,
    )


class Analyser(NamedTuple):
    """What makes terms of chunks, and of queries."""

    version: str
    of_chunks: AnalyseText
    of_queries: AnalyseText


def analyser_of(settings: LexicalSettings) -> Analyser:
    """Give the chosen analyser."""
    if settings.analyser == "plain":
        return Analyser(PLAIN, plain_terms, plain_terms)
    return Analyser(ANALYSER, analyse_text, query_terms)


def index_of(settings: Settings, *, embedder: str, dim: int, calls: Calls | None = None) -> MilvusIndex:
    """Describe the store of the generation in use."""
    generation = Generation(
        name=settings.milvus.generation,
        embedder=embedder,
        dim=dim,
        analyser=analyser_of(settings.lexical).version,
        apart=apart_identities(settings.models),
    )
    return MilvusIndex(settings.milvus, generation, calls)


def parse_limits_of(settings: Settings) -> ParseLimits:
    """Give how much of a document is parsed."""
    return ParseLimits(
        max_characters=settings.chunking.max_characters,
        max_pages=settings.parsing.max_pages,
        max_unpacked_bytes=settings.parsing.max_unpacked_mb << 20,
    )


@asynccontextmanager
async def open_outliner(
    settings: Settings, count_tokens: CountTokens, *, similarities: Similarities | None = None
) -> AsyncIterator[Outliner]:
    """Open what parses, all but short text in processes of its own, and chunks; by `similarities` where that is set."""
    limits = parse_limits_of(settings)
    async with Children(partial(parse, limits=limits), settings.parsing) as parse_apart:
        contexts = settings.contexts
        rules = OutlineRules(
            limits=limits_of(settings.chunking),
            define=contexts.definitions,
            lead_characters=contexts.document_chars if contexts.llm or contexts.summaries else 0,
            window_tokens=settings.models.late_window_tokens,
            apart=settings.models.apart,
        )
        yield Outliner(
            rules, parse=by_weight(parse_apart, limits), count_tokens=count_tokens, similarities=similarities
        )


@asynccontextmanager
async def open_registry(settings: Settings) -> AsyncIterator[RegistryClient | None]:
    """Open the schema registry and announce our contracts; None where none is set."""
    if settings.registry.url is None:
        yield None
        return
    async with RegistryClient(settings.registry) as registry:
        await registry.announce({topic.name: topic.holds for topic in topics_of(settings) if topic.holds is not None})
        yield registry


@asynccontextmanager
async def open_index(settings: Settings) -> AsyncIterator[MilvusIndex]:
    """Open the store without loading a model."""
    fingerprint, dim = embedder_identity(settings.models)
    async with index_of(settings, embedder=fingerprint, dim=dim) as index:
        yield index


@asynccontextmanager
async def open_outbox(settings: Settings) -> AsyncIterator[tuple[Outbox, Tracer]]:
    """Open a way to send records."""
    async with AsyncExitStack() as opened:
        tracer = opened.enter_context(tracing(settings.telemetry, "client"))
        producer = await opened.enter_async_context(KafkaProducer(settings.kafka))
        yield Outbox(producer, tracer), tracer


@asynccontextmanager
async def open_publisher(settings: Settings, *, tombstones: bool = True) -> AsyncIterator[Publisher]:
    """Open a way to publish changes."""
    async with open_registry(settings) as registry, open_outbox(settings) as (outbox, _):
        yield Publisher(
            outbox=outbox,
            encode=Codec(DocumentChange, registry=registry).encode,
            topic=topics_of(settings).documents.name,
            claims=ClaimStore(settings.claims),
            inline_bytes=settings.claims.inline_bytes,
            tombstones=tombstones,
        )


@asynccontextmanager
async def open_ledger(settings: Settings, source: str, kind: type[T]) -> AsyncIterator[SourceLedger[T]]:
    """Open what a source has published."""
    topic = topics_of(settings).sources.name
    async with open_outbox(settings) as (outbox, _):
        ledger = SourceLedger(source, kind, topic=topic, outbox=outbox)
        async with Reader(settings.kafka, topic, start="earliest") as reader:
            await ledger.read(reader.until_end())
        yield ledger


@asynccontextmanager
async def open_receipts(settings: Settings) -> AsyncIterator[Receipts]:
    """Collect outcomes from now on."""
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).outcomes.name, start="latest") as reader,
        Receipts(reader, Codec(IndexOutcome, registry=registry).decode) as receipts,
    ):
        yield receipts


@asynccontextmanager
async def open_asker(settings: Settings, *, answers_on: str | None = None) -> AsyncIterator[Asker]:
    """Open a way to ask; answers are read from the contexts topic, or from the one that questions name."""
    topics = topics_of(settings)
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, answers_on or topics.contexts.name, start="latest") as reader,
        open_outbox(settings) as (outbox, tracer),
        Asker(
            outbox=outbox,
            answers=reader,
            encode=Codec(ContextQuery, registry=registry).encode,
            decode=Codec(ContextResult, registry=registry).decode,
            topic=topics.queries.name,
            tracer=tracer,
            content=settings.telemetry.content,
        ) as asker,
    ):
        yield asker


async def apply_topics(settings: Settings) -> tuple[str, ...]:
    """Create the topics that are missing; give their names."""
    async with Admin(settings.kafka) as admin:
        return await admin.ensure_topics(list(topics_of(settings)))


async def check_sources(settings: Settings, stages: Collection[tuple[str, str]]) -> None:
    """Raise Misconfigured unless each of these consumer groups may be seen, and its topic: Faust waits in silence."""
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions([topic for _, topic in stages])
        for _, topic in stages:
            if not partitions[topic]:
                raise _not_seen(topic)
        # Lanes share groups.
        for group in dict.fromkeys(group for group, _ in stages):
            # Whether the group's broker is up is Faust's to wait for; what may not be seen is refused even so.
            with suppress(Unavailable):
                await admin.check_group(group)


async def check_shares(settings: Settings) -> None:
    """Raise Misconfigured unless a partition of one lane has its like in every other: one worker gets all of them."""
    names = [topic.name for topic in topics_of(settings).contextual_chunks.values()]
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions(names)
    if missing := [name for name in names if not partitions[name]]:
        raise _not_seen(missing[0])
    if len(set(partitions.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in partitions.items())
        raise Misconfigured(
            f"these topics need equally many partitions, or two workers may write one document: {found}"
        )


def _not_seen(topic: str) -> Misconfigured:
    return Misconfigured(
        f"topic {topic} does not exist, or may not be read; create it with `freki topics apply`, or give the right that"
        " `freki topics acls` lists"
    )
