"""Open connections and clients from settings, for workers and commands."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.trace import Tracer

from freki.infra.claims import ClaimStore
from freki.infra.kafka import KafkaProducer, Reader
from freki.infra.keys import cipher_of
from freki.infra.registry import RegistryClient
from freki.infra.settings import MilvusSettings, Settings
from freki.infra.telemetry.traces import tracing
from freki.infra.tokens import TokenFile
from freki.operators.token_id import token_id
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Misconfigured
from freki.streams.client import Asker, DocumentAsker, Publisher, Receipts
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.feed.ledger import SourceLedger
from freki.streams.wire.from_settings import (
    index_of,
    reply_topics_of,
    topics_of,
)

if TYPE_CHECKING:
    from freki.infra.milvus.generations import MilvusGenerations
    from freki.infra.milvus.index import MilvusIndex

T = TypeVar("T")
CLIENT = "client"
"""Component of the traces of all that is opened here."""


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
async def open_index(settings: Settings, *, creates: bool = False) -> AsyncIterator["MilvusIndex"]:
    """Open the store without loading a model.

    creates: whether the generation is created where the store has only others; else raises Misconfigured.
    """
    # As in `from_settings`: most commands need neither store nor model.
    from freki.infra.models import embedder_identity  # noqa: PLC0415

    await _check_store(settings.milvus)
    if not creates:
        await _check_generation(settings)
    fingerprint, dim = embedder_identity(settings.models)
    async with index_of(settings, embedder=fingerprint, dim=dim) as index:
        yield index


@asynccontextmanager
async def open_generations(settings: Settings) -> AsyncIterator["MilvusGenerations"]:
    """Open the log of generations."""
    from freki.infra.milvus.generations import MilvusGenerations  # noqa: PLC0415

    await _check_store(settings.milvus)
    async with MilvusGenerations(settings.milvus) as log:
        yield log


async def _check_generation(settings: Settings) -> None:
    """Raise Misconfigured where the store has only other generations than the one in use."""
    name = settings.milvus.generation
    async with open_generations(settings) as log:
        stored = await log.stored()
    if stored and name not in stored:
        raise Misconfigured(
            f"there is no generation {name}; the store has {', '.join(stored)}: set FREKI_MILVUS__GENERATION to one of"
            f" these, or fill {name} with `freki generations create {name}`"
        )


async def _check_store(settings: MilvusSettings) -> None:
    """Raise Unavailable at once where nothing listens and nobody named a store, which may be about to come back."""
    from freki.infra.milvus.connection import check_listens  # noqa: PLC0415

    if "uri" not in settings.model_fields_set:
        await check_listens(settings)


@asynccontextmanager
async def open_outbox(settings: Settings, *, limit_s: float | None = None) -> AsyncIterator[tuple[Outbox, Tracer]]:
    """Open an outbox with its tracer; limit_s: most seconds to wait for the broker; None: as long as it takes."""
    async with AsyncExitStack() as opened:
        tracer = opened.enter_context(tracing(settings.telemetry, CLIENT))
        producer = await opened.enter_async_context(KafkaProducer(settings.kafka))
        yield Outbox(producer, tracer, limit_s=limit_s), tracer


@asynccontextmanager
async def open_publisher(
    settings: Settings, *, tombstones: bool = True, limit_s: float | None = None
) -> AsyncIterator[Publisher]:
    """Open a publisher of changes; limit_s: as of its outbox."""
    async with open_registry(settings) as registry, open_outbox(settings, limit_s=limit_s) as (outbox, _):
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
        Reader(settings.kafka, topics_of(settings).outcomes.name, start="latest", registry=registry) as reader,
        Receipts(reader, Codec(IndexOutcome, registry=registry).decode) as receipts,
    ):
        yield receipts


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
        readers = [
            await opened.enter_async_context(Reader(settings.kafka, name, start="latest", registry=registry))
            for name in names
        ]
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
async def open_document_asker(settings: Settings) -> AsyncIterator[DocumentAsker]:
    """Open a client for document queries, which reads the reports of all."""
    topics = topics_of(settings)
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics.document_reports.name, start="latest", registry=registry) as reader,
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
