"""Entries of the audit log for what commands do by themselves, on topics and in the store."""

import getpass
from collections.abc import Iterable, Sequence

from freki.infra.settings import Settings
from freki.operators.audit_chain import Event
from freki.schemas import AuditedDocument, AuditKind, DocumentId, TenantId
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox

MOST_DOCUMENTS = 1_000
"""Documents that one entry names; more get further ones."""


async def record_command(
    settings: Settings,
    kind: AuditKind,
    command: str,
    *,
    tenant: str = "",
    documents: Iterable[tuple[str, int]] = (),
) -> None:
    """Record what a command is about to do, where the settings want an audit log.

    command: its words; tenant: empty for all; documents: ids and versions. Raises Misconfigured without its key, and
    Unavailable where the log cannot be written: the command must not go on then.
    """
    if not settings.audit.enabled:
        return
    events = events_of(settings, kind, command, tenant=tenant, documents=documents)
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox) as audit:
        if audit is not None:
            await audit.record(*events)


def events_of(
    settings: Settings, kind: AuditKind, command: str, *, tenant: str, documents: Iterable[tuple[str, int]]
) -> Sequence[Event]:
    """Return the entries for a command: at least one, even if it is about no document."""
    named = [AuditedDocument(document_id=DocumentId(name), version=version) for name, version in documents]
    return [
        Event(
            kind=kind,
            tenant=TenantId(tenant),
            asker=f"os:{getpass.getuser()}",
            subject=settings.milvus.generation,
            documents=tuple(some),
            reason=command,
        )
        for some in ([named[at : at + MOST_DOCUMENTS] for at in range(0, len(named), MOST_DOCUMENTS)] or [[]])
    ]
