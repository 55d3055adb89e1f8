"""What the APIs of a process share: HTTP, gRPC, and agents."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from freki.client.tasks import cancel_and_wait
from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.schemas import IndexOutcome, Judgement, TenantId
from freki.schemas.avro import Codec
from freki.streams.client import ReceiptBoard
from freki.streams.deliver.outbox import Sink
from freki.streams.gateway import Direct, Documents, Gateway
from freki.streams.ports import QueryClient
from freki.streams.tools.client import ClientsByTenant, ReconnectingClient
from freki.streams.wire.connect import open_document_asker, open_outbox, open_publisher, open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock

Connect = Callable[[TenantId], AbstractAsyncContextManager[QueryClient]]


@asynccontextmanager
async def open_gateway(settings: Settings, *, connect: Connect, direct: Direct | None = None) -> AsyncIterator[Gateway]:
    """Open what all APIs of one process share.

    connect: opens a client for the queries of a tenant. direct: answers in this process, without the topics of queries.
    """
    topics = topics_of(settings)
    # A caller waits for it, and an idempotent producer would for ever.
    limit_s = settings.kafka.delivery_timeout_s
    async with AsyncExitStack() as opened:
        registry = await opened.enter_async_context(open_registry(settings))
        receipts = await opened.enter_async_context(
            Reader(settings.kafka, topics.outcomes.name, start="latest", registry=registry)
        )
        board = ReceiptBoard(receipts, Codec(IndexOutcome, registry=registry).decode)
        outbox, _ = await opened.enter_async_context(open_outbox(settings, limit_s=limit_s))
        asker: QueryClient
        documents: Documents
        if direct is not None:
            asker, documents = direct.asker, direct.documents
        else:
            asker = await opened.enter_async_context(_client_of(settings, connect))
            documents = await opened.enter_async_context(open_document_asker(settings))
        gateway = Gateway(
            publisher=await opened.enter_async_context(open_publisher(settings, limit_s=limit_s)),
            receipts=await opened.enter_async_context(board),
            asker=asker,
            documents=documents,
            judgements=Sink(outbox, topics.judgements.name, Codec(Judgement, registry=registry).encode),
            deadline_ms=settings.retrieval.deadline_ms,
            now=wall_clock,
            watching=None if direct is None else direct.asker,
        )
        if direct is None:
            # Direct calls are answered without the broker.
            watch = asyncio.create_task(gateway.watch_broker(receipts.check))
            opened.push_async_callback(cancel_and_wait, [watch])
        yield gateway


def _client_of(settings: Settings, connect: Connect) -> ReconnectingClient | ClientsByTenant:
    # One for all tenants, unless each has a topic of its own for answers.
    one = settings.auth.reply_topic is None
    return ReconnectingClient(partial(connect, TenantId(settings.tenant))) if one else ClientsByTenant(connect)
