"""Why hits stand where they stand, and which step lost what was expected."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from freki.operators.identify import root_id
from freki.schemas import (
    ContextResult,
    DocumentId,
    Explanation,
    Filter,
    FilterOperator,
    Metric,
    NoticeKind,
    RequestKind,
    RerankerChoice,
    ResultStatus,
    RootId,
)
from freki.schemas.errors import Unavailable
from freki.streams.retrieve.explainer import NO_ANSWER, NO_TIME, NO_WORD, NOT_THERE
from freki.streams.retrieve.steps.live import MAX_ROOT_AGE_NS
from tests.unit.questions import TEXTS, Broken, Scorer, ask, kinds, retriever
from tests.unit.revisions import TENANT, World, revision
from tests.unit.test_rerank_chain import DEADLINE_MS, Chain, Clock

QUESTION = "Wer entscheidet über den Antrag?"


@pytest.fixture
async def world() -> World:
    made = World()
    await made.feed(revision("a", 1, TEXTS))
    await made.feed(revision("b", 1, ["der antrag eilt", "das freibad öffnet um acht"]))
    await made.feed(revision("hidden", 1, ["über den antrag entscheidet das geheime amt"], principals=("chief",)))
    return made


def explained(result: ContextResult) -> Explanation:
    assert result.explanation is not None
    return result.explanation


async def test_nothing_is_explained_unless_asked(world: World) -> None:
    assert (await ask(retriever(world))).explanation is None


async def test_the_time_that_explaining_takes_is_that_of_a_step(world: World) -> None:
    result = await ask(retriever(world), QUESTION, expect=(DocumentId("b"), DocumentId("nowhere")))

    (explaining,) = [stage for stage in result.stages if stage.stage == "explain"]
    assert explaining.items == len(result.hits) + 2


@pytest.mark.parametrize("metric", Metric)
async def test_each_hit_has_its_place_in_each_search_and_after_each_step(world: World, metric: Metric) -> None:
    result = await ask(retriever(world, rerankers=[Scorer("amt")]), QUESTION, explain=True, metric=metric)

    stories = explained(result).hits
    assert [story.chunk_id for story in stories] == [hit.chunk_id for hit in result.hits]
    for hit, story in zip(result.hits, stories, strict=True):
        assert {"dense": hit.dense_score, "bm25": hit.lexical_score} == {
            "dense": None, "bm25": None, **{each.search: pytest.approx(each.score) for each in story.retrieved}
        }  # fmt: skip
        assert story.rerank_score == hit.rerank_score
        assert [rank.step for rank in story.ranks] == ["fuse", "match", "load", "rerank", "diversify", "hits"]
        assert story.ranks[-1].rank == hit.rank
        assert all(1 <= rank.rank <= rank.of for rank in story.ranks)


async def test_an_expected_document_that_is_found_is_named_with_its_place(world: World) -> None:
    result = await ask(retriever(world), QUESTION, expect=(DocumentId("a"),))

    (expected,) = explained(result).expected
    rank = next(hit.rank for hit in result.hits if hit.document_id == "a")
    assert (expected.lost_at, expected.reason) == (None, f"it is hit {rank}")


async def test_what_others_beat_is_lost_where_hits_are_chosen(world: World) -> None:
    result = await ask(retriever(world, rerankers=[Scorer("amt")]), QUESTION, expect=(DocumentId("b"),), top_k=1)

    (expected,) = explained(result).expected
    assert expected.lost_at == "diversify"
    assert expected.best is not None
    assert expected.best.rerank_score == 0.0


async def test_what_stands_too_far_down_after_fusion_is_lost_before_it_is_read(world: World) -> None:
    result = await ask(
        retriever(world),
        "Gebühr zehn euro",
        expect=(DocumentId("b"),),
        top_k=1,
        rerank_candidates=1,
        alpha=0.5,
        reranker=RerankerChoice.NONE,
    )

    (expected,) = explained(result).expected
    assert expected.lost_at == "load"
    assert "too far down" in expected.reason


async def test_what_late_interaction_ranks_too_far_down_is_not_said_to_be_lost_by_fusion(world: World) -> None:
    asked: dict[str, Any] = {"top_k": 1, "rerank_candidates": 1, "alpha": 0.0}

    result = await ask(retriever(world), "amt entscheidet", **asked, expect=(DocumentId("b"),))

    (expected,) = explained(result).expected
    assert expected.best is not None
    # Two candidates are read: by the order of fusion it would have been one of them.
    assert [(each.step, each.rank <= 2) for each in expected.best.ranks] == [("fuse", True), ("match", False)]
    assert (expected.lost_at, "fusion" in expected.reason) == ("load", False)


async def test_a_threshold_is_named_as_the_reason(world: World) -> None:
    result = await ask(retriever(world, rerankers=[Scorer("amt")]), QUESTION, expect=(DocumentId("b"),), min_score=0.5)

    (expected,) = explained(result).expected
    assert (expected.lost_at, expected.reason) == ("threshold", "its score is below min_score")


async def test_where_nothing_passes_a_threshold_it_is_the_reason_for_all_but_the_nearest(world: World) -> None:
    result = await ask(retriever(world), "zehn euro", expect=(DocumentId("b"),), min_score=1.0, top_k=1)

    (expected,) = explained(result).expected
    assert result.hits
    assert (expected.lost_at, expected.reason) == ("threshold", "its score is below min_score")


@pytest.mark.parametrize("texts", [None, ["das freibad hat zu"]])
async def test_no_hit_is_shown_of_a_document_that_was_replaced_while_others_were_looked_up(
    world: World, texts: list[str] | None
) -> None:
    now_ns = 0

    class Slow(Broken):
        async def roots(self, keys: Sequence[RootId]) -> Any:
            nonlocal now_ns
            if root_id(TENANT, DocumentId("nowhere")) in keys:
                now_ns += MAX_ROOT_AGE_NS + 1
                await world.feed(revision("a", 2, texts))
            return await world.index.roots(keys)

    asked = retriever(world, Slow(world.index), clock_ns=lambda: now_ns)
    result = await ask(asked, QUESTION, explain=True, expect=(DocumentId("nowhere"),))

    assert {hit.document_id for hit in result.hits} == {"b"}
    assert [story.chunk_id for story in explained(result).hits] == [hit.chunk_id for hit in result.hits]
    assert not any(text in result.context for text in TEXTS)
    assert len(result.notices) == len(set(result.notices))


async def test_an_answer_whose_documents_cannot_be_looked_at_again_after_explaining_is_told_as_degraded(
    world: World,
) -> None:
    now_ns = 0

    class Slow(Broken):
        async def roots(self, keys: Sequence[RootId]) -> Any:
            nonlocal now_ns
            if now_ns:
                raise Unavailable("roots are down")
            if root_id(TENANT, DocumentId("nowhere")) in keys:
                now_ns += MAX_ROOT_AGE_NS + 1
            return await world.index.roots(keys)

    asked = retriever(world, Slow(world.index), clock_ns=lambda: now_ns)
    result = await ask(asked, QUESTION, explain=True, expect=(DocumentId("nowhere"),))

    assert (result.hits, result.status) == ((), ResultStatus.DEGRADED)
    assert ("recheck", NoticeKind.DEGRADED) in kinds(result)


async def test_a_filter_that_leaves_a_document_out_is_named(world: World) -> None:
    only_a = Filter(field="document_id", operator=FilterOperator.EQ, values=("a",))

    result = await ask(retriever(world), QUESTION, expect=(DocumentId("b"),), filters=(only_a,))

    (expected,) = explained(result).expected
    assert expected.lost_at == "filter"
    assert "filters" in expected.reason


async def test_what_no_search_reaches_is_told_with_how_near_it_comes(world: World) -> None:
    result = await ask(
        retriever(world), "die gebühr beträgt zehn euro", expect=(DocumentId("b"),), candidates=1, top_k=1
    )

    (expected,) = explained(result).expected
    assert expected.lost_at == "search"
    assert "cosine" in expected.reason


async def test_what_no_search_reaches_is_no_nearer_than_what_was_found_however_queries_are_centred() -> None:
    world = World()
    names = [f"b{number}" for number in range(15)]
    for number, name in enumerate(names):
        await world.feed(revision(name, 1, [f"was {number} ist wie die gebühr {number} wird"]))
    asked = retriever(world)
    await asked.warm_up()

    result = await ask(asked, "Wie wird die gebühr?", expect=tuple(map(DocumentId, names)), candidates=3, alpha=1.0)

    told = [
        re.search(r"best cosine is (\S+), that of the last one found ([\d.]+)", each.reason)
        for each in explained(result).expected
    ]
    compared = [(float(each[1]), float(each[2])) for each in told if each is not None]
    assert compared
    assert all(best <= last for best, last in compared)


@pytest.mark.parametrize("call", ["roots", "dense"])
async def test_of_a_document_that_cannot_be_looked_up_it_is_not_said_that_it_is_not_there(
    world: World, call: str
) -> None:
    options: dict[str, Any] = {"text": "die gebühr beträgt zehn euro", "candidates": 1, "top_k": 1}
    whole = Broken(world.index)
    await ask(retriever(world, whole), **options)
    fails_later = Broken(world.index, fails_from={call: whole.calls[call] + 1})

    result = await ask(retriever(world, fails_later), **options, expect=(DocumentId("b"),))

    (expected,) = explained(result).expected
    assert (expected.lost_at, expected.best) == ("search", None)
    assert expected.reason == NO_ANSWER


async def test_what_no_time_is_left_for_is_not_looked_up_and_that_is_said(world: World) -> None:
    class Slow(Broken):
        """Needs all the time for a call that explains."""

        async def roots(self, keys: Sequence[RootId]) -> Any:
            if root_id(TENANT, DocumentId("nowhere-0")) in keys:
                clock.ms += DEADLINE_MS
            self.calls["roots"] += 1
            return await world.index.roots(keys)

    clock, whole = Clock(), Broken(world.index)
    only_a = Filter(field="document_id", operator=FilterOperator.EQ, values=("a",))
    await Chain(world, clock, store=whole).ask(filters=(only_a,))
    slow = Slow(world.index)

    asked = (*(DocumentId(f"nowhere-{number}") for number in range(15)), DocumentId("b"))
    result = await Chain(world, clock, store=slow).ask(expect=asked, filters=(only_a,))

    *missing, there = explained(result).expected
    assert {each.reason for each in missing} == {NOT_THERE}
    assert there.reason == NO_TIME
    # One that explains, and a last look at the documents of hits.
    assert slow.calls["roots"] == whole.calls["roots"] + 2
    assert result.hits


async def test_a_document_without_the_words_of_a_search_for_words_is_not_said_to_be_missing(world: World) -> None:
    result = await ask(retriever(world), "freibad", kind=RequestKind.KEYWORD_SEARCH, expect=(DocumentId("a"),))

    (expected,) = explained(result).expected
    assert (expected.lost_at, expected.reason) == ("search", NO_WORD)


async def test_a_document_that_may_not_be_read_is_spoken_of_like_one_that_does_not_exist(world: World) -> None:
    asked = (DocumentId("hidden"), DocumentId("nowhere"))

    result = await ask(retriever(world), QUESTION, expect=asked)

    hidden, nowhere = explained(result).expected
    assert (hidden.lost_at, hidden.reason, hidden.best) == (nowhere.lost_at, nowhere.reason, nowhere.best)
    assert "hidden" not in {story.document_id for story in explained(result).hits}


async def test_who_may_read_a_document_is_told_what_became_of_it(world: World) -> None:
    result = await ask(retriever(world), QUESTION, expect=(DocumentId("hidden"),), principals=("chief",))

    (expected,) = explained(result).expected
    assert expected.lost_at is None


@pytest.mark.parametrize("now", [{"principals": ("board",)}, {"deleted": True, "pages": (), "chunks": 0}])
@pytest.mark.parametrize("candidates", [{}, {"candidates": 1}])
async def test_a_document_whose_rows_are_older_than_its_root_is_spoken_of_as_its_root_says(
    world: World, now: dict[str, Any], candidates: dict[str, int]
) -> None:
    key = root_id(TENANT, DocumentId("b"))
    root = (await world.index.roots([key]))[key]
    # As when the commit is done and the rows of the revision before are not deleted yet.
    await world.index.commit([replace(root, **now)], [])
    asked = (DocumentId("b"), DocumentId("nowhere"))

    result = await ask(
        retriever(world),
        "Gebühr zehn euro",
        expect=asked,
        top_k=1,
        rerank_candidates=1,
        reranker=RerankerChoice.NONE,
        **candidates,
    )

    hidden, nowhere = explained(result).expected
    assert nowhere.reason == NOT_THERE
    assert (hidden.lost_at, hidden.reason, hidden.best) == (nowhere.lost_at, nowhere.reason, nowhere.best)


async def test_all_expected_documents_are_looked_up_by_one_call(world: World) -> None:
    alone, explaining = Broken(world.index), Broken(world.index)
    await ask(retriever(world, alone), QUESTION)

    asked = tuple(map(DocumentId, ("a", "b", "hidden", "nowhere")))
    await ask(retriever(world, explaining), QUESTION, expect=asked)

    assert explaining.calls["roots"] == alone.calls["roots"] + 1


async def test_of_a_document_that_was_found_but_cannot_be_looked_up_nothing_is_told(world: World) -> None:
    options: dict[str, Any] = {"text": QUESTION, "top_k": 1, "expect": (DocumentId("b"),)}
    whole = Broken(world.index)
    await ask(retriever(world, whole), QUESTION, top_k=1)

    result = await ask(retriever(world, Broken(world.index, fails_from={"roots": whole.calls["roots"] + 1})), **options)

    (expected,) = explained(result).expected
    assert (expected.lost_at, expected.reason, expected.best) == ("search", NO_ANSWER, None)


async def test_a_hit_is_explained_without_another_look(world: World) -> None:
    whole = Broken(world.index)
    await ask(retriever(world, whole), QUESTION)
    fails_later = Broken(world.index, fails_from={"roots": whole.calls["roots"] + 1})

    result = await ask(retriever(world, fails_later), QUESTION, expect=(DocumentId("a"),))

    assert explained(result).expected[0].lost_at is None
