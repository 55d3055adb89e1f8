"""`freki erase`: remove all content of documents, with a signed report; `freki erase verify` searches again."""

import getpass
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from freki.cli.arguments import LEAST_WAIT_S, Ids, expanded, finite, given_path, not_empty
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.prompts import agreed
from freki.cli.receipts import PATIENCE_S
from freki.cli.rows import print_json
from freki.cli.selection import SelectionArguments
from freki.cli.slow import message_if_slow
from freki.cli.times import utc_of
from freki.cli.words import counted
from freki.infra.durable_files import create_file
from freki.infra.settings import Settings
from freki.infra.signing import SigningKey, read_verifier
from freki.schemas import Coverage, DocumentId, TenantId
from freki.streams.documents.listing import selected
from freki.streams.privacy.erasure import ErasureOutcome, ErasurePlan, canonical
from freki.streams.privacy.rectification import searched_versions
from freki.streams.wire.connect import open_index
from freki.streams.wire.erasing import open_erasure, open_places

Key = Annotated[
    Path | None,
    typer.Option(parser=given_path, help="Private key that signs the report; default: FREKI_AUDIT__KEY_FILE"),
]
Report = Annotated[Path, typer.Option(parser=given_path, help="New file for the report")]
SEARCHING = "searching topics, store and claims"
REMOVING = (
    f"{SEARCHING}, removing what is found, and waiting for workers: for receipts, and until they have read the topics"
)


class _Documents(TyperGroup):
    """A group whose first word may be a document, or an option of the erasure."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer has a copy of click's
        """Put in the name of the command that erases."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["documents", *args]
        return super().parse_args(ctx, args)


erase_app = typer.Typer(cls=_Documents, help="Remove all content of documents, with a signed report: `freki erase ID`.")


@erase_app.command("documents")
@command
@expanded
async def erase(
    documents: Ids = None,
    *,
    given: SelectionArguments,
    where: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="The same as --attribute", callback=not_empty)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking")] = False,
    report: Report,
    key: Key = None,
    patience: Annotated[
        float,
        typer.Option(
            help="Longest wait for a receipt, and for stages to read, in seconds", min=LEAST_WAIT_S, callback=finite
        ),
    ] = PATIENCE_S,
) -> None:
    """Remove all content of documents, given by id, by conditions, or all of --tenant.

    The report names what was found where, what was removed, what is held, and what remains until when; it holds no
    content.
    """
    settings = load_settings()
    given = replace(given, attribute=[*(given.attribute or []), *(where or [])] or None)
    if bool(documents) == (given.is_given() or (given.tenant is not None and not documents)):
        fail("name documents, or give conditions such as --where, or --tenant alone", code=2)
    signer = signing_key(settings, key, report)
    by = f"os:{getpass.getuser()}"
    async with open_erasure(settings, signer, by=by, patience_s=patience) as erasure:
        tenant = TenantId(given.tenant or settings.tenant)
        with message_if_slow(SEARCHING):
            plan = await erasure.plan(tenant, await _covered(settings, given, documents))
        _check(plan, documents, yes=yes)
        with message_if_slow(REMOVING):
            erased = await erasure.run(plan, about={"requested_by": by})
    write_report(report, erased)
    if erased.report is None or erased.status != "ERASED":
        raise typer.Exit(1)


async def _covered(settings: Settings, given: SelectionArguments, documents: list[str] | None) -> Coverage:
    """Return what the arguments mean; conditions that only the index can answer are looked up in it."""
    if documents:
        return Coverage(documents=tuple(DocumentId(each) for each in documents))
    selection = given.selection(settings)
    if not given.is_given():
        return Coverage(whole_tenant=True)
    if not any((given.prefix, given.source, given.language, given.principal)):
        return Coverage(attributes=selection.attributes or {})
    async with open_index(settings) as index:
        return Coverage(documents=tuple([root.document_id async for root in selected(index, selection)]))


def _check(plan: ErasurePlan, documents: list[str] | None, *, yes: bool) -> None:
    """Show what is planned and ask; end the command where a document is unknown, or nobody agrees."""
    planned = {each.document_id: each.version for each in plan.documents}
    if missing := [name for name in documents or () if name not in planned]:
        fail(f"tenant {plan.tenant} has no document {missing[0]!r}: `freki documents list` shows them")
    if plan.undecided:
        errors.print(Text(plan.undecided, style="yellow"), soft_wrap=True)
    if not planned and plan.undecided:
        raise typer.Exit(1)
    if not planned:
        console.print("nothing to erase")
        raise typer.Exit
    for name, version in planned.items():
        console.print(Text(f"{name}  version {version}"), soft_wrap=True)
    if not (yes or agreed(f"erase {counted(len(planned), 'document')}")):
        raise typer.Exit(1)


