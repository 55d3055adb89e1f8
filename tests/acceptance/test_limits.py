"""Limits of tenants on the whole of Freki, whatever the API."""

import json

from freki.schemas import ResultStatus
from freki.streams.limits.usage import MINUTE_MS
from tests.acceptance.conftest import LIMITED, Freki
from tests.acceptance.helpers import ask, delete, freki_process, publish, upsert


async def test_one_document_and_one_query_too_many_are_refused_and_other_tenants_notice_nothing(freki: Freki) -> None:
    for name in ("a", "b"):
        await publish(freki, upsert(LIMITED, name, f"Die Frist von {name} endet im Mai."))
    too_many, beside = await publish(
        freki, upsert(LIMITED, "c", "Zu viel."), upsert("unlimited", "c", "Nicht zu viel.")
    )
    code, shown = await freki_process(freki, "limits", "--tenant", LIMITED, "--json")
    await publish(freki, delete(LIMITED, "a", version=2))
    (in_its_place,) = await publish(freki, upsert(LIMITED, "d", "An seiner Stelle."))

    assert too_many.status == "REJECTED"
    assert "tenant limited has used 2 of 2 documents" in too_many.reason
    assert (beside.status, in_its_place.status) == ("INDEXED", "INDEXED")
    rows = {row["limit"]: (row["used"], row["most"]) for row in map(json.loads, shown.splitlines())}
    assert (code, rows["documents"]) == (0, (2, 2))

    answers = [await ask(freki, LIMITED, f"Wann endet die Frist {number}?") for number in range(8)]
    refused = [answer for answer in answers if answer.status is ResultStatus.EXPIRED]
    # Other minutes may begin between them, on a busy machine more than one.
    minutes = {answer.asked_at // MINUTE_MS for answer in answers}
    assert 8 - 3 * len(minutes) <= len(refused) <= 8 - 3
    assert all("ask again in" in answer.notices[0].message and not answer.hits for answer in refused)
    assert (await ask(freki, "unlimited", "Was ist nicht zu viel?")).status is not ResultStatus.EXPIRED
