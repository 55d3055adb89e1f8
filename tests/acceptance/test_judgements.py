"""Judgements on their topic: a worker takes them into later rankings, forgets what is erased, and reads them again."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from freki.infra.kafka import Reader
from freki.schemas import ContextHit, DocumentId, Judgement, QueryId, TenantId, Verdict
from freki.schemas.avro import Codec
from freki.streams.messages import Outgoing
from freki.streams.retrieve.follow_judgements import erase_judgements
from freki.streams.retrieve.steps.judged import judgement_key
from freki.streams.wire.connect import open_outbox
from freki.streams.wire.from_settings import topics_of, wall_clock
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, ask, delete, freki_command, freki_process, publish, upsert

TENANT = "judged"
QUESTION = "Was kostet ein Zwischenzeugnis?"


def thumb(document: str) -> Judgement:
    return Judgement(
        tenant=TenantId(TENANT),
        query_id=QueryId("q"),
        question=QUESTION,
        judge="anna",
        document_id=DocumentId(document),
        chunk_id=None,
        verdict=Verdict.UP,
        at=wall_clock(),
    )


async def ranking(freki: Freki, *, feedback: float) -> list[ContextHit]:
    """Ask; texts so alike would also be moved by diversity."""
    return list((await ask(freki, TENANT, QUESTION, feedback=feedback, mmr_lambda=1.0)).hits)


async def until_judged(freki: Freki, expected: Sequence[str]) -> None:
    """Ask until just these documents have got something from judgements, and stand higher because of it."""
    plain = [hit.document_id for hit in await ranking(freki, feedback=0.0)]
    async with asyncio.timeout(PATIENCE_S):
        while True:
            hits = await ranking(freki, feedback=1.0)
            judged = [hit.document_id for hit in hits if hit.judged > 0]
            if hits and sorted(judged) == sorted(expected):
                order = [hit.document_id for hit in hits]
                assert all(order.index(each) < plain.index(each) for each in judged)
                return
            await asyncio.sleep(0.1)


async def test_a_judgement_moves_rankings_until_it_is_erased_also_after_a_restart(freki: Freki) -> None:
    text = "Die Gebühr für die Ausstellung des Zwischenzeugnisses beträgt {} Euro und wird mit dem Antrag fällig."
    await publish(freki, *(upsert(TENANT, name, text.format(place)) for place, name in enumerate("abcd", start=11)))
    await until_judged(freki, [])
    last = [hit.document_id for hit in await ranking(freki, feedback=0.0)][-2:]
    topic = topics_of(freki.settings).judgements.name

    async with open_outbox(freki.settings) as (outbox, _):
        encode = Codec(Judgement).encode
        thumbs = [thumb(document) for document in last]
        await outbox.send(*(Outgoing(topic=topic, key=judgement_key(each), value=encode(each)) for each in thumbs))
        await until_judged(freki, last)

        await erase_judgements(outbox, topic, [judgement_key(thumbs[0])])
        await until_judged(freki, last[1:])

    await freki.children.kill("retrieve")
    await freki.children.ready["retrieve"].wait()
    await until_judged(freki, last[1:])


async def test_what_is_said_of_a_document_whose_deletion_nobody_noticed_is_erased(freki: Freki) -> None:
    # given a judgement that no receipt of the deletion follows: as after a time without workers that answer
    tenant, document = f"{TENANT}-late", "gone"
    await publish(freki, upsert(tenant, document, QUESTION), delete(tenant, document, version=2))
    topic, late = topics_of(freki.settings).judgements.name, replace(thumb(document), tenant=TenantId(tenant))
    async with (
        open_outbox(freki.settings) as (outbox, _),
        Reader(freki.settings.kafka, topic, start="latest") as reader,
        asyncio.timeout(PATIENCE_S),
    ):
        await outbox.send(Outgoing(topic=topic, key=judgement_key(late), value=Codec(Judgement).encode(late)))

        # A worker looks when it starts, then every hour.
        await freki.children.kill("embed")
        async for record in reader:
            if record.key == judgement_key(late) and record.value is None:
                break


async def test_who_judges_a_document_that_the_index_does_not_have_is_warned(freki: Freki) -> None:
    # given a tenant of its own: the judgement stays, and moves rankings of this question
    tenant = f"{TENANT}-unknown"
    await publish(freki, upsert(tenant, "known.md", "Ein Zwischenzeugnis ist zu beantragen."))

    codes, printed = zip(
        *[
            await freki_command(freki, "judge", "give", QUESTION, name, "up", "--as", "otto", "--tenant", tenant)
            for name in ("known.md", "knwon.md")
        ],
        strict=True,
    )
    _, listed = await freki_command(freki, "judge", "list", "--as", "otto", "--tenant", tenant)

    assert codes == (0, 0), printed
    assert printed[0] == ""
    assert f"the index has no document 'knwon.md' of tenant '{tenant}'" in " ".join(printed[1].split())
    assert "knwon.md" in listed


async def test_judgements_are_erased_by_a_command_only_where_somebody_agrees(freki: Freki) -> None:
    tenant = f"{TENANT}-agreed"
    await publish(freki, upsert(tenant, "a.md", "Ein Zwischenzeugnis ist zu beantragen."))
    # Longer than what is kept of it.
    question = f"{QUESTION} " * 100
    await freki_command(freki, "judge", "give", question, "a.md", "up", "--as", "ida", "--tenant", tenant)
    erase = ("judge", "erase", "--query", question, "--tenant", tenant)

    unasked, why = await freki_process(freki, *erase)
    _, before = await freki_command(freki, "judge", "list", "--as", "ida", "--tenant", tenant)
    agreed, _ = await freki_command(freki, *erase, "--yes")
    _, after = await freki_command(freki, "judge", "list", "--as", "ida", "--tenant", tenant)

    assert (unasked, agreed) == (2, 0)
    assert "this would erase 1 judgement: give --yes to do it" in why
    assert ("a.md" in before, "a.md" in after) == (True, False)
