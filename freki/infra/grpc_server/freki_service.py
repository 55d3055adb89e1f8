"""The service `freki.v1.Freki`: documents and queries."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import grpc
from google.protobuf.message import Message

from freki.infra.api.callers import Callers, tenant_of
from freki.infra.api.gateway import MOST_WAIT_MS, Gateway
from freki.infra.api.sizes import MOST_VALUES, TOO_MANY_VALUES, QuerySizes
from freki.infra.grpc_server.calls import Call, CallFailed, answered, streamed, too_large, unary
from freki.infra.grpc_server.unread import OPEN_STREAM_BYTES, Unread
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    Operation,
    OutcomeStatus,
    QueryId,
    StageTime,
    Timestamp,
)
from freki.schemas.proto.convert import fill, values_of
from freki.schemas.proto.freki.v1 import freki_pb2 as proto
from freki.schemas.query_options import MAX_DEADLINE_MS

SERVICE = proto.DESCRIPTOR.services_by_name["Freki"].full_name


class FrekiService:
    """Answers calls by the gateway that all APIs share."""

    def __init__(self, gateway: Gateway, callers: Callers, *, tenant: str, sizes: QuerySizes, unread: Unread) -> None:
        """Create it; tenant: of calls that name none."""
        self._gateway = gateway
        self._callers = callers
        self._tenant = tenant
        self._sizes = sizes
        self._unread = unread

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handler of each method."""
        caller, publisher, sizes, unread = self._callers.caller, self._callers.publisher, self._sizes, self._unread
        indexes, deletes, changed = proto.IndexDocumentRequest, proto.DeleteDocumentRequest, proto.ChangeResponse
        asks, found, events = proto.RetrieveContextRequest, proto.ContextResult, proto.ContextEvent
        return {
            "IndexDocument": unary(publisher, self.index, indexes, changed, sizes=None, unread=unread),
            "DeleteDocument": unary(publisher, self.delete, deletes, changed, sizes=sizes, unread=unread),
            "RetrieveContext": unary(caller, self.retrieve, asks, found, sizes=sizes, unread=unread),
            "StreamContext": streamed(caller, self.stream, asks, events, sizes=sizes, unread=unread),
        }

    async def index(self, request: proto.IndexDocumentRequest, call: Call) -> proto.ChangeResponse:
        """Publish a document."""
        document = request.document
        if document.WhichOneof("content") is None:
            raise _invalid("document.content: give either `text` or `file`")
        values = values_of(document, DocumentChange)
        values["tenant"] = tenant_of(call.caller, values.get("tenant"), self._tenant)
        change = DocumentChange(operation=Operation.UPSERT, **values)
        return await self._publish(change, request.wait_ms, call)

    async def delete(self, request: proto.DeleteDocumentRequest, call: Call) -> proto.ChangeResponse:
        """Delete a document."""
        named = request.tenant if request.HasField("tenant") else None
        change = DocumentChange(
            tenant=tenant_of(call.caller, named, self._tenant),
            document_id=DocumentId(request.document_id),
            operation=Operation.DELETE,
            version=request.version,
            occurred_at=Timestamp(0),
        )
        return await self._publish(change, request.wait_ms, call)

    async def retrieve(self, request: proto.RetrieveContextRequest, call: Call) -> proto.ContextResult:
        """Answer a query."""
        query = self._query(request.query, call)
        return fill(proto.ContextResult(), answered(await self._gateway.ask(query, token=call.caller.token)))

    async def stream(
        self, request: proto.RetrieveContextRequest, call: Call
    ) -> AsyncGenerator[proto.ContextEvent, None]:
        """Answer a query step by step."""
        query = self._query(request.query, call)
        call.keep(OPEN_STREAM_BYTES)
        async with aclosing(self._gateway.stream(query, token=call.caller.token)) as heard:
            async for each in heard:
                if isinstance(each, StageTime):
                    yield proto.ContextEvent(step=fill(proto.StageTime(), each))
                else:
                    events = _events_of(answered(each))
                    call.keep(sum(event.ByteSize() for event in events))
                    for event in events:
                        yield event

    def _query(self, message: proto.ContextQuery, call: Call) -> ContextQuery:
        if _values(message) > MOST_VALUES:
            # Converting them would stall all callers.
            raise too_large(TOO_MANY_VALUES)
        values = values_of(message, ContextQuery)
        values["tenant"] = tenant_of(call.caller, values.get("tenant"), self._tenant)
        query = ContextQuery(**values | {"query_id": QueryId(""), "asked_at": Timestamp(0)})
        return in_time(query, call)

    async def _publish(self, change: DocumentChange, wait_ms: int, call: Call) -> proto.ChangeResponse:
        """Publish a change, and wait for its receipt as long as the call may take."""
        if not change.document_id:
            raise _invalid("document_id: it is empty; name the document")
        if not 0 <= wait_ms <= MOST_WAIT_MS or change.version < 0:
            raise _invalid(f"wait_ms: 0 to {MOST_WAIT_MS}; version: 0 or above")
        if change.occurred_at < 0:
            raise _invalid("occurred_at: 0 or above, in milliseconds since 1970")
        remaining_ms = call.remaining_ms
        wait_ms = wait_ms if remaining_ms is None else min(wait_ms, remaining_ms)
        receipt = await self._gateway.publish(change, wait_s=wait_ms / 1000)
        response = proto.ChangeResponse()
        if receipt is None:
            return response
        if receipt.status is OutcomeStatus.REJECTED:
            raise CallFailed(
                grpc.StatusCode.INVALID_ARGUMENT, receipt.reason, reason="REJECTED", version=str(receipt.version)
            )
        fill(response.receipt, receipt)
        return response


def in_time(query: ContextQuery, call: Call) -> ContextQuery:
    """Return a query whose answer leaves before the deadline of its call."""
    remaining_ms = call.remaining_ms
    if remaining_ms is None:
        return query
    limit_ms = min(remaining_ms, MAX_DEADLINE_MS)
    return replace(query, deadline_ms=limit_ms if query.deadline_ms is None else min(query.deadline_ms, limit_ms))


def _values(message: Message) -> int:
    """Return how many values the lists of a message hold, or a number above MOST_VALUES."""
    count = 0
    for field, value in message.ListFields():
        messages = [value] if field.message_type is not None else []
        if field.is_repeated:
            count += len(value)
            messages = value if messages else []
        for each in messages:
            if count > MOST_VALUES:
                return count
            count += _values(each)
    return count


def _events_of(result: ContextResult) -> list[proto.ContextEvent]:
    hits = [proto.ContextEvent(hit=fill(proto.ContextHit(), hit)) for hit in result.hits]
    rest = fill(proto.ContextResult(), replace(result, hits=()))
    return [*hits, proto.ContextEvent(result=rest)]


def _invalid(detail: str) -> CallFailed:
    return CallFailed(grpc.StatusCode.INVALID_ARGUMENT, detail, reason="INVALID")
