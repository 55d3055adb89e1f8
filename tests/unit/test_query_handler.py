"""The handler of queries: no query of a batch takes the answers of the others."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentId,
    NoticeKind,
    QueryId,
    ResultStatus,
    TenantId,
    VersionFloor,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Rejected
from freki.schemas.index import RerankPair
from freki.schemas.limits import QueryCount, TenantLimits
from freki.streams.limits.queries import QueryLimits
from freki.streams.limits.usage import UsageLedger
from freki.streams.messages import Received
from freki.streams.retrieve.handler import CROWDED
from freki.streams.wire.from_settings import wall_clock
from tests.unit.deliveries import DEAD_LETTERS, Event
from tests.unit.pipelines import Pipeline
from tests.unit.test_query_trace import document, question

LATER = (VersionFloor(document_id=DocumentId("d1"), version=9),)
WAITS, OTHER, MORE = (QueryId(name) for name in ("waits", "other", "too many"))
FATAL = "Widersprüche"


async def filled(**fields: Any) -> Pipeline:
    pipeline = Pipeline(**fields)
    await pipeline.publish(document())
    return pipeline


async def test_queries_that_wait_for_versions_beyond_a_number_are_refused_and_hold_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("freki.streams.retrieve.handler.MAX_PATIENT", 1)
    pipeline = await filled()

    results = await pipeline.ask_together(
        question(query_id=WAITS, at_least=LATER, deadline_ms=2_000),
        question(query_id=MORE, at_least=LATER),
        question(query_id=OTHER),
    )

    assert [(result.query_id, result.status) for result in results[:2]] == [
        (MORE, ResultStatus.EXPIRED),
        (OTHER, ResultStatus.COMPLETE),
    ]
    (notice,) = results[0].notices
    assert (notice.stage, notice.kind) == ("wait", NoticeKind.SKIPPED)
    assert "ask again later" in notice.message
    assert results[1].hits
    assert [result.query_id for result in results[2:]] == [WAITS], "its time was over first"


async def test_no_tenant_takes_all_places_of_queries_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.streams.retrieve.handler.MAX_PATIENT", 4)
    pipeline = await filled()
    of_one = [question(query_id=QueryId(f"{place}"), at_least=LATER, deadline_ms=2_000) for place in range(5)]
    another = question(query_id=OTHER, tenant=TenantId("another"), at_least=LATER, deadline_ms=2_000)

    results = await pipeline.ask_together(*of_one, another)

    refused = {result.query_id for result in results if CROWDED in result.notices}
    assert refused == {"2", "3", "4"}, "one tenant has half of the places"
    assert len(results) == 6


class Believing:
    """An authenticator that takes the first principal for the user of a token."""

    keeps_apart = False

    async def admit(self, received: Received[ContextQuery]) -> Received[ContextQuery]:
        return replace(received, asker=received.value.principals[0])


async def test_no_user_takes_all_places_of_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.streams.retrieve.handler.MAX_PATIENT", 8)
    pipeline = await filled()
    monkeypatch.setattr(pipeline.retrieving, "_authenticator", Believing())
    of_ada, of_bob = (
        [
            question(query_id=QueryId(f"{user} {place}"), principals=(user,), at_least=LATER, deadline_ms=2_000)
            for place in range(4)
        ]
        for user in ("ada", "bob")
    )

    results = await pipeline.ask_together(*of_ada, *of_bob)

    waited = {result.query_id for result in results if CROWDED not in result.notices}
    assert waited == {"ada 0", "ada 1", "bob 0"}, "one user has half of the tenant's places, which are half of all"
    assert len(results) == 8


async def test_an_answer_that_does_not_fit_a_record_is_refused_and_the_others_are_answered_once() -> None:
    pipeline = await filled()
    pipeline.producer.failures.append(Rejected("6,000,000 bytes, 5,000,000 allowed"))

    results = await pipeline.ask_together(question(query_id=WAITS), question(query_id=OTHER))

    (refused,) = [result for result in results if result.status is ResultStatus.REJECTED]
    assert [notice.stage for notice in refused.notices] == ["reply"]
    assert "lower top_k" in refused.notices[0].message
    assert sorted(result.query_id for result in results) == sorted([WAITS, OTHER])
    assert [result.status for result in results if result is not refused] == [ResultStatus.COMPLETE]


class Defective:
    """A reranker with a defect that one question meets."""

    name = "local"

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        assert budget_s is not None
        if any(FATAL in pair.query for pair in pairs):
            raise TypeError("'<' not supported between instances of 'NoneType' and 'str'")
        return [0.5 for _ in pairs]


async def test_a_query_that_meets_a_defect_becomes_a_dead_letter_and_is_answered_as_failed() -> None:
    pipeline = await filled(rerankers=[Defective()], reply_topics=["team.answers"])
    doomed = question(query_id=WAITS, text=f"Wer entscheidet über {FATAL}?", reply_to="team.answers")

    results = await pipeline.ask_together(doomed, question(query_id=OTHER))

    assert [result.query_id for result in results] == [OTHER]
    assert len(pipeline.producer.to(DEAD_LETTERS)) == 1
    (sent,) = pipeline.producer.to("team.answers")
    failed = Codec(ContextResult).decode(sent.value or b"")
    assert (failed.query_id, failed.status, failed.hits) == (WAITS, ResultStatus.DEGRADED, ())
    assert "dead-letters list" in failed.failures[0], "clients see that nothing is known, not that nothing is there"


async def test_what_was_answered_before_another_query_of_its_batch_met_a_defect_is_not_answered_again() -> None:
    class Late(Defective):
        async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
            # Nobody is told of records that are sent.
            while any(FATAL in pair.query for pair in pairs) and not pipeline.producer.to("contexts"):  # noqa: ASYNC110
                await asyncio.sleep(0)
            return await super().score(pairs, budget_s=budget_s)

    pipeline = await filled(rerankers=[Late()])

    results = await pipeline.ask_together(
        question(query_id=OTHER),
        question(query_id=WAITS, text=f"Wer entscheidet über {FATAL}?"),
        question(query_id=MORE, text=""),
    )

    told = {OTHER: ResultStatus.COMPLETE, WAITS: ResultStatus.DEGRADED, MORE: ResultStatus.REJECTED}
    assert sorted((result.query_id, result.status) for result in results) == sorted(told.items())


async def test_a_query_counts_once_for_the_limit_of_its_tenant_however_often_its_batch_is_tried() -> None:
    async def tell(_: QueryCount) -> None:
        """Tell nobody."""

    pipeline = await filled(rerankers=[Defective()])
    ledger = UsageLedger(lambda _: TenantLimits(queries_per_minute=3), writer="a", now=wall_clock)
    pipeline.retrieving._limits = QueryLimits(ledger, send=tell)

    results = await pipeline.ask_together(
        question(query_id=OTHER),
        question(query_id=WAITS, text=f"Wer entscheidet über {FATAL}?"),
        question(query_id=MORE),
    )

    told = {OTHER: ResultStatus.COMPLETE, WAITS: ResultStatus.DEGRADED, MORE: ResultStatus.COMPLETE}
    assert sorted((result.query_id, result.status) for result in results) == sorted(told.items())


async def test_a_query_that_waits_for_a_version_is_answered_once_though_another_of_its_batch_meets_a_defect() -> None:
    pipeline = await filled(rerankers=[Defective()])
    at_least = (VersionFloor(document_id=DocumentId("d1"), version=1),)

    results = await pipeline.ask_together(
        question(query_id=OTHER, at_least=at_least),
        question(query_id=WAITS, text=f"Wer entscheidet über {FATAL}?"),
        question(query_id=MORE),
    )

    assert sorted(result.query_id for result in results) == sorted([OTHER, WAITS, MORE])


async def test_a_query_that_fails_while_it_waits_for_a_version_is_answered_as_failed() -> None:
    pipeline = await filled(rerankers=[Defective()])
    at_least = (VersionFloor(document_id=DocumentId("d1"), version=1),)

    (failed,) = await pipeline.ask_together(
        question(query_id=WAITS, text=f"Wer entscheidet über {FATAL}?", at_least=at_least)
    )

    assert (failed.query_id, failed.status) == (WAITS, ResultStatus.DEGRADED)
    assert failed.failures


async def test_the_trace_of_a_query_that_fails_while_it_waits_for_a_version_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = await filled(rerankers=[Defective()])
    at_least = (VersionFloor(document_id=DocumentId("d1"), version=1),)

    await pipeline.ask_together(question(query_id=WAITS, text=f"Wer entscheidet über {FATAL}?", at_least=at_least))

    (consumed,) = [span for span in pipeline.spans.finished if span.name == "process queries"]
    (refused,) = [span for span in pipeline.spans.finished if span.name == "refuse"]
    assert refused.parent == consumed.get_span_context()
    attributes = refused.attributes or {}
    assert (attributes["freki.query.id"], attributes["freki.status"]) == (WAITS, ResultStatus.DEGRADED)
    assert [event.name for event in refused.events] == ["freki.notice"]
    assert not [line for line in caplog.messages if "ended span" in line]


async def test_a_query_that_cannot_be_decoded_is_rejected_for_whoever_its_key_names() -> None:
    pipeline = await filled()

    await pipeline.take("queries", Event(topic="queries", key=b"waits", value=b"{}"), Event(key=None, value=b"{}"))

    (sent,) = pipeline.producer.to("contexts")
    rejected = Codec(ContextResult).decode(sent.value or b"")
    assert (sent.key, rejected.query_id, rejected.status) == (b"waits", WAITS, ResultStatus.REJECTED)
    assert len(pipeline.producer.to(DEAD_LETTERS)) == 2, "nobody can be told of the second"
    headers = dict(pipeline.producer.to(DEAD_LETTERS)[0].headers)
    assert rejected.notices[0].message.encode() == headers["freki-dead-letter-message"]
