"""Holds and objections in the terminal: both cover documents under a name, on a compacted topic, and are audited."""

import getpass
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from freki.cli.context import console, fail
from freki.cli.selection import pair
from freki.infra.settings import Settings
from freki.operators.audit_chain import Event
from freki.operators.validate_case import validate_case
from freki.schemas import AuditedDocument, AuditKind, Coverage, DocumentId, Hold, Objection, TenantId
from freki.schemas.avro import Codec
from freki.streams.messages import Outgoing
from freki.streams.privacy.standing import case_key
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import topics_of

Name = Annotated[str, typer.Argument(help="Name of the case, such as its number; the same name replaces it")]
Documents = Annotated[
    list[str] | None, typer.Argument(help="Ids, as `freki documents list` shows them; also of documents to come")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", help="All documents with this attribute, as KEY=VALUE; repeated: with all of them"),
]
Everything = Annotated[bool, typer.Option("--all", help="All documents of the tenant")]
Reason = Annotated[str, typer.Option(help="Why, for those who read the list; no personal data")]
Tenant = Annotated[str | None, typer.Option(help="Tenant of the documents; default: FREKI_TENANT")]

Case = Hold | Objection


def coverage_of(documents: list[str] | None, attributes: list[str] | None, *, everything: bool) -> Coverage:
    """Return what the arguments cover; whether that is valid is checked with the case."""
    return Coverage(
        documents=tuple(dict.fromkeys(DocumentId(each) for each in documents or ())),
        attributes=dict(pair(each) for each in attributes or ()),
        whole_tenant=everything,
    )


def whose(settings: Settings, tenant: str | None) -> TenantId:
    """Return the tenant that a command is about."""
    return TenantId(tenant or settings.tenant)


def by_user() -> str:
    """Return who runs the command, as the audit log names users of the system."""
    return f"os:{getpass.getuser()}"


async def put(settings: Settings, case: Case, kind: AuditKind) -> None:
    """Record a case in the audit log, then put it on its topic. Raises InvalidRequest."""
    validate_case(case)
    async with open_registry(settings) as registry:
        value = Codec(type(case), registry=registry).encode(case)
        await _send(settings, case, value, _event(case, kind, f"set: {case.reason}"))


async def end(settings: Settings, standing: Mapping[str, Case], name: str, kind: AuditKind, *, what: str) -> None:
    """End a case; end the command if none has this name."""
    if name not in standing:
        fail(f"there is no {what} {name!r} here; the command `list` shows them")
    case = standing[name]
    await _send(settings, case, None, _event(case, kind, "ended"))


def show(cases: Mapping[str, Case], *, nothing: str) -> None:
    """Print cases as a table."""
    table = Table("name", "covers", "since", "by", "reason", box=None)
    for name, case in sorted(cases.items()):
        at, by = (case.placed_at, case.placed_by) if isinstance(case, Hold) else (case.recorded_at, case.recorded_by)
        since = f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%dT%H:%MZ}" if at else "–"
        table.add_row(Text(name), Text(str(case.covers)), since, Text(by), Text(case.reason))
    console.print(table if table.row_count else nothing)


async def _send(settings: Settings, case: Case, value: bytes | None, event: Event) -> None:
    topics = topics_of(settings)
    topic = topics.holds if isinstance(case, Hold) else topics.objections
    async with AsyncExitStack() as opened:
        outbox, _ = await opened.enter_async_context(open_outbox(settings))
        audit = await opened.enter_async_context(open_audit(settings, outbox))
        if audit is not None:
            await audit.record(event)
        await outbox.send(Outgoing(topic=topic.name, key=case_key(case.tenant, case.name), value=value))


def _event(case: Case, kind: AuditKind, what: str) -> Event:
    # Names of attributes only: their values may name somebody, and the log is kept for long.
    covers = ["the whole tenant"] if case.covers.whole_tenant else sorted(case.covers.attributes)
    return Event(
        kind=kind,
        tenant=case.tenant,
        asker=by_user(),
        subject=case.name,
        documents=tuple(AuditedDocument(document_id=each, version=0) for each in case.covers.documents),
        reason="; ".join([what, *covers]),
    )
