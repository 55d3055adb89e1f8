"""`freki documents`: list the documents of the index, show one, and what became of its changes."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from freki.cli.arguments import Tenant, expanded, not_empty, utf_8
from freki.cli.audited import record_command
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.rows import AsJson, print_json
from freki.cli.selection import SelectionArguments, roots_named
from freki.cli.show_document import show_document, show_history, show_list
from freki.infra.settings import Settings
from freki.operators.identify import record_key
from freki.schemas import AuditKind, DocumentId, TenantId
from freki.schemas.index import Root
from freki.streams.documents.history import history_of
from freki.streams.documents.listing import listed, page_of
from freki.streams.documents.view import view_of
from freki.streams.wire.cases import Cases, read_cases
from freki.streams.wire.connect import open_index, open_registry
from freki.streams.wire.rules import fingerprints_of
from freki.streams.wire.topic_records import TopicRecords

documents_app = typer.Typer(help="Documents of the index.", no_args_is_help=True)

PAGE = 50
CHUNKS = 20
Id = Annotated[str, typer.Argument(help="Id of the document, as `freki documents list` shows it", callback=not_empty)]


@documents_app.command("list")
@command
@expanded
async def list_documents(
    *,
    given: SelectionArguments,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted documents that the index remembers")] = False,
    limit: Annotated[int, typer.Option(help="Documents per page; 0: all", min=0)] = PAGE,
    otherwise: Annotated[
        bool, typer.Option("--otherwise", help="Only documents made with other settings of chunks, contexts or models")
    ] = False,
    after: Annotated[
        str, typer.Option(help="Begin after this id: the last one of the page before", callback=utf_8)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List documents in the order of their ids."""
    settings = load_settings()
    selection = given.selection(settings, deleted=deleted, otherwise=otherwise)
    async with open_index(settings) as index:
        page = await page_of(index, selection, after=after, limit=limit)
    shown = [(str(root.document_id), root.version) for root in page.roots]
    await record_command(settings, AuditKind.REPORTED, "freki documents list", tenant=selection.tenant, documents=shown)
    current, cases = fingerprints_of(settings), await read_cases(settings, selection.tenant)
    if as_json:
        for root in page.roots:
            document = {"tenant": selection.tenant, **asdict(listed(root, current)), **_of_cases(cases, root)}
            print_json(document)
        return
    show_list(console, page, tenant=selection.tenant, current=current, cases=cases)


@documents_app.command("show")
@command
async def show(
    document: Id,
    *,
    tenant: Tenant = None,
    chunks: Annotated[int, typer.Option(help="Chunks to show; 0: all", min=0)] = CHUNKS,
    as_json: AsJson = False,
) -> None:
    """Show one document: where it comes from, who may read it, its chunks, and its receipts."""
    settings = load_settings()
    of = TenantId(tenant or settings.tenant)
    async with open_index(settings) as index:
        (root,) = await roots_named(index, of, [document])
        given = [(document, root.version)]
        await record_command(settings, AuditKind.REPORTED, "freki documents show", tenant=of, documents=given)
        view = await view_of(index, root, limit=chunks)
        root = view.root
    async with _open_records(settings) as records:
        found = records.receipts(record_key(of, root.document_id))
        receipts = [(stored.timestamp_ms, outcome) async for stored, outcome in found if outcome is not None]
    current, cases = fingerprints_of(settings), await read_cases(settings, of)
    if as_json:
        shown = {
            "tenant": of,
            **asdict(listed(root, current)),
            **_of_cases(cases, root),
            "counts": asdict(view.counts),
            "shown_chunks": [asdict(chunk) for chunk in view.chunks],
            "receipts": [{"recorded_at": at, **asdict(outcome)} for at, outcome in receipts],
        }
        print_json(shown)
        return
    is_current = root.fingerprint in current
    show_document(console, view, [outcome for _, outcome in receipts], is_current=is_current, cases=cases)


@documents_app.command("history")
@command
async def history(document: Id, *, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show the changes of one document that are still on the topics, their receipts and dead letters, in order."""
    settings = load_settings()
    of = TenantId(tenant or settings.tenant)
    await record_command(settings, AuditKind.REPORTED, "freki documents history", tenant=of, documents=[(document, 0)])
    async with _open_records(settings) as records:
        events = await history_of(records, of, DocumentId(document))
    if not events:
        fail(
            f"the topics have no record of document {document!r} of tenant {of}: `freki documents list` shows what the"
            " index holds; topics of the local stack are empty after its restart"
        )
    if as_json:
        for event in events:
            print_json(asdict(event))
        return
    show_history(console, events)


def _of_cases(cases: Cases, root: Root) -> dict[str, list[str]]:
    return {"holds": cases.holding(root), "objections": cases.objecting(root)}


@asynccontextmanager
async def _open_records(settings: Settings) -> AsyncIterator[TopicRecords]:
    """Open the records of documents on the topics, with a bar for each topic that is read."""
    with bars() as progress:

        def began(title: str, total: int) -> Callable[[], None]:
            return partial(progress.advance, progress.add_task(title, total=total))

        async with open_registry(settings) as registry:
            yield TopicRecords(settings, registry, began=began)
