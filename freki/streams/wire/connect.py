"""Open connections and clients from settings, for workers and commands."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.trace import Tracer

from freki.infra.claims import ClaimStore
from freki.infra.kafka import Admin, KafkaProducer, Reader
from freki.infra.keys import cipher_of
from freki.infra.processes.child import Children
from freki.infra.registry import RegistryClient
from freki.infra.settings import Settings
from freki.infra.telemetry.traces import tracing
from freki.infra.tokens import TokenFile
from freki.operators.chunk import Similarities
from freki.operators.token_id import token_id
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
    Judgement,
    TenantId,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.client import Asker, DocumentAsker, Publisher, ReceiptBoard, Receipts
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.feed.ledger import SourceLedger
from freki.streams.gateway import Direct, Documents, Gateway
from freki.streams.ingest.ocr import OcrParser
from freki.streams.ingest.outline import CountTokens, Outliner, OutlineRules
from freki.streams.ingest.parse import Parse, by_weight, parse
from freki.streams.ports import QueryClient
from freki.streams.tools.client import ClientsByTenant, ReconnectingClient
from freki.streams.wire.from_settings import (
    index_of,
    limits_of,
    parse_limits_of,
    reply_topics_of,
    topics_of,
    wall_clock,
)

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex

T = TypeVar("T")
Connect = Callable[[TenantId], AbstractAsyncContextManager[QueryClient]]


@asynccontextmanager
async def open_parser(settings: Settings) -> AsyncIterator[Parse]:
    """Open a parser, with child processes for all but short text, and OCR if the settings have it."""
    # It loads a client of HTTP.
    from freki.infra.ocr import open_ocr  # noqa: PLC0415

    limits = parse_limits_of(settings)
    async with Children(partial(parse, limits=limits), settings.parsing) as parse_apart:
        parse_any, ocr = by_weight(parse_apart, limits), open_ocr(settings.ocr)
        yield parse_any if ocr is None else OcrParser(parse_any, ocr)


@asynccontextmanager
async def open_outliner(
    settings: Settings, count_tokens: CountTokens, *, similarities: Similarities | None = None
) -> AsyncIterator[Outliner]:
    """Open an outliner; similarities: for semantic chunking."""
    async with open_parser(settings) as parse_any:
        contexts = settings.contexts
        rules = OutlineRules(
            limits=limits_of(settings.chunking),
            define=contexts.definitions,
            lead_characters=contexts.document_chars if contexts.llm or contexts.summaries else 0,
            window_tokens=settings.models.late_window_tokens,
            apart=settings.models.apart,
        )
        yield Outliner(
            rules,
            parse=parse_any,
            count_tokens=count_tokens,
            similarities=similarities,
        )


@asynccontextmanager
async def open_registry(settings: Settings) -> AsyncIterator[RegistryClient | None]:
    """Open the schema registry and register Freki's contracts; None if no registry is set."""
    if settings.registry.url is None:
        yield None
        return
    async with RegistryClient(settings.registry) as registry:
        await registry.announce({topic.name: topic.holds for topic in topics_of(settings) if topic.holds is not None})
        yield registry


@asynccontextmanager
async def open_index(settings: Settings) -> AsyncIterator["MilvusIndex"]:
    """Open the store without loading a model."""
    # As in `from_settings`: most commands need no model.
    from freki.infra.models import embedder_identity  # noqa: PLC0415

    fingerprint, dim = embedder_identity(settings.models)
    async with index_of(settings, embedder=fingerprint, dim=dim) as index:
        yield index


@asynccontextmanager
async def open_outbox(settings: Settings) -> AsyncIterator[tuple[Outbox, Tracer]]:
    """Open an outbox with its tracer."""
    async with AsyncExitStack() as opened:
        tracer = opened.enter_context(tracing(settings.telemetry, "client"))
        producer = await opened.enter_async_context(KafkaProducer(settings.kafka))
        yield Outbox(producer, tracer), tracer


@asynccontextmanager
async def open_publisher(settings: Settings, *, tombstones: bool = True) -> AsyncIterator[Publisher]:
    """Open a publisher of changes."""
    async with open_registry(settings) as registry, open_outbox(settings) as (outbox, _):
        yield Publisher(
            outbox=outbox,
            encode=Codec(DocumentChange, registry=registry).encode,
            topic=topics_of(settings).documents.name,
            claims=ClaimStore(settings.claims, cipher_of(settings.encryption)),
            inline_bytes=settings.claims.inline_bytes,
            tombstones=tombstones,
        )


@asynccontextmanager
async def open_ledger(settings: Settings, source: str, kind: type[T]) -> AsyncIterator[SourceLedger[T]]:
    """Open the ledger of a source, and load its entries."""
    topic = topics_of(settings).sources.name
    async with open_outbox(settings) as (outbox, _):
        ledger = SourceLedger(source, kind, topic=topic, outbox=outbox)
        async with Reader(settings.kafka, topic, start="earliest") as reader:
            await ledger.read(reader.until_end())
        yield ledger


@asynccontextmanager
async def open_receipts(settings: Settings) -> AsyncIterator[Receipts]:
    """Open a reader of receipts from now on."""
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).outcomes.name, start="latest") as reader,
        Receipts(reader, Codec(IndexOutcome, registry=registry).decode) as receipts,
    ):
        yield receipts


