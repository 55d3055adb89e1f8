"""`freki access`: all that is stored about documents, or about a person whom an attribute names, as JSON."""

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from freki.cli.arguments import Ids, Tenant, not_empty
from freki.cli.cases import Attributes, Everything, by_user, coverage_of, whose
from freki.cli.context import command, load_settings
from freki.cli.receipts import PATIENCE_S
from freki.cli.rows import print_json
from freki.infra.settings import Settings
from freki.operators.audit_chain import Event
from freki.schemas import AuditedDocument, AuditKind, Coverage, TenantId
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_index, open_outbox, open_registry
from freki.streams.wire.erasing import open_places
from freki.streams.wire.erasing.access import Access


@command
async def access(
    documents: Ids = None,
    *,
    attribute: Attributes = None,
    everything: Everything = False,
    word: Annotated[
        list[str] | None,
        typer.Option(
            help="Also queries whose text has this word, such as a name, as long as their topic keeps them",
            callback=not_empty,
        ),
    ] = None,
    tenant: Tenant = None,
) -> None:
    """Print all that is stored about documents, one JSON object per line.

    The last one says what was searched and what could not be. Exit code 1 if records cannot be decoded, which it names.

    Documents with their versions and texts, chunks, receipts, judgements, dead letters, answers, holds, objections and
    entries of the audit log.
    """
    settings = load_settings()
    covers = coverage_of(documents, attribute, everything=everything)
    of, is_whole = whose(settings, tenant), True
    async with AsyncExitStack() as opened:
        registry = await opened.enter_async_context(open_registry(settings))
        index = await opened.enter_async_context(open_index(settings))
        places = await opened.enter_async_context(open_places(settings, patience_s=PATIENCE_S))
        await _record(settings, of, covers)
        reading = Access(settings, index=index, registry=registry, places=places)
        async for item in reading.read(of, covers, words=[*(covers.attributes.values()), *(word or [])]):
            print_json(item)
            is_whole = not item.get("undecodable")
    if not is_whole:
        raise typer.Exit(1)


async def _record(settings: Settings, tenant: TenantId, covers: Coverage) -> None:
    """Write to the audit log, before anything is read out, who reads what."""
    if not settings.audit.enabled:
        return
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox) as audit:
        if audit is not None:
            named = tuple(AuditedDocument(document_id=each, version=0) for each in covers.documents)
            keys = "the whole tenant" if covers.whole_tenant else ", ".join(sorted(covers.attributes))
            await audit.record(
                Event(kind=AuditKind.ACCESSED, tenant=tenant, asker=by_user(), documents=named, reason=keys)
            )
