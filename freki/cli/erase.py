"""`freki erase`: remove all content of documents, with a signed report; `freki erase verify` searches again."""

import getpass
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from freki.cli.arguments import expanded
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.erasure import destroy_keys, find, remove, strip
from freki.cli.outcomes import PATIENCE_S, collect, send
from freki.cli.selection import SelectionArguments
from freki.infra.settings import Settings
from freki.infra.signing import SigningKey, read_verifier
from freki.operators.audit_chain import Event
from freki.operators.identify import root_id
from freki.schemas import (
    AuditedDocument,
    AuditKind,
    DocumentChange,
    DocumentId,
    Operation,
    OutcomeStatus,
    TenantId,
    Timestamp,
)
from freki.schemas.index import Root, Selection
from freki.streams.documents.listing import selected
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_index, open_outbox, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock


class _Documents(TyperGroup):
    """A group whose first word may be a document, or an option of the erasure."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer has a copy of click's
        """Put in the name of the command that erases."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["documents", *args]
        return super().parse_args(ctx, args)


erase_app = typer.Typer(cls=_Documents, help="Remove all content of documents, with a signed report.")


@erase_app.command("documents")
@command
@expanded
async def erase(  # noqa: C901 - its steps in their order
    documents: Annotated[list[str] | None, typer.Argument(help="Ids, as `freki documents list` shows them")] = None,
    *,
    given: SelectionArguments,
    where: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="The same as --attribute")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking")] = False,
    report: Annotated[Path, typer.Option(help="New file for the report")],
    key: Annotated[
        Path | None, typer.Option(help="Private key that signs the report; default: FREKI_AUDIT__KEY_FILE")
    ] = None,
    patience: Annotated[float, typer.Option(help="Give up after this many seconds without a receipt")] = PATIENCE_S,
) -> None:
    """Remove all content of documents, given by id, by conditions, or all of --tenant.

    The report names what was found where, what was removed, and what remains until when; it holds no content.
    """
    settings = load_settings()
    given = replace(given, attribute=[*(given.attribute or []), *(where or [])] or None)
    if bool(documents) == (given.is_given() or (given.tenant is not None and not documents)):
        fail("name documents, or give conditions such as --where, or --tenant alone", code=2)
    if report.exists():
        fail(f"{report} exists: name a new file", code=2)
    key = key or settings.audit.key_file
    if key is None:
        fail("no key signs the report: name one by --key; `freki audit keys make FILE` makes one", code=2)
    signer = SigningKey.read(key)
    selection = given.selection(settings)
    tenant = selection.tenant
    roots = await _roots(settings, selection, documents)
    names = sorted(documents or {str(root.document_id) for root in roots})
    if not names:
        console.print("nothing to erase")
        return
    begun = wall_clock()
    found = await find(settings, tenant, names)
    indexed = {str(root.document_id): root.version for root in roots}
    versions = {name: max(indexed.get(name, 0), found.versions.get(name, 0)) for name in names}
    for name in names:
        if name not in found.versions and name not in indexed:
            fail(f"tenant {tenant} has no document {name!r}: `freki documents list` shows them")
        console.print(Text(f"{name}  version {versions[name]}"), soft_wrap=True)
    if not yes:
        if not console.is_terminal:
            fail(f"this would erase {len(names)} documents: give --yes to do it", code=2)
        if not typer.confirm(f"Erase {len(names)} documents?"):
            raise typer.Exit(1)
    await _record(settings, tenant, versions)
    await _delete(settings, tenant, versions, patience_s=patience)
    # Changes may have come between the first search and the deletion.
    there = await find(settings, tenant, names, claims=found.claimed)
    done = await remove(settings, tenant, names, there, patience_s=patience)
    # Copies of rows in files that the store has not removed yet cannot be read from now on.
    destroyed = await destroy_keys(settings, tenant, names)
    async with open_index(settings) as index:
        keys = [root_id(tenant, DocumentId(name)) for name in names]
        stripped = await strip(index, list((await index.roots(keys)).values()))
    left = await find(settings, tenant, names, claims=found.claimed)
    body: dict[str, Any] = {
        "format": 1,
        "tenant": tenant,
        "documents": [{"id": name, "version": versions[name]} for name in names],
        "begun_ms": begun,
        "finished_ms": wall_clock(),
        "claims": sorted(found.claimed | there.claimed),
        "found": found.described(),
        "fences": stripped,
        "data_keys": destroyed,
        **done,
        "left": left.described(),
    }
    report.write_text(
        json.dumps({"report": body, "signature": signer.sign(_message(body))}, ensure_ascii=False, indent=1) + "\n"
    )
    _show(body)
    console.print(f"report: {report}")
    if left.rows or left.claims:
        raise typer.Exit(1)


