"""Pages on the way from a file to a citation."""

from itertools import count

from freki.schemas import (
    EVERYONE,
    ContextHit,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from tests.files import docx_of, pdf_of
from tests.unit.pipelines import Pipeline

FEES = "Gebühren\nDer Reisepass kostet für Erwachsene siebzig Euro, und für Kinder nur die Hälfte.\nBezahlt wird bar."
TIMES = "Fristen\nDer Antrag dauert vier Wochen.\nIm Sommer dauert er wegen der vielen Reisen sechs Wochen oder mehr."
FOREWORD = "Vorwort\nDieses Handbuch ist für alle gedacht, die im Bürgerbüro mit Pässen zu tun haben.\nEs gilt sofort."
_versions = count(1)


def change(name: str, content: bytes) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId(f"ordner/{name}"),
        operation=Operation.UPSERT,
        version=next(_versions),
        occurred_at=Timestamp(1_000),
        principals=(EVERYONE,),
        content=content,
    )


async def answer(pipeline: Pipeline) -> ContextResult:
    text = "Wie lange dauert der Antrag?"
    return await pipeline.ask(
        ContextQuery(query_id=QueryId("q"), tenant=TenantId("acme"), text=text, asked_at=Timestamp(10**14))
    )


def hit_on_times(result: ContextResult) -> ContextHit:
    (hit,) = [hit for hit in result.hits if "vier Wochen" in hit.text and "Reisepass" not in hit.text]
    return hit


async def test_a_hit_in_a_pdf_names_its_page() -> None:
    pipeline = Pipeline()
    await pipeline.publish(change("handbuch.pdf", pdf_of(FEES, TIMES)))

    result = await answer(pipeline)

    hit = hit_on_times(result)
    assert (hit.first_page, hit.last_page) == (2, 2)
    assert hit.citation == f"[QUELLE-{hit.rank}: handbuch.pdf, S. 2 | chunk:{hit.chunk_id}]"
    assert hit.citation in result.context


async def test_a_hit_in_a_format_without_pages_names_none() -> None:
    pipeline = Pipeline()
    await pipeline.publish(change("handbuch.docx", docx_of("Fristen", "Der Antrag dauert vier Wochen.")))

    (hit,) = (await answer(pipeline)).hits

    assert hit.citation == f"[QUELLE-1: handbuch.docx | chunk:{hit.chunk_id}]"


async def test_a_page_more_at_the_beginning_keeps_vectors_and_moves_citations() -> None:
    pipeline = Pipeline()
    await pipeline.publish(change("handbuch.pdf", pdf_of(FEES, TIMES)))
    before = hit_on_times(await answer(pipeline))

    await pipeline.publish(change("handbuch.pdf", pdf_of(FOREWORD, FEES, TIMES)))

    after = hit_on_times(await answer(pipeline))
    outcome = Codec(IndexOutcome).decode(pipeline.producer.to("outcomes")[-1].value or b"")
    assert after.chunk_id == before.chunk_id
    assert (before.first_page, after.first_page) == (2, 3)
    # The new page, and the extract that stands for the whole document.
    assert (outcome.embedded, outcome.chunks) == (2, 4)
