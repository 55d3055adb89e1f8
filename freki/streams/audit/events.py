"""What the audit log says of queries of both kinds and of changes."""

from collections.abc import Iterable, Mapping, Sequence

from freki.operators.audit_chain import Event
from freki.schemas import (
    AuditedDocument,
    AuditKind,
    ContextQuery,
    ContextResult,
    DocumentId,
    DocumentQuery,
    DocumentReport,
    RootId,
    TenantId,
)
from freki.schemas.identity import Refusal
from freki.schemas.index import Root
from freki.streams.audit.log import AuditLog
from freki.streams.messages import Received


def asked(audit: AuditLog, received: Received[ContextQuery], result: ContextResult) -> Event:
    """Return that a query was answered, with all documents whose text or place is in the result."""
    query = received.value
    given: list[tuple[DocumentId, int]] = []
    for hit in result.hits:
        given.append((hit.document_id, hit.version))
        given += [(other.document_id, other.version) for other in hit.duplicates]
    given += [(more.document_id, more.version) for more in result.expansions]
    return audit.event(
        AuditKind.ASKED,
        text=query.text,
        tenant=query.tenant,
        asker=received.asker,
        principals=tuple(query.principals),
        subject=query.query_id,
        documents=_distinct(given),
        reason=result.status,
    )


def reported(audit: AuditLog, received: Received[DocumentQuery], report: DocumentReport) -> Event:
    """Return that a document query was answered."""
    query = received.value
    named = [] if query.document_id is None else [(query.document_id, 0)]
    return audit.event(
        AuditKind.REPORTED,
        tenant=query.tenant,
        asker=received.asker,
        principals=tuple(query.principals),
        subject=query.query_id,
        documents=_distinct([(each.document_id, each.version) for each in report.documents] or named),
        reason=f"{query.kind} {report.status}",
    )


def refused(
    audit: AuditLog, received: Received[ContextQuery] | Received[DocumentQuery], reason: str, refusal: Refusal | None
) -> Event:
    """Return that a query of either kind was refused; refusal: of its token."""
    query, identity = received.value, None if refusal is None else refusal.identity
    text = query.text if isinstance(query, ContextQuery) else ""
    fields = {"text": text, "subject": query.query_id, "reason": reason}
    if refusal is None:
        return audit.event(
            AuditKind.REFUSED, tenant=query.tenant, asker=received.asker, principals=tuple(query.principals), **fields
        )
    if identity is None:
        # What a query with no valid token says of itself is nobody's word.
        return audit.event(AuditKind.REFUSED, **fields)
    return audit.event(
        AuditKind.REFUSED, tenant=identity.tenant, asker=identity.subject, principals=identity.principals, **fields
    )


def changed(roots: Iterable[Root], bases: Mapping[RootId, Root | None], *, generation: str) -> Sequence[Event]:
    """Return what the commit of these roots changes; bases: the standing ones before."""
    events = []
    for root in roots:
        base = bases.get(root.root_id)
        document = AuditedDocument(document_id=root.document_id, version=root.version)
        kind = AuditKind.DELETED if root.deleted else AuditKind.PUBLISHED
        events.append(_change(kind, root, document, generation))
        is_other = base is not None and not base.deleted and not root.deleted
        if is_other and base is not None and sorted(base.principals) != sorted(root.principals):
            events.append(_change(AuditKind.RIGHTS, root, document, generation, before=base.principals))
    return events


def groups_changed(tenant: TenantId, principal: str, *, before: Sequence[str], after: Sequence[str], by: str) -> Event:
    """Return that somebody has other groups now."""
    return Event(
        kind=AuditKind.GROUPS,
        tenant=tenant,
        asker=by,
        subject=principal,
        principals=tuple(after),
        principals_before=tuple(before),
    )


def letter_replayed(letter: str, record: str, *, by: str) -> Event:
    """Return that a dead letter is sent again to its topic; letter: its place, record: that of its record."""
    return Event(kind=AuditKind.PUBLISHED, asker=by, subject=record, reason=f"dead letter {letter} is sent again")


def reloaded(names: Sequence[str]) -> Event:
    """Return that this process takes over other values of these settings while it runs."""
    return Event(kind=AuditKind.SETTINGS, reason=f"while running: {', '.join(names)}")


def _change(
    kind: AuditKind, root: Root, document: AuditedDocument, generation: str, *, before: Sequence[str] = ()
) -> Event:
    return Event(
        kind=kind,
        tenant=root.tenant,
        principals=tuple(root.principals),
        principals_before=tuple(before),
        subject=generation,
        documents=(document,),
    )


def _distinct(documents: Iterable[tuple[DocumentId, int]]) -> tuple[AuditedDocument, ...]:
    return tuple(
        AuditedDocument(document_id=document_id, version=version) for document_id, version in dict.fromkeys(documents)
    )
