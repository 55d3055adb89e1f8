"""What changes count towards limits of their tenants."""

import hashlib
from collections.abc import Sequence

from freki.schemas import DocumentChange, Operation, Revision
from freki.streams.limits.changes import ChangeLimits, Proposal
from freki.streams.messages import Received, edition_in


async def check_batch(limits: ChangeLimits, batch: Sequence[Received[DocumentChange | None]]) -> None:
    """Raise OverLimit if a limit refuses a change of the batch whatever its text is.

    Before any of them is worked on: a batch with a bad record is handled again in halves, so changes of other tenants
    would be parsed several times. Raises Unavailable.
    """
    for received in batch:
        change = received.value
        if change is not None and change.operation is Operation.UPSERT:
            size, digest = _content(change)
            await limits.check(upsert_of(change, received, published_bytes=size, content_hash=digest))


def upsert_of(
    change: DocumentChange,
    received: Received[DocumentChange | None],
    *,
    published_bytes: int,
    characters: int = 1,
    tokens: int = 1,
    content_hash: str = "",
) -> Proposal:
    """Return what a change counts; characters, tokens: 1 as long as they are not known."""
    return Proposal(
        tenant=change.tenant,
        document_id=change.document_id,
        version=change.version,
        at=received.timestamp,
        size=characters,
        published_bytes=published_bytes,
        tokens=tokens,
        content_hash=content_hash,
        forced=edition_in(received.headers) > 0,
    )


def removal_of(revision: Revision, received: Received[DocumentChange | None]) -> Proposal:
    """Return what a deletion counts: its room is free with its receipt."""
    return Proposal(
        tenant=revision.tenant,
        document_id=revision.document_id,
        version=revision.version,
        at=received.timestamp,
        size=None,
    )


def _content(change: DocumentChange) -> tuple[int, str]:
    """Return the size of the content in bytes, and its SHA-256."""
    if change.claim is not None:
        return change.claim.size, change.claim.sha256
    content = change.content or ""
    raw = content if isinstance(content, bytes) else content.encode()
    return len(raw), hashlib.sha256(raw).hexdigest()