@erase_app.command("verify")
@command
async def verify(
    report: Annotated[Path, typer.Argument(help="Report of an erasure")],
    *,
    public_key: Annotated[Path, typer.Option(help="Public key of who erased, in PEM")],
) -> None:
    """Check the signature of a report, and search for the content of its documents."""
    settings = load_settings()
    try:
        document = json.loads(report.read_bytes())
        body, signature = document["report"], document["signature"]
        names = [each["id"] for each in body["documents"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        fail(f"{report} is no report of an erasure: {error}")
    if not read_verifier([public_key])(_message(body), signature):
        fail(f"{report} is not signed by {public_key}: another key signed it, or it was changed")
    console.print("the signature is right")
    left = await find(settings, TenantId(body["tenant"]), names, claims=body["claims"])
    for each in left.records:
        console.print(f"[yellow]{each.topic}/{each.partition}: {each.records} records, last {each.last}[/]")
    for collection, rows in left.rows.items():
        console.print(f"[yellow]{collection}: {rows} rows[/]")
    for uri in left.claims:
        console.print(Text(uri, style="yellow"))
    if left:
        raise typer.Exit(1)
    console.print(f"nothing of {len(names)} documents is on topics, in the store or in claims")


async def _record(settings: Settings, tenant: TenantId, versions: Mapping[str, int]) -> None:
    """Write to the audit log, before anything is removed, who erases what."""
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox) as audit:
        if audit is not None:
            await audit.record(
                Event(
                    kind=AuditKind.ERASED,
                    tenant=tenant,
                    asker=f"os:{getpass.getuser()}",
                    documents=tuple(
                        AuditedDocument(document_id=DocumentId(name), version=version)
                        for name, version in versions.items()
                    ),
                )
            )


async def _delete(settings: Settings, tenant: TenantId, versions: Mapping[str, int], *, patience_s: float) -> None:
    """Publish the deletions and wait until all are in the index; end the command otherwise."""
    changes = [partial(_deletion, tenant, name, version) for name, version in versions.items()]
    async with AsyncExitStack() as opened:
        receipts = await opened.enter_async_context(open_receipts(settings))
        publisher = await opened.enter_async_context(open_publisher(settings))
        with bars() as progress:
            sent = (await send(publisher, receipts, changes, total=len(changes), progress=progress)).changes
            outcomes = await collect(receipts, total=sent, progress=progress, patience_s=patience_s)
    answered = {each.document_id for each in outcomes if each.status is not OutcomeStatus.REJECTED}
    if missing := sorted(set(versions) - answered):
        fail(f"no receipt of the deletion of {missing[0]}, {len(missing)} in all: do workers run? erase again")


async def _roots(settings: Settings, selection: Selection, documents: list[str] | None) -> list[Root]:
    async with open_index(settings) as index:
        if documents:
            keys = [root_id(selection.tenant, DocumentId(name)) for name in documents]
            return list((await index.roots(keys)).values())
        return [
            root for deleted in (False, True) async for root in selected(index, replace(selection, deleted=deleted))
        ]


def _deletion(tenant: TenantId, name: str, version: int) -> DocumentChange:
    return DocumentChange(
        tenant=tenant,
        document_id=DocumentId(name),
        operation=Operation.DELETE,
        version=version,
        occurred_at=Timestamp(wall_clock()),
    )


def _message(body: Any) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")


def _show(body: dict[str, Any]) -> None:
    console.print(f"{len(body['removed'])} places emptied, {body['fences']} deletions stay without content")
    for each in body["remains"]:
        where = (
            each.get("claim") or each.get("store") or f"{each['topic']}/{each['partition']}: {each['records']} records"
        )
        at = each.get("until_ms")
        when = "" if at is None else f", by {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%dT%H:%MZ}"
        console.print(Text(f"remains: {where}, until {each['until']}{when}", style="yellow"), soft_wrap=True)
