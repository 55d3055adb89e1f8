"""What the measurement of a change of generations makes of answers."""

from dataclasses import replace

import pytest

from bench.pipeline.corpus import TENANT, document
from bench.pipeline.generations import LONGEST_CHARACTERS, _is_good, _mixed, _moderate, _pause
from bench.pipeline.ground import Asked
from freki.schemas import ChunkId, ContextQuery, DocumentId, QueryId, ResultStatus, Timestamp
from tests.unit.evaluations import hit, result

STABLE = DocumentId("stable")
HELD = {name: {STABLE: (1, frozenset({ChunkId(f"of-{name}"), ChunkId("of-both")}))} for name in ("g1", "g2")}


def asked(generation: str, *chunks: str, started_s: float = 0.0, status: ResultStatus = ResultStatus.COMPLETE) -> Asked:
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="Wer?", asked_at=Timestamp(0))
    hits = [replace(hit(rank, STABLE, 0.5), chunk_id=ChunkId(chunk)) for rank, chunk in enumerate(chunks, start=1)]
    answered = replace(result(query, hits), generation=generation, status=status)
    return Asked(result=answered, started_s=started_s, milliseconds=100.0)


def test_an_answer_with_a_chunk_of_the_other_generation_is_mixed() -> None:
    answers = [asked("g1", "of-g1", "of-both"), asked("g2", "of-g2"), asked("g2", "of-g2", "of-g1")]

    assert _mixed(answers, HELD, {STABLE}) == (5, 1)
    assert _mixed(answers, HELD, set()) == (0, 0), "chunks of edited documents come and go"


@pytest.mark.parametrize(
    ("answer", "is_good"),
    [
        (asked("g1", "c"), True),
        (asked("g1", "c", status=ResultStatus.DEGRADED), True),
        (asked("g1"), False),
        (asked("g1", "c", status=ResultStatus.EXPIRED), False),
    ],
)
def test_an_answer_without_hits_or_too_late_counts_as_missing(answer: Asked, *, is_good: bool) -> None:
    assert _is_good(answer) == is_good


def test_a_pause_is_the_longest_time_between_two_answers() -> None:
    assert _pause([asked("g1", started_s=at) for at in (0.0, 0.2, 1.7, 2.0)]) == pytest.approx(1_500)
    assert _pause([]) == 0.0


def test_a_document_with_a_long_version_is_left_out() -> None:
    long = "x" * (LONGEST_CHARACTERS + 1)
    documents = [document(TENANT, "a", "short"), document(TENANT, "b", long), document(TENANT, "c", "short")]

    assert [each.document_id for each in _moderate(documents, {"c": ["short", long]})] == ["a"]
