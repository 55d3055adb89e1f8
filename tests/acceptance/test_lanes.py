"""A backlog of large documents, and what overtakes it."""

import asyncio
from collections.abc import Sequence

from freki.infra.settings import Settings
from freki.schemas import DocumentChange, IndexOutcome, OutcomeStatus
from freki.streams.client import Publisher, Receipts
from freki.streams.wire.connect import open_publisher, open_receipts
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, ask, delete, documents, publish, upsert, verify

TENANT = "lanes"
LARGE = 120
PARAGRAPHS = 70
"""More chunks than one part holds."""


def large(number: int) -> DocumentChange:
    """Make a document of which all but one paragraph stands in others too."""
    own = f"Aktenzeichen {number}: Der Antrag wurde geprüft und dem Verfahren {number} zugeordnet."
    common = (
        f"In Absatz {place} ist geregelt, dass die zuständige Stelle über den Antrag entscheidet, den Beteiligten die "
        f"Entscheidung schriftlich mitteilt und sie über die Frist nach Nummer {place} belehrt, innerhalb derer sie "
        "gegen die Entscheidung Widerspruch einlegen können, ohne dass es dafür einer Begründung bedarf."
        for place in range(PARAGRAPHS)
    )
    return upsert(TENANT, f"large/{number}", "\n\n".join([own, *common]), name="akte.txt")


async def _urgently(publisher: Publisher, receipts: Receipts, over: asyncio.Event) -> list[IndexOutcome]:
    """Publish one urgent change after the other, each when the one before it is searchable."""
    outcomes: list[IndexOutcome] = []
    while not over.is_set():
        version = len(outcomes) + 1
        change = upsert(TENANT, "urgent", f"Eilmeldung in der Fassung {version}", version=version, priority=1)
        receipts.expect(change)
        await publisher.publish(change)
        outcomes.append(await receipts.next(patience_s=PATIENCE_S))
    return outcomes


async def _all(receipts: Receipts, changes: Sequence[DocumentChange]) -> list[IndexOutcome]:
    return [await receipts.next(patience_s=PATIENCE_S) for _ in changes]


async def test_deletions_and_urgent_changes_overtake_a_backlog_that_goes_on_beside_them_also_through_kills(
    freki: Freki,
) -> None:
    await publish(freki, upsert(TENANT, "doomed", "Sperrvermerk: Dieses Dokument wird gelöscht."))
    backlog = [large(number) for number in range(LARGE)]
    overtaking = [
        delete(TENANT, "doomed", version=2),
        upsert(TENANT, "edited", "Zwischenruf, den alle sofort lesen sollen.", priority=1),
    ]
    over = asyncio.Event()

    async with (
        open_receipts(freki.settings) as receipts,
        open_receipts(freki.settings) as others,
        open_publisher(freki.settings) as publisher,
    ):
        for change in [*backlog, *overtaking]:
            receipts.expect(change)
            await publisher.publish(change)
        steady = asyncio.create_task(_urgently(publisher, others, over))
        first = await _all(receipts, backlog[: LARGE // 2])
        gone = await ask(freki, TENANT, "Sperrvermerk", top_k=1)
        await freki.children.kill("embed")
        await freki.children.kill("chunk-contextualise")
        rest = await _all(receipts, [*backlog[LARGE // 2 :], *overtaking])
        over.set()
        urgent = await steady

    status = {str(outcome.document_id): outcome.status for outcome in first}
    assert status["doomed"] is OutcomeStatus.DELETED
    assert status["edited"] is OutcomeStatus.INDEXED
    assert "doomed" not in documents(gone)
    finished = {outcome.document_id for outcome in [*first, *rest]}
    assert finished == {change.document_id for change in [*backlog, *overtaking]}
    assert all(outcome.chunks > Settings().chunking.part_chunks for outcome in rest if outcome.chunks > 1)
    assert len(urgent) > 1
    assert await verify(freki) == 0
