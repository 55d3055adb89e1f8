"""Changes of documents as a stage gets them, where no topic lies between."""

from opentelemetry.context import Context

from freki.operators.identify import record_key
from freki.schemas import DocumentChange, Timestamp
from freki.streams.messages import Received


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
