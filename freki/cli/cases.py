"""Holds and objections in the terminal: both cover documents under a name, on a compacted topic, and are audited."""

import getpass
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import Tenant, not_empty, pair
from freki.cli.context import command, console, fail, load_settings
from freki.cli.rows import AsJson, Rows
from freki.cli.times import utc_of
from freki.infra.settings import Settings
from freki.operators.audit_chain import Event
from freki.operators.errors import InvalidRequest
from freki.operators.validate_case import validate_case
from freki.schemas import AuditedDocument, AuditKind, Coverage, DocumentId, Hold, Objection, TenantId
from freki.schemas.avro import Codec
from freki.streams.privacy.current_cases import case_key
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.topic_records import records_of

Name = Annotated[
    str, typer.Argument(help="Name of the case, such as its number; the same name replaces it", callback=not_empty)
]
ExistingName = Annotated[
    str, typer.Argument(help="Name of the case, as the command `list` shows it", callback=not_empty)
]
Documents = Annotated[
    list[str] | None,
    typer.Argument(help="Ids, as `freki documents list` shows them; also of documents to come", callback=not_empty),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        help="All documents with this attribute, as KEY=VALUE; repeated: with all of them",
        callback=not_empty,
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="All documents of the tenant")]
Reason = Annotated[str, typer.Option(help="Why, for those who read the list; no personal data", callback=not_empty)]

Case = Hold | Objection


def coverage_of(documents: list[str] | None, attributes: list[str] | None, *, everything: bool) -> Coverage:
    """Return what the arguments cover; end the command unless they say it in one way."""
    covers = Coverage(
        documents=tuple(dict.fromkeys(DocumentId(each) for each in documents or ())),
        attributes=dict(pair(each) for each in attributes or ()),
        whole_tenant=everything,
    )
    if covers.ways != 1:
        fail("name documents, or give --attribute, or --all; exactly one of these", code=2)
    return covers


def whose(settings: Settings, tenant: str | None) -> TenantId:
    """Return the tenant that a command is about."""
    return TenantId(tenant or settings.tenant)


def by_user() -> str:
    """Return who runs the command, as the audit log names users of the system."""
    return f"os:{getpass.getuser()}"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Holds or objections: what is their own."""

    noun: str
    make: Callable[[TenantId, str, Coverage, str, str], Case]
    """Makes a case of tenant, name, coverage, reason and user, at this time."""
    read: Callable[[Settings, TenantId], Awaitable[Mapping[str, Case]]]
    """Reads those of a tenant that stand, by name."""
    audited: AuditKind
    set_help: str
    set_said: str
    """Printed when a case is set; formatted with the case."""
    end_command: str
    end_help: str
    ended: str
    """What a case is that has ended."""


def case_app(kind: Kind, *, help_text: str) -> typer.Typer:
    """Return the commands that set, end and list the cases of a kind."""
    app = typer.Typer(help=help_text, no_args_is_help=True)

    @app.command("set", help=kind.set_help)
    @command
    async def set_case(
        name: Name,
        documents: Documents = None,
        *,
        attribute: Attributes = None,
        everything: Everything = False,
        reason: Reason,
        tenant: Tenant = None,
    ) -> None:
        settings = load_settings()
        covers = coverage_of(documents, attribute, everything=everything)
        case = kind.make(whose(settings, tenant), name, covers, reason, by_user())
        try:
            validate_case(case)
        except InvalidRequest as error:
            fail(str(error), code=2)
        before = (await kind.read(settings, case.tenant)).get(name)
        async with open_registry(settings) as registry:
            value = Codec(type(case), registry=registry).encode(case)
            await _send(settings, case, value, _event(case, kind.audited, f"set: {case.reason}"))
        console.print(kind.set_said.format(case=case), markup=False)
        if before is not None and (left := before.covers.beyond(covers)).ways:
            text = f"{name} replaced one that named {left}: to cover these too, set {name} again and name all"
            console.print(Text(text, style="yellow"), soft_wrap=True)

    @app.command(kind.end_command, help=kind.end_help)
    @command
    async def end_case(name: ExistingName, tenant: Tenant = None) -> None:
        settings = load_settings()
        of = whose(settings, tenant)
        standing = await kind.read(settings, of)
        if name not in standing:
            fail(f"tenant {of} has no {kind.noun} {name!r}: the command `list` shows them; --tenant selects another")
        await _send(settings, standing[name], None, _event(standing[name], kind.audited, "ended"))
        console.print(f"{name} of {of} is {kind.ended}", markup=False)

    @app.command("list", help=f"List the {kind.noun}s of a tenant.")
    @command
    async def list_cases(*, tenant: Tenant = None, as_json: AsJson = False) -> None:
        settings = load_settings()
        rows = Rows("name", "covers", "since", "by", "reason", as_json=as_json)
        for name, case in sorted((await kind.read(settings, whose(settings, tenant))).items()):
            at, by = (
                (case.placed_at, case.placed_by) if isinstance(case, Hold) else (case.recorded_at, case.recorded_by)
            )
            rows.add({"name": name, "covers": str(case.covers), "since": utc_of(at), "by": by, "reason": case.reason})
        rows.end(nothing=f"tenant {whose(settings, tenant)} has no {kind.noun}s")

    return app


async def _send(settings: Settings, case: Case, value: bytes | None, event: Event) -> None:
    topics = topics_of(settings)
    topic = topics.holds if isinstance(case, Hold) else topics.objections
    async with AsyncExitStack() as opened:
        outbox, _ = await opened.enter_async_context(open_outbox(settings))
        audit = await opened.enter_async_context(open_audit(settings, outbox))
        if audit is not None:
            await audit.record(event)
        key = case_key(case.tenant, case.name)
        await outbox.send(*await records_of(settings, topic.name, type(case), key, value))


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
