"""Receipts, as tests want them."""

from dataclasses import replace
from typing import Any

from freki.schemas import DocumentId, IndexOutcome, OutcomeStatus, TenantId, Timestamp

_PLAIN = IndexOutcome(
    tenant=TenantId("t"),
    document_id=DocumentId("d"),
    version=1,
    status=OutcomeStatus.INDEXED,
    reason="",
    generation="g1",
    chunks=0,
    embedded=0,
    removed=0,
    tokens=0,
    occurred_at=Timestamp(0),
    recorded_at=Timestamp(0),
    received_at=Timestamp(0),
    embedded_at=None,
    searchable_at=None,
)


def a_receipt(status: OutcomeStatus, **fields: Any) -> IndexOutcome:
    """Make a receipt of a document without chunks."""
    return replace(_PLAIN, status=status, **fields)
