"""`freki judge`: record, list and erase judgements of answers by users."""

from collections.abc import AsyncIterator
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import Tenant, not_empty
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.prompts import agreed
from freki.cli.rows import whole_table
from freki.cli.words import counted
from freki.infra.settings import Settings
from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import MAX_QUERY_ID_CHARS, validate_judgement
from freki.schemas import ChunkId, DocumentId, Judgement, QueryId, TenantId, Verdict
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError
from freki.schemas.names import root_id
from freki.streams.messages import Outgoing
from freki.streams.retrieve.steps.judged import judgement_key, key_parts, shortened
from freki.streams.wire.connect import open_index, open_outbox, open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock
from freki.streams.wire.topic_records import current_values, ending_nulls

judge_app = typer.Typer(help="Judgements of answers by users.", no_args_is_help=True)

Of = Annotated[str | None, typer.Option("--document", help="Only judgements of this document", callback=not_empty)]
By = Annotated[str | None, typer.Option("--as", help="Only judgements by this judge", callback=not_empty)]
On = Annotated[str | None, typer.Option("--query", help="Only judgements for this query id", callback=not_empty)]


@judge_app.command("give")
@command
async def give(
    question: Annotated[str, typer.Argument(help="Text of the question", callback=not_empty)],
    document: Annotated[str, typer.Argument(help="Id of the judged document", callback=not_empty)],
    verdict: Annotated[Verdict, typer.Argument(help="Verdict on the document", case_sensitive=False)],
    *,
    judge: Annotated[str, typer.Option("--as", help="Who judges", callback=not_empty)],
    query: Annotated[
        str | None, typer.Option(help="Id of the query; default: shared by equal query texts", callback=not_empty)
    ] = None,
    chunk: Annotated[str | None, typer.Option(help="Judge only this chunk", callback=not_empty)] = None,
    tenant: Tenant = None,
) -> None:
    """Judge a document as an answer to a query; replaces the earlier judgement by the same judge."""
    settings = load_settings()
    judgement = Judgement(
        tenant=TenantId(tenant or settings.tenant),
        query_id=QueryId(query or question[:MAX_QUERY_ID_CHARS]),
        question=question,
        judge=judge,
        document_id=DocumentId(document),
        chunk_id=ChunkId(chunk) if chunk else None,
        verdict=verdict,
        at=wall_clock(),
    )
    try:
        validate_judgement(judgement)
    except InvalidQuery as error:
        fail(str(error), code=2)
    judgement = shortened(judgement)
    async with open_registry(settings) as registry, open_outbox(settings) as (outbox, _):
        value = Codec(Judgement, registry=registry).encode(judgement)
        topic = topics_of(settings).judgements.name
        await outbox.send(Outgoing(topic=topic, key=judgement_key(judgement), value=value))
    await _warn_of_unknown(settings, judgement)


async def _warn_of_unknown(settings: Settings, judgement: Judgement) -> None:
    """Tell of a judgement that counts for nothing, since the index has no such document: the id may be mistyped.

    It is given all the same: the document may be on its way, and who judges need not reach the index.
    """
    name, key = judgement.document_id, root_id(judgement.tenant, judgement.document_id)
    try:
        async with open_index(settings) as index:
            root = (await index.roots([key])).get(key)
    except InfraError as error:
        errors.print(Text(f"judged; whether there is a document {name!r} is not known: {error}", style="yellow"))
        return
    if root is None or root.deleted:
        errors.print(
            Text(
                f"judged, but the index has no document {name!r} of tenant {judgement.tenant!r}: "
                "`freki documents list` shows the ids, `freki judge erase` takes a judgement back",
                style="yellow",
            )
        )


@judge_app.command("list")
@command
async def list_judgements(tenant: Tenant = None, document: Of = None, judge: By = None, query: On = None) -> None:
    """List the current judgements."""
    settings = load_settings()
    table = whole_table("document", "verdict", "judge", "question", "query", box=None)
    async for key, judgement in _standing(settings):
        if judgement is not None and _meant(settings, key, tenant, document, judge, query):
            place = judgement.document_id + (f"#{judgement.chunk_id}" if judgement.chunk_id else "")
            table.add_row(place, judgement.verdict, judgement.judge, judgement.question, judgement.query_id)
    console.print(table)


@judge_app.command("erase")
@command
async def erase(
    tenant: Tenant = None,
    document: Of = None,
    judge: By = None,
    query: On = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking")] = False,
) -> None:
    """Erase the judgements that match all given options: document, judge, query."""
    settings = load_settings()
    if document is None and judge is None and query is None:
        fail("name the judgements to erase: --document, --as or --query", code=2)
    keys = [key async for key, _ in _standing(settings) if _meant(settings, key, tenant, document, judge, query)]
    if keys and not (yes or agreed(f"erase {counted(len(keys), 'judgement')}")):
        raise typer.Exit(1)
    async with open_outbox(settings) as (outbox, _):
        await outbox.send(*await ending_nulls(settings, topics_of(settings).judgements.name, keys))
    console.print(f"{counted(len(keys), 'judgement')} erased")


def _standing(settings: Settings) -> AsyncIterator[tuple[bytes, Judgement | None]]:
    """Yield the current judgements by key; None: one that cannot be decoded."""
    return current_values(settings, topics_of(settings).judgements.name, Judgement)


def _meant(
    settings: Settings, key: bytes, tenant: str | None, document: str | None, judge: str | None, query: str | None
) -> bool:
    try:
        whose, by, on, of = key_parts(key)
    except ValueError:
        return False
    # The text of a query is its id if none was given, and ids are cut.
    named = query is None or on in (query, query[:MAX_QUERY_ID_CHARS])
    wanted = ((whose, tenant or settings.tenant), (of, document), (by, judge))
    return named and all(expected is None or said == expected for said, expected in wanted)