@erase_app.command("verify")
@command
async def verify(
    report: Annotated[Path, typer.Argument(parser=given_path, help="Report of an erasure")],
    *,
    public_key: Annotated[Path, typer.Option(parser=given_path, help="Public key of who erased, in PEM")],
) -> None:
    """Check the signature of a report, and search for the content of its documents."""
    settings = load_settings()
    try:
        document = json.loads(report.read_bytes())
        body, signature = document["report"], document["signature"]
        versions, before_ms = searched_versions(body)
    except OSError as error:
        fail(f"{report} cannot be read: {error.strerror}", code=2)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        fail(f"{report} is no report of an erasure: {error}")
    if not isinstance(signature, str):
        fail(f"{report} is no report of an erasure: its signature is no text")
    if not read_verifier([public_key])(canonical(body), signature):
        fail(f"{report} is not signed by {public_key}: another key signed it, or it was changed")
    console.print("the signature is right")
    async with open_places(settings, patience_s=PATIENCE_S) as places:
        claims: dict[str, frozenset[DocumentId]] = dict.fromkeys(body["claims"], frozenset())
        with message_if_slow(SEARCHING):
            found = await places.find(TenantId(body["tenant"]), versions, claims=claims, before_ms=before_ms)
        left = found.described()
    for each in left["records"]:
        console.print(
            f"[yellow]{each['topic']}/{each['partition']}: {counted(each['records'], 'record')}, last {each['last']}[/]"
        )
    for collection, rows in left["rows"].items():
        console.print(f"[yellow]{collection}: {counted(rows, 'row')}[/]")
    for uri in left["claims"]:
        console.print(Text(uri, style="yellow"))
    if any(left.values()):
        raise typer.Exit(1)
    which = "" if before_ms is None else "older versions of "
    console.print(f"nothing of {which}{counted(len(versions), 'document')} is on topics, in the store or in claims")


def signing_key(settings: Settings, key: Path | None, report: Path) -> SigningKey:
    """Return the key that signs a report; end the command if there is none, or the report could not be written."""
    try:
        # Before anything is removed: what was found and removed cannot be found again for another report.
        report.touch(exist_ok=False)
        report.unlink()
    except FileExistsError:
        fail(f"{report} exists: name a new file", code=2)
    except OSError as error:
        fail(f"{report} cannot be written: {error.strerror}; name another file", code=2)
    key = key or settings.audit.key_file
    if key is None:
        fail("no key signs the report: name one by --key; `freki audit keys make FILE` makes one", code=2)
    return SigningKey.read(key)


def write_report(path: Path, erased: ErasureOutcome) -> None:
    """Write a report to its file, and print what is held, and what remains until when.

    The file comes first: what the report says is done, and cannot be found out again, but whoever reads the output may
    have ended. A report that has no room is printed itself.
    """
    unwritten = None
    if erased.report is not None:
        document = {"report": erased.body, "signature": erased.report.signature}
        try:
            # Nor does it replace one that another erasure has written there meanwhile.
            create_file(path, f"{json.dumps(document, ensure_ascii=False, indent=1)}\n".encode())
        except OSError as error:
            unwritten = error
            print_json(document)
    _show_held(erased)
    if erased.report is None:
        return
    _show(erased.body)
    if unwritten is not None:
        fail(f"{path} cannot be written: {unwritten.strerror}; the report is printed above: keep it as a file")
    console.print(f"report: {path}")


def _show_held(erased: ErasureOutcome) -> None:
    """Print which documents wait for which holds."""
    for name, holds in sorted(erased.held.items()):
        text = f"held: {name}, by {', '.join(holds)}: repeat this once `freki hold release` has ended that"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    for name in erased.body.get("deleted_before_hold", ()):
        text = f"deleted from the index before it was held: {name}"
        console.print(Text(text, style="yellow"), soft_wrap=True)


def _show(body: Mapping[str, Any]) -> None:
    fences = f", {counted(body['fences'], 'deletion')} without content kept" if "fences" in body else ""
    console.print(f"{counted(len(body['removed']), 'place')} emptied{fences}")
    for name in body.get("later_versions", ()):
        console.print(Text(f"not erased: {name} got a later version meanwhile", style="yellow"))
    for name in body.get("to_reindex", ()):
        text = f"the later version of {name} may not be found, as data keys were destroyed: freki reindex {name}"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    for each in body.get("unpublished", ()):
        text = f"not erased: {each['claim']}, of version {each['version']} of {each['id']}, which is not published yet"
        console.print(Text(f"{text}: erase again if that does not come", style="yellow"), soft_wrap=True)
    for each in body.get("unread", ()):
        where = f"{each['topic']}/{each['partition']}"
        text = f"{each['group']} has not read {where} up to here, and may copy content: erase again once it has"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    for each in body.get("undecodable", ()):
        records = f"{counted(each['records'], 'change')} of {each['topic']}/{each['partition']}"
        text = f"claims that {records} may name are not found, as it cannot be decoded: {each['reason']}"
        console.print(Text(f"{text}; then erase again", style="yellow"), soft_wrap=True)
    for each in body.get("late", ()):
        text = f"not removed: {counted(each['records'], 'record')} of {each['topic']}/{each['partition']}"
        console.print(Text(f"{text}, which just came there: repeat this command", style="yellow"), soft_wrap=True)
    for collection, rows in body.get("left", {}).get("rows", {}).items():
        text = f"not erased: {counted(rows, 'row')} of {collection}: erase again once its generation is kept up to date"
        console.print(Text(f"{text}, or drop that", style="yellow"), soft_wrap=True)
    for uri in body.get("left", {}).get("claims", ()):
        console.print(Text(f"not erased: {uri}", style="yellow"), soft_wrap=True)
    for each in body["remains"]:
        records = (
            f"{each['topic']}/{each['partition']}: {counted(each['records'], 'record')}" if "topic" in each else ""
        )
        where = each.get("claim") or each.get("store") or records
        at = each.get("until_ms")
        when = "" if at is None else f", by {utc_of(at)}"
        console.print(Text(f"remains: {where}, until {each['until']}{when}", style="yellow"), soft_wrap=True)
