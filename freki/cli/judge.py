"""`freki judge`: what users think of answers, given, listed and erased."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from rich.table import Table

from freki.cli.context import command, console, fail, load_settings
from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.schemas import ChunkId, DocumentId, Judgement, QueryId, TenantId, Verdict
from freki.schemas.avro import Codec
from freki.streams.messages import Outgoing
from freki.streams.retrieve.follow_judgements import erase_judgements
from freki.streams.retrieve.steps.judged import judgement_key, key_parts
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock

judge_app = typer.Typer(help="What users think of answers.", no_args_is_help=True)

Tenant = Annotated[str | None, typer.Option(help="Whose documents; default: FREKI_TENANT")]
Of = Annotated[str | None, typer.Option("--document", help="Only those of a document")]
By = Annotated[str | None, typer.Option("--as", help="Only those of a judge")]
On = Annotated[str | None, typer.Option("--query", help="Only those of a query id")]


@judge_app.command("give")
@command
async def give(
    question: Annotated[str, typer.Argument(help="What was asked")],
    document: Annotated[str, typer.Argument(help="Id of the document that was found")],
    verdict: Annotated[Verdict, typer.Argument(help="How it did", case_sensitive=False)],
    *,
    judge: Annotated[str, typer.Option("--as", help="Who judges")],
    query: Annotated[str, typer.Option(help="Id of the query; default: one for all who ask the same")] = "",
    chunk: Annotated[str | None, typer.Option(help="Only this chunk of it")] = None,
    tenant: Tenant = None,
) -> None:
    """Say how a document did as an answer; what the same judge said of it for this query before counts no more."""
    settings = load_settings()
    if not (question.strip() and document.strip() and judge.strip()):
        fail("question, document and --as must not be empty")
    judgement = Judgement(
        tenant=TenantId(tenant or settings.tenant),
        query_id=QueryId(query or question),
        question=question,
        judge=judge,
        document_id=DocumentId(document),
        chunk_id=ChunkId(chunk) if chunk else None,
        verdict=verdict,
        at=wall_clock(),
    )
    async with open_registry(settings) as registry, open_outbox(settings) as (outbox, _):
        value = Codec(Judgement, registry=registry).encode(judgement)
        topic = topics_of(settings).judgements.name
        await outbox.send(Outgoing(topic=topic, key=judgement_key(judgement), value=value))


@judge_app.command("list")
@command
async def list_judgements(tenant: Tenant = None, document: Of = None, judge: By = None, query: On = None) -> None:
    """List judgements that stand."""
    settings = load_settings()
    table = Table("document", "verdict", "judge", "question", "query", box=None)
    async with _standing(settings) as standing:
        async for key, judgement in standing:
            if judgement is not None and _meant(settings, key, tenant, document, judge, query):
                place = judgement.document_id + (f"#{judgement.chunk_id}" if judgement.chunk_id else "")
                table.add_row(place, judgement.verdict, judgement.judge, judgement.question, judgement.query_id)
    console.print(table)


@judge_app.command("erase")
@command
async def erase(tenant: Tenant = None, document: Of = None, judge: By = None, query: On = None) -> None:
    """Erase the judgements of a document, of a judge, of a query, or those that meet all that is given."""
    settings = load_settings()
    if document is None and judge is None and query is None:
        fail("say whose judgements are to go: --document, --as or --query")
    async with _standing(settings) as standing:
        keys = [key async for key, _ in standing if _meant(settings, key, tenant, document, judge, query)]
    async with open_outbox(settings) as (outbox, _):
        await erase_judgements(outbox, topics_of(settings).judgements.name, keys)
    console.print(f"{len(keys)} judgements erased")


@asynccontextmanager
async def _standing(settings: Settings) -> AsyncIterator[AsyncIterator[tuple[bytes, Judgement | None]]]:
    """Open the topic, and read what stands on it; None: a judgement that cannot be read."""
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).judgements.name, start="earliest") as reader,
    ):
        codec = Codec(Judgement, registry=registry)
        values: dict[bytes, bytes] = {}
        async for record in reader.until_end():
            values.pop(record.key or b"", None)
            if record.value is not None:
                values[record.key or b""] = record.value
        if registry is not None:
            await registry.prepare(values.values())

        async def standing() -> AsyncIterator[tuple[bytes, Judgement | None]]:
            for key, value in values.items():
                try:
                    yield key, codec.decode(value)
                except ValueError:
                    yield key, None

        yield standing()


def _meant(
    settings: Settings, key: bytes, tenant: str | None, document: str | None, judge: str | None, query: str | None
) -> bool:
    try:
        whose, by, on, of = key_parts(key)
    except ValueError:
        return False
    wanted = ((whose, tenant or settings.tenant), (of, document), (by, judge), (on, query))
    return all(expected is None or said == expected for said, expected in wanted)
