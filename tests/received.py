"""Changes of documents and queries as a stage gets them, where no topic lies between."""

from typing import TypeVar

from opentelemetry.context import Context

from freki.operators.identify import record_key
from freki.schemas import ContextQuery, DocumentChange, DocumentQuery, ErasureRequest, Timestamp
from freki.streams.messages import Headers, Received

Q = TypeVar("Q", ContextQuery, DocumentQuery)


def received(change: DocumentChange, timestamp: Timestamp) -> Received[DocumentChange | None]:
    """Put a change into the record that it would come in."""
    return Received(
        value=change,
        key=record_key(change.tenant, change.document_id),
        headers=(),
        topic="documents",
        partition=0,
        offset=0,
        timestamp=timestamp,
        trace=Context(),
    )


def received_query(
    query: Q, headers: Headers, *, partition: int = 0, offset: int = 0, timestamp: int = 0
) -> Received[Q]:
    """Put a query into the record that it would come in."""
    return Received(
        value=query,
        key=query.query_id.encode(),
        headers=headers,
        topic="queries",
        partition=partition,
        offset=offset,
        timestamp=Timestamp(timestamp),
        trace=Context(),
    )


def received_request(request: ErasureRequest, headers: Headers) -> Received[ErasureRequest]:
    """Put a request for an erasure into the record that it would come in."""
    return Received(
        value=request,
        key=request.request_id.encode(),
        headers=headers,
        topic="erasure-requests",
        partition=0,
        offset=0,
        timestamp=Timestamp(1),
        trace=Context(),
    )
