"""The handler of queries: no query of a batch takes the answers of the others."""

import pytest

from freki.schemas import DocumentId, NoticeKind, QueryId, ResultStatus, VersionFloor
from freki.schemas.errors import Rejected
from tests.unit.pipelines import Pipeline
from tests.unit.test_query_trace import document, question

LATER = (VersionFloor(document_id=DocumentId("d1"), version=9),)
WAITS, OTHER, MORE = (QueryId(name) for name in ("waits", "other", "too many"))


async def filled() -> Pipeline:
    pipeline = Pipeline()
    await pipeline.publish(document())
    return pipeline


async def test_queries_that_wait_for_versions_beyond_a_number_are_refused_and_hold_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("freki.streams.retrieve.handler.MAX_PATIENT", 1)
    pipeline = await filled()

    results = await pipeline.ask_together(
        question(query_id=WAITS, at_least=LATER, deadline_ms=400),
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


async def test_an_answer_that_does_not_fit_a_record_is_refused_and_the_others_are_answered_once() -> None:
    pipeline = await filled()
    pipeline.producer.failures.append(Rejected("6,000,000 bytes, 5,000,000 allowed"))

    results = await pipeline.ask_together(question(query_id=WAITS), question(query_id=OTHER))

    (refused,) = [result for result in results if result.status is ResultStatus.REJECTED]
    assert [notice.stage for notice in refused.notices] == ["reply"]
    assert "lower top_k" in refused.notices[0].message
    assert sorted(result.query_id for result in results) == sorted([WAITS, OTHER])
    assert [result.status for result in results if result is not refused] == [ResultStatus.COMPLETE]
