"""What happened to one document, from the records that are still on the topics."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Protocol

from freki.operators.identify import record_key
from freki.schemas import DocumentChange, DocumentEvent, DocumentId, IndexOutcome, Operation, TenantId, Timestamp
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.messages import Stored, edition_in, recorded_at, version_in


class DocumentRecords(Protocol):
    """Records of one document on the topics, from their beginning to their end."""

    def changes(self, key: bytes) -> AsyncIterator[tuple[Stored, DocumentChange | None]]:
        """Yield the changes with this key; None for a null value."""

    def receipts(self, key: bytes) -> AsyncIterator[tuple[Stored, IndexOutcome | None]]:
        """Yield the receipts with this key."""

    def letters(self, key: bytes) -> AsyncIterator[tuple[Stored, DeadLetter]]:
        """Yield the dead letters of records with this key."""


async def history_of(records: DocumentRecords, tenant: TenantId, document_id: DocumentId) -> list[DocumentEvent]:
    """Return what happened to a document, in the order of the times at which the broker had it."""
    key = record_key(tenant, document_id)
    events = [_change_event(stored, change) async for stored, change in records.changes(key)]
    events += [_receipt_event(stored, outcome) async for stored, outcome in records.receipts(key) if outcome]
    events += [_letter_event(stored, letter) async for stored, letter in records.letters(key)]
    return sorted(events, key=lambda event: event.at)


def _change_event(stored: Stored, change: DocumentChange | None) -> DocumentEvent:
    at = Timestamp(stored.timestamp_ms)
    if change is None:
        version = version_in(stored.headers)
        return DocumentEvent(
            at=at,
            what="null value",
            version=version,
            detail="removes earlier records of the document from its partition",
        )
    if change.operation is Operation.DELETE:
        return DocumentEvent(at=at, what="deletion", version=change.version, detail="")
    if edition_in(stored.headers):
        first = datetime.fromtimestamp(recorded_at(stored.headers, at) / 1000, UTC)
        detail = f"to reindex it; first recorded {first:%Y-%m-%dT%H:%M:%SZ}"
        return DocumentEvent(at=at, what="request", version=change.version, detail=detail)
    return DocumentEvent(at=at, what="change", version=change.version, detail=_content(change))


def _content(change: DocumentChange) -> str:
    if change.claim is not None:
        return f"{change.claim.size} bytes at {change.claim.uri}"
    if isinstance(change.content, bytes):
        return f"{len(change.content)} bytes"
    return f"{len(change.content or '')} characters"


def _receipt_event(stored: Stored, outcome: IndexOutcome) -> DocumentEvent:
    counts = f"chunks: {outcome.chunks}, embedded: {outcome.embedded}, removed: {outcome.removed}"
    return DocumentEvent(
        at=Timestamp(stored.timestamp_ms),
        what=outcome.status.lower(),
        version=outcome.version,
        detail=outcome.reason or counts,
    )


def _letter_event(stored: Stored, letter: DeadLetter) -> DocumentEvent:
    place = f"{stored.partition}/{stored.offset}"
    return DocumentEvent(at=letter.died_at, what="dead letter", version=0, detail=f"{place}: {letter.message}")