@asynccontextmanager
async def open_gateway(settings: Settings, *, connect: Connect, direct: Direct | None = None) -> AsyncIterator[Gateway]:
    """Open what all doors of one process share.

    connect: opens a client for the queries of a tenant. direct: answers in this process, without the topics of queries.
    """
    topics = topics_of(settings)
    async with AsyncExitStack() as opened:
        registry = await opened.enter_async_context(open_registry(settings))
        receipts = await opened.enter_async_context(Reader(settings.kafka, topics.outcomes.name, start="latest"))
        board = ReceiptBoard(receipts, Codec(IndexOutcome, registry=registry).decode)
        outbox, _ = await opened.enter_async_context(open_outbox(settings))
        asker: QueryClient
        documents: Documents
        if direct is not None:
            asker, documents = direct.asker, direct.documents
        else:
            asker = await opened.enter_async_context(_client_of(settings, connect))
            documents = await opened.enter_async_context(open_document_asker(settings))
        yield Gateway(
            publisher=await opened.enter_async_context(open_publisher(settings)),
            receipts=await opened.enter_async_context(board),
            asker=asker,
            documents=documents,
            judgements=Sink(outbox, topics.judgements.name, Codec(Judgement, registry=registry).encode),
            deadline_ms=settings.retrieval.deadline_ms,
            now=wall_clock,
            watching=None if direct is None else direct.asker,
        )


def _client_of(settings: Settings, connect: Connect) -> ReconnectingClient | ClientsByTenant:
    # One for all tenants, unless each has a topic of its own for answers.
    one = settings.auth.reply_topic is None
    return ReconnectingClient(partial(connect, TenantId(settings.tenant))) if one else ClientsByTenant(connect)


@asynccontextmanager
async def open_asker(
    settings: Settings, *, answers_on: str | None = None, tenant: str | None = None
) -> AsyncIterator[Asker]:
    """Open a client for queries.

    answers_on: topic of the results; None: that of the tenant where it has one, else the contexts topic. tenant: of the
    queries; None: that of the settings.
    """
    topics = topics_of(settings)
    async with AsyncExitStack() as opened:
        registry = await opened.enter_async_context(open_registry(settings))
        # Refusals come where all answers come otherwise: a query whose token is refused has no tenant.
        names = [topics.contexts.name, *(each.name for each in reply_topics_of(settings, [tenant or settings.tenant]))]
        names = names if answers_on is None else [answers_on]
        readers = [await opened.enter_async_context(Reader(settings.kafka, name, start="latest")) for name in names]
        outbox, tracer = await opened.enter_async_context(open_outbox(settings))
        asker = Asker(
            queries=Sink(outbox, topics.queries.name, Codec(ContextQuery, registry=registry).encode),
            answers=readers,
            decode=Codec(ContextResult, registry=registry).decode,
            tracer=tracer,
            content=settings.telemetry.content,
            token=_token_of(settings),
            id_of_token=token_id if settings.auth.replay_window_s else None,
        )
        yield await opened.enter_async_context(asker)


@asynccontextmanager
async def open_document_asker(settings: Settings, *, answers_on: str | None = None) -> AsyncIterator[DocumentAsker]:
    """Open a client for questions about documents; answers_on: topic of the reports, by default that of all."""
    topics = topics_of(settings)
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, answers_on or topics.document_reports.name, start="latest") as reader,
        open_outbox(settings) as (outbox, _),
        DocumentAsker(
            queries=Sink(outbox, topics.document_queries.name, Codec(DocumentQuery, registry=registry).encode),
            answers=[reader],
            decode=Codec(DocumentReport, registry=registry).decode,
            token=_token_of(settings),
        ) as asker,
    ):
        yield asker


def _token_of(settings: Settings) -> TokenFile | None:
    return None if settings.auth.token_file is None else TokenFile(settings.auth.token_file)


async def apply_topics(settings: Settings, *, tenants: Sequence[str] = ()) -> tuple[str, ...]:
    """Create missing topics, and those of the answers to tenants; return their names."""
    topics = [*topics_of(settings), *reply_topics_of(settings, tenants)]
    async with Admin(settings.kafka) as admin:
        return await admin.ensure_topics(topics)


async def check_sources(settings: Settings, stages: Collection[tuple[str, str]]) -> None:
    """Raise Misconfigured unless these consumer groups and topics are accessible, for which Faust waits silently.

    stages: consumer group and topic of each stage.
    """
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions([topic for _, topic in stages])
        for _, topic in stages:
            if not partitions[topic]:
                raise _inaccessible(topic)
        # Lanes share groups.
        for group in dict.fromkeys(group for group, _ in stages):
            # Faust waits for the group's broker; a missing right is an error.
            with suppress(Unavailable):
                await admin.check_group(group)


async def check_shares(settings: Settings) -> None:
    """Raise Misconfigured unless all lanes have equally many partitions, so that one worker gets the same of each."""
    names = [topic.name for topic in topics_of(settings).contextual_chunks.values()]
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions(names)
    if missing := [name for name in names if not partitions[name]]:
        raise _inaccessible(missing[0])
    if len(set(partitions.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in partitions.items())
        raise Misconfigured(
            f"these topics must have equally many partitions, or two workers may write one document: {found};"
            " add partitions to the others"
        )


def _inaccessible(topic: str) -> Misconfigured:
    return Misconfigured(
        f"topic {topic} does not exist, or access is denied; create it with `freki topics apply`, or grant the rights"
        " that `freki topics acls` lists"
    )
