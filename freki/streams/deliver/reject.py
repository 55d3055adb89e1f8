"""REJECTED receipts for changes that became dead letters."""

from typing import TypeVar

from opentelemetry.trace import get_current_span

from freki.schemas import (
    ChunkBatch,
    ContextualChunkBatch,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    OutcomeStatus,
    TenantId,
    Timestamp,
)
from freki.schemas.names import shown_time
from freki.streams.deliver.dead_letter_queue import OnDeadLetter
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.outbox import Sink
from freki.streams.messages import Received, recorded_at, version_in
from freki.streams.observe import attributes
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import describe, of_document

Source = DocumentChange | ChunkBatch | ContextualChunkBatch | None
T = TypeVar("T", bound=Source)


def reject_with_receipt(receipts: Sink[IndexOutcome], *, generation: str, meters: Meters) -> OnDeadLetter[T]:
    """Return a callback that sends a REJECTED receipt for each dead letter whose key names a document.

    The current span, that of the record, is told which document it was.
    """

    async def reject(letter: DeadLetter, received: Received[T] | None) -> None:
        tenant, slash, document_id = (letter.key or b"").decode(errors="replace").partition("/")
        if not slash:
            return
        version, occurred_at = (0, letter.timestamp) if received is None else _change(received)
        outcome = IndexOutcome(
            tenant=TenantId(tenant),
            document_id=DocumentId(document_id),
            version=version,
            status=OutcomeStatus.REJECTED,
            reason=f"{letter.stage}: {letter.message}",
            generation=generation,
            chunks=0,
            embedded=0,
            removed=0,
            tokens=0,
            occurred_at=occurred_at,
            recorded_at=recorded_at(letter.headers, letter.timestamp) if received is None else _recorded_at(received),
            received_at=letter.died_at,
            embedded_at=None,
            searchable_at=None,
        )
        describe(get_current_span(), lambda: {**of_document(outcome), attributes.FREKI_STATUS: outcome.status})
        trace = None if received is None else received.trace
        await receipts.send(receipts.record(outcome, key=letter.key, trace=trace))
        meters.count_receipt(outcome)

    return reject


def _recorded_at(received: Received[Source]) -> Timestamp:
    value = received.value
    return (
        value.revision.recorded_at
        if isinstance(value, ChunkBatch | ContextualChunkBatch)
        else recorded_at(received.headers, received.timestamp)
    )


def _change(received: Received[Source]) -> tuple[int, Timestamp]:
    value = received.value
    if value is None:
        return version_in(received.headers), recorded_at(received.headers, received.timestamp)
    source = value if isinstance(value, DocumentChange) else value.revision
    # It may be the reason for the rejection.
    return source.version, shown_time(source.occurred_at)
