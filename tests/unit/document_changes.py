"""Changes of one document, for tests that compare its versions."""

from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp


def change(version: int, operation: Operation = Operation.UPSERT) -> DocumentChange:
    """Return a change of document `d` of tenant `t`; contents of different versions differ."""
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=operation,
        version=version,
        occurred_at=Timestamp(1),
        content=f"text {version}" if operation is Operation.UPSERT else None,
    )
