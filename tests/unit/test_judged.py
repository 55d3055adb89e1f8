"""What users say of answers, and what becomes of it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.infra.models.fake import FakeEmbedder
from freki.operators.identify import root_id
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentId,
    Judgement,
    NoticeKind,
    QueryId,
    RerankerChoice,
    TenantId,
    Timestamp,
    Verdict,
)
from freki.schemas.embeddings import Embeddings
from freki.schemas.errors import Rejected
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.judged import JudgementBounds, Judgements, judgement_key, key_parts
from freki.streams.topics import DAY_MS
from tests.unit.questions import OPTIONS, now, stores
from tests.unit.revisions import TENANT, World, revision

BOUNDS = JudgementBounds(most=1_000, most_of_judge=100, half_life_days=90, least_cosine=0.9)
QUESTION = "antrag amt"


def judgement(**changes: Any) -> Judgement:
    made = Judgement(
        tenant=TENANT,
        query_id=QueryId("q"),
        question=QUESTION,
        judge="anna",
        document_id=DocumentId("b"),
        chunk_id=None,
        verdict=Verdict.UP,
        at=now(),
    )
    return replace(made, **changes)


async def filled(*judgements: Judgement, bounds: JudgementBounds = BOUNDS) -> Judgements:
    made = Judgements(FakeEmbedder(dim=16), bounds)
    for each in judgements:
        made.take(judgement_key(each), each, now=now())
    while await made.embed_some():
        pass
    return made


async def boosts(judgements: Judgements, question: str = QUESTION, tenant: str = TENANT) -> dict[str, float]:
    [vector] = (await FakeEmbedder(dim=16).embed_queries([question])).vectors
    return dict(judgements.boosts(TenantId(tenant), vector, now=now()))


async def test_a_thumb_moves_only_questions_that_are_alike_and_only_its_tenants() -> None:
    judgements = await filled(judgement())

    assert await boosts(judgements) == {root_id(TENANT, DocumentId("b")): pytest.approx(0.5, abs=1e-3)}
    assert await boosts(judgements, "freibad frist") == {}
    assert await boosts(judgements, tenant="another") == {}


async def test_the_last_verdict_of_a_judge_on_a_document_counts_and_null_erases_it() -> None:
    first = judgement()
    judgements = await filled(first, judgement(verdict=Verdict.DOWN))
    assert list((await boosts(judgements)).values()) == [pytest.approx(-0.5, abs=1e-3)]

    judgements.take(judgement_key(first), None, now=now())

    assert (len(judgements), await boosts(judgements)) == (0, {})


async def test_a_question_that_the_embedder_refuses_keeps_no_judgement_of_others_from_counting() -> None:
    class Refusing(FakeEmbedder):
        async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
            if "" in texts:
                raise Rejected("an empty text has no vector")
            return await super().embed_queries(texts)

    judgements = Judgements(Refusing(dim=16), BOUNDS)
    for each in (judgement(tenant=TenantId("another"), question=""), judgement()):
        judgements.take(judgement_key(each), each, now=now())

    assert not await judgements.embed_some()
    assert list(await boosts(judgements)) == [root_id(TENANT, DocumentId("b"))]


async def test_verdicts_fade_and_are_forgotten() -> None:
    old = Timestamp(now() - 90 * DAY_MS)

    [half] = (await boosts(await filled(judgement(at=old)))).values()

    assert half == pytest.approx(0.5 / 1.5, abs=1e-3)
    assert len(await filled(judgement(at=Timestamp(now() - 901 * DAY_MS)))) == 0


async def test_what_was_said_of_a_document_is_found_for_erasing_it() -> None:
    judgements = await filled(judgement(), judgement(judge="ben"), judgement(document_id=DocumentId("c")))

    keys = judgements.of_document(TENANT, DocumentId("b"))

    assert [key_parts(key) for key in keys] == [[TENANT, "anna", "q", "b"], [TENANT, "ben", "q", "b"]]


taken = st.lists(
    st.tuples(st.sampled_from(["t", "u", "v"]), st.sampled_from("ab"), st.integers(0, 9), st.booleans()), max_size=60
)


@settings(max_examples=60)
@given(taken=taken, most=st.integers(1, 12), most_of_judge=st.integers(1, 5))
async def test_it_holds_no_more_than_it_may_and_what_it_holds_is_of_the_topic(
    taken: Sequence[tuple[str, str, int, bool]], most: int, most_of_judge: int
) -> None:
    judgements = Judgements(FakeEmbedder(dim=16), replace(BOUNDS, most=most, most_of_judge=most_of_judge))
    last: dict[bytes, Judgement | None] = {}
    for tenant, judge, number, erased in taken:
        each = judgement(tenant=TenantId(tenant), judge=judge, document_id=DocumentId(str(number)))
        last[judgement_key(each)] = None if erased else each
        judgements.take(judgement_key(each), last[judgement_key(each)], now=now())
        assert len(judgements) <= most
    while await judgements.embed_some():
        pass
    for tenant in "tuv":
        live = {each.document_id for each in last.values() if each is not None and each.tenant == tenant}
        allowed = {root_id(TenantId(tenant), document_id) for document_id in live}
        assert set(await boosts(judgements, tenant=tenant)) <= allowed


# In a ranking


async def ranking(world: World, judgements: Judgements | None, **options: Any) -> ContextResult:
    retriever = Retriever(
        RetrievalModels(embedder=world.embedder),
        stores(world.index),
        QueryDefaults(options=replace(OPTIONS, reranker=RerankerChoice.NONE)),
        Clocks(now=now, ns=time.monotonic_ns),
        judgements=judgements,
    )
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=QUESTION, asked_at=now(), **options)
    ((_, result, _),) = [answer async for answer in retriever.answer([(query, "")])]
    return result


@pytest.fixture
async def world() -> World:
    made = World()
    await made.feed(revision("a", 1, ["antrag amt frist"]))
    await made.feed(revision("b", 1, ["antrag amt frist gebühr"]))
    await made.feed(revision("c", 1, ["freibad wer alle vergleich"], principals=("board",)))
    return made


async def test_a_thumb_lifts_a_document_by_no_more_than_the_option_and_says_so(world: World) -> None:
    down = judgement(document_id=DocumentId("a"), verdict=Verdict.DOWN)
    judgements = await filled(judgement(), judgement(judge="ben"), down, replace(down, judge="ben"))

    plain, lifted = await ranking(world, judgements), await ranking(world, judgements, feedback=1.0)

    assert [hit.document_id for hit in plain.hits] == ["a", "b"]
    assert [hit.document_id for hit in lifted.hits] == ["b", "a"]
    assert 0 < lifted.hits[0].judged < 1
    assert lifted.hits[0].score == pytest.approx(plain.hits[1].score + lifted.hits[0].judged)


async def test_a_query_is_told_that_judgements_are_not_read(world: World) -> None:
    asked, unasked = await ranking(world, None, feedback=0.5), await ranking(world, None, feedback=0.0)

    assert [(each.stage, each.kind) for each in asked.notices] == [("feedback", NoticeKind.SKIPPED)]
    assert not unasked.notices


async def test_no_verdict_makes_readable_what_is_not(world: World) -> None:
    judgements = await filled(*(judgement(document_id=DocumentId("c"), judge=judge) for judge in "abcdef"))

    assert [hit.document_id for hit in (await ranking(world, judgements, feedback=1.0)).hits] == ["a", "b"]


@pytest.mark.parametrize("verdict", list(Verdict))
async def test_no_verdict_buries_a_document(world: World, verdict: Verdict) -> None:
    judgements = await filled(*(judgement(document_id=DocumentId("a"), judge=judge, verdict=verdict) for judge in "ab"))

    assert {hit.document_id for hit in (await ranking(world, judgements, feedback=1.0, min_score=0.0)).hits} == {
        "a",
        "b",
    }
