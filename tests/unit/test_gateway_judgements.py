"""What the APIs store of a judgement: anybody who may query may judge."""

from typing import Any

import pytest

from freki.client.messages import Outgoing, Sink
from freki.schemas import Judgement
from freki.schemas.avro import Codec
from freki.schemas.errors import Rejected
from freki.streams.gateway import Gateway
from freki.streams.retrieve.steps.judged import QUESTION_CHARACTERS
from tests.unit.questions import gateway_of
from tests.unit.test_judged import judgement


class Kept:
    def __init__(self) -> None:
        self.records: list[Outgoing] = []

    async def send(self, *records: Outgoing) -> None:
        self.records += records


def gateway(kept: Kept) -> Gateway:
    judgements: Sink[Judgement] = Sink(outbox=kept, topic="judgements", encode=Codec(Judgement).encode)
    return gateway_of(judgements=judgements)


async def test_of_a_long_question_only_what_counts_is_stored() -> None:
    kept = Kept()

    await gateway(kept).judge(judgement(question="Frist " * 200_000))

    (record,) = kept.records
    assert record.value is not None
    assert Codec(Judgement).decode(record.value).question == ("Frist " * 200_000)[:QUESTION_CHARACTERS]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"document_id": ""}, "document_id: it is empty"),
        ({"document_id": "a\x1b]0;b"}, "document_id: control character"),
        ({"document_id": "d" * 513}, "document_id: 513 characters are more than 512"),
        ({"query_id": "q" * 2001}, "query_id: 2001 characters are more than 2000"),
        ({"chunk_id": "c" * 513}, "chunk_id: 513 characters are more than 512"),
        ({"judge": "j" * 513}, "judge: 513 characters are more than 512"),
        ({"question": " "}, "question: it is empty"),
    ],
)
async def test_what_no_judgement_may_hold_is_refused_with_the_field(given: dict[str, Any], problem: str) -> None:
    kept = Kept()

    with pytest.raises(Rejected, match=problem):
        await gateway(kept).judge(judgement(**given))

    assert kept.records == []
