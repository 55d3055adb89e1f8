"""Answers on a store in memory: what is live, what fails open, what the deadline leaves out."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

from freki.operators.analyse_query import example_wordings
from freki.operators.identify import root_id
from freki.schemas import (
    ChunkKind,
    Confidence,
    ContextQuery,
    ContextResult,
    ContextualChunk,
    ContextualChunkBatch,
    DocumentId,
    Filter,
    FilterOperator,
    Fusion,
    Metric,
    NoticeKind,
    QueryId,
    QueryType,
    RequestKind,
    RerankerChoice,
    ResultStatus,
    RootId,
    TypedBy,
    VersionFloor,
)
from freki.schemas.embeddings import Embeddings
from freki.schemas.errors import Unavailable
from freki.schemas.index import Candidate, ManifestPage, PageId, RerankPair, Root
from freki.streams.ports import Embedder
from freki.streams.retrieve.steps.live import MAX_RECHECK_NS, MAX_ROOT_AGE_NS
from tests.memory_index import MemoryIndex
from tests.simulated_time import in_simulated_time
from tests.unit.questions import OPTIONS, TEXTS, Broken, Scorer, ask, kinds, now, retriever
from tests.unit.revisions import TENANT, World, revision, rows_of


class Knowing:
    """An embedder that knows the types of the examples, and takes anything else for a list."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._types = {each.text: each.query_type for each in example_wordings()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        types = [self._types.get(text, QueryType.AGGREGATIVE) for text in texts]
        places = [list(QueryType).index(each) for each in types]
        found = await self._embedder.embed_queries(texts)
        return found._replace(vectors=np.eye(self._embedder.dim, dtype=np.float32)[places])


class Down:
    """An embedder that embeds no query."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def embed_queries(self, _texts: Sequence[str]) -> Embeddings:
        raise Unavailable("the embedder is down")


class Stalling(Down):
    """An embedder that never answers."""

    async def embed_queries(self, _texts: Sequence[str]) -> Embeddings:
        await asyncio.Event().wait()
        raise AssertionError


async def test_hits_carry_every_score_and_their_place(world: World) -> None:
    result = await ask(retriever(world))

    hit = result.hits[0]
    assert (hit.document_id, hit.version, hit.path) == ("a", 1, f"0/{TEXTS.index(hit.text)}")
    assert hit.score == hit.rerank_score
    assert hit.fused_score == 1
    assert hit.dense_score is not None
    assert [item.rank for item in result.hits] == list(range(1, len(result.hits) + 1))


@pytest.mark.parametrize("broken", ["dense", "lexical"])
async def test_one_retriever_is_enough_for_an_answer(world: World, broken: str) -> None:
    result = await ask(retriever(world, Broken(world.index, broken)))

    assert result.hits
    assert result.status is ResultStatus.DEGRADED
    assert (f"search.{broken}", NoticeKind.DEGRADED) in kinds(result)


async def test_a_store_that_is_down_does_not_look_like_one_that_holds_nothing(world: World) -> None:
    result = await ask(retriever(world, Broken(world.index, "dense", "lexical")))

    assert (result.status, result.hits) == (ResultStatus.DEGRADED, ())
    assert {stage for stage, _ in kinds(result)} >= {"search.dense", "search.lexical"}


async def test_surroundings_that_cannot_be_read_are_left_out(world: World) -> None:
    result = await ask(retriever(world, Broken(world.index, "passages")))

    assert result.hits
    assert all(hit.parent is None and hit.before == hit.after == () for hit in result.hits)
    assert ("augment", NoticeKind.DEGRADED) in kinds(result)


async def test_the_reranker_sets_score_and_order(world: World) -> None:
    result = await ask(retriever(world, rerankers=[Scorer("gebühr")]))

    assert result.reranker == "local"
    assert "gebühr" in result.hits[0].text
    assert result.hits[0].score == result.hits[0].rerank_score == 1.0


@pytest.mark.parametrize("fusion", list(Fusion))
async def test_late_interaction_scores_all_candidates_between_0_and_1(world: World, fusion: Fusion) -> None:
    result = await ask(retriever(world), fusion=fusion)

    assert result.reranker == "local"
    assert all(0 < hit.rerank_score < 1 for hit in result.hits if hit.rerank_score is not None)
    assert all(hit.rerank_score is not None for hit in result.hits)


async def test_without_stored_token_vectors_cosines_give_the_scores(world: World) -> None:
    key = root_id(TENANT, DocumentId("a"))
    heads = (await world.index.rows_of([key]))[key]
    for row, vector in (await world.index.fetch([head.row_id for head in heads])).values():
        await world.index.delete([row.row_id])
        await world.index.insert([replace(row, match_code="")], vector[None])

    result = await ask(retriever(world))

    assert result.hits
    assert result.reranker == "cosine"


async def test_match_codes_that_cannot_be_read_leave_the_order_of_hybrid_search_and_are_the_only_notice(
    world: World,
) -> None:
    fused = await ask(retriever(world), reranker=RerankerChoice.NONE)

    result = await ask(retriever(world, Broken(world.index, "match_codes")))

    assert [hit.chunk_id for hit in result.hits] == [hit.chunk_id for hit in fused.hits]
    assert (result.status, result.reranker) == (ResultStatus.DEGRADED, "cosine")
    assert kinds(result) == {("match", NoticeKind.DEGRADED)}


@pytest.mark.parametrize("reranker", [RerankerChoice.NONE, RerankerChoice.COSINE])
async def test_a_query_that_compares_no_match_codes_is_not_told_that_others_lack_theirs(
    world: World, reranker: RerankerChoice
) -> None:
    others, _ = asked_within("Gebühr?", 60_000)
    queries = [others, replace(others, query_id=QueryId("without"), reranker=reranker)]
    asked = retriever(world, Broken(world.index, "match_codes"))

    answers = {place: result async for place, result, _ in asked.answer([(query, "") for query in queries])}

    assert [answers[place].status for place in (0, 1)] == [ResultStatus.DEGRADED, ResultStatus.COMPLETE]


async def test_a_query_whose_rows_were_read_is_not_told_that_others_lack_theirs(world: World) -> None:
    # given many candidates that are not live, so that the rows of live ones are read later, by a second call
    many = [f"wer entscheidet über den antrag {number}" for number in range(120)]
    with pytest.raises(Unavailable):
        await world.feed(revision("b", 1, many), Broken(world.index, "commit"))
    short, _ = asked_within("Wer entscheidet über den Antrag?", 60_000)
    own = (Filter(field="document_id", operator=FilterOperator.EQ, values=("a",)),)
    queries = [short, replace(short, query_id=QueryId("whole"), filters=own)]
    asked = retriever(world, Broken(world.index, fails_from={"contents": 2}))

    answers = {place: result async for place, result, _ in asked.answer([(query, "") for query in queries])}

    assert [("load", NoticeKind.DEGRADED) in kinds(answers[place]) for place in (0, 1)] == [True, False]
    assert answers[1].status is ResultStatus.COMPLETE


@pytest.mark.parametrize(("call", "step"), [("match_codes", "match"), ("watermarks", "freshness")])
@in_simulated_time
async def test_what_an_answer_can_do_without_leaves_time_for_it_if_it_takes_too_long(
    world: World, call: str, step: str
) -> None:
    never = asyncio.Event()

    result = await ask(retriever(world, Broken(world.index, before={call: never.wait})), deadline_ms=2_000)

    assert len(result.hits) == len(TEXTS)
    assert kinds(result) == {(step, NoticeKind.DEGRADED)}


@pytest.mark.parametrize("call", ["roots", "pages"])
@in_simulated_time
async def test_a_store_that_was_slow_once_is_waited_for_though_there_may_be_no_time_for_a_second_look_at_roots(
    world: World, call: str
) -> None:
    before: dict[str, Any] = {"roots": partial(asyncio.sleep, 0.6)}
    asked = retriever(world, Broken(world.index, before=before))
    await ask(asked)
    await world.feed(revision("a", 2, TEXTS))
    before[call] = partial(asyncio.sleep, 0.05)

    result = await ask(asked, deadline_ms=1_500)

    assert len(result.hits) == len(TEXTS)
    assert NoticeKind.DEGRADED not in {kind for _, kind in kinds(result)}


@pytest.mark.parametrize(("call", "step"), [("dense", "search.dense"), ("lexical", "search.lexical")])
@in_simulated_time
async def test_a_search_that_takes_too_long_leaves_time_to_show_what_the_other_found(
    world: World, call: str, step: str
) -> None:
    never = asyncio.Event()

    result = await ask(retriever(world, Broken(world.index, before={call: never.wait})), deadline_ms=2_000)

    assert result.hits
    assert kinds(result) == {(step, NoticeKind.DEGRADED)}


@in_simulated_time
async def test_an_embedder_that_takes_too_long_leaves_time_to_search_by_words(world: World) -> None:
    result = await ask(retriever(world, embedder=Stalling(world.embedder)), deadline_ms=2_000)

    assert {hit.text for hit in result.hits} == {TEXTS[0], TEXTS[2]}
    assert kinds(result) == {("embed", NoticeKind.DEGRADED)}


@in_simulated_time
async def test_further_chunks_that_take_too_long_leave_time_for_neighbours(world: World) -> None:
    never = asyncio.Event()

    class Slow(Broken):
        async def dense(self, *args: Any, **kwargs: Any) -> list[list[Candidate]]:
            self.calls["dense"] += 1
            if self.calls["dense"] > 1:
                await never.wait()
            return await world.index.dense(*args, **kwargs)

    options: dict[str, Any] = {"expand_documents": 1, "expand_similarity": 0.0, "top_k": 1, "neighbours": 1}
    result = await ask(retriever(world, Slow(world.index)), **options, deadline_ms=2_000)

    assert [bool(hit.before or hit.after) for hit in result.hits] == [True]
    assert kinds(result) == {("expand", NoticeKind.DEGRADED)}


async def test_a_query_that_cannot_be_embedded_needs_no_other_reranker(world: World) -> None:
    result = await ask(retriever(world, embedder=Down(world.embedder)))

    assert result.hits
    assert kinds(result) == {("embed", NoticeKind.DEGRADED)}


async def test_candidates_that_were_not_reranked_come_last_and_are_counted(world: World) -> None:
    result = await ask(retriever(world, rerankers=[Scorer("nothing", most=1)]))

    assert [hit.rerank_score is None for hit in result.hits] == [False, True, True]
    assert ("rerank", NoticeKind.SKIPPED) in kinds(result)


@pytest.mark.parametrize("calls", [("roots",), ("dense", "lexical")])
async def test_what_was_found_before_a_document_was_replaced_is_kept_if_the_second_look_fails(
    world: World, calls: Sequence[str]
) -> None:
    await world.feed(revision("b", 1, ["der antrag eilt"]))

    async def replace() -> None:
        await world.feed(revision("a", 2, ["die gebühr beträgt elf euro"]))

    store = Broken(world.index, before={"roots": replace}, fails_from=dict.fromkeys(calls, 2))
    result = await ask(retriever(world, store))

    assert [hit.text for hit in result.hits] == ["der antrag eilt"]
    assert result.status is ResultStatus.DEGRADED


async def test_candidates_of_former_revisions_are_told_of_also_if_those_further_down_cannot_be_looked_up(
    world: World,
) -> None:
    await world.feed(revision("b", 1, ["das freibad öffnet um acht", "der hund bellt laut", "die katze schläft"]))

    async def replace() -> None:
        await world.feed(revision("a", 2, ["der schnee fällt leise"]))

    store = Broken(world.index, before={"roots": replace}, fails_from={"roots": 2})
    result = await ask(retriever(world, store), top_k=1, rerank_candidates=1)

    assert not result.hits
    assert {("manifest", NoticeKind.DROPPED), ("manifest", NoticeKind.DEGRADED)} <= kinds(result)


async def test_a_document_that_is_replaced_while_it_is_read_is_read_again(world: World) -> None:
    new = ["das amt entscheidet über den antrag im mai", "die gebühr beträgt elf euro"]

    async def replace() -> None:
        await world.feed(revision("a", 2, new))

    for moment in ("roots", "naming", "contents", "pages"):
        fresh = World()
        await fresh.feed(revision("a", 1, TEXTS))
        world = fresh
        result = await ask(retriever(world, Broken(world.index, before={moment: replace})))

        versions = {hit.version for hit in result.hits}
        assert versions == {2}, moment
        assert {hit.text for hit in result.hits} == set(new), moment


@pytest.mark.parametrize(
    ("texts", "principals"), [(None, ("everyone",)), (["das amt entscheidet"], ("everyone",)), (TEXTS, ("board",))]
)
async def test_what_changes_while_a_model_ranks_is_noticed_also_by_one_who_read_the_manifest_before(
    world: World, texts: Sequence[str] | None, principals: tuple[str, ...]
) -> None:
    ranked_ns = 0

    class Changing(Scorer):
        changes = False

        async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
            nonlocal ranked_ns
            if self.changes:
                self.changes = False
                await world.feed(revision("a", 2, texts, principals=principals))
            ranked_ns += MAX_ROOT_AGE_NS + 1
            return await super().score(pairs, budget_s=budget_s)

    scorer = Changing("gebühr")
    asked = retriever(world, rerankers=[scorer], clock_ns=lambda: ranked_ns)
    assert (await ask(asked)).hits
    scorer.changes = True

    result = await ask(asked)

    assert [(hit.text, hit.version) for hit in result.hits] == ([(texts[0], 2)] if texts and texts != TEXTS else [])


@pytest.mark.parametrize("moment", ["pages", "passages"])
@pytest.mark.parametrize(
    ("texts", "principals"), [(None, ("everyone",)), (["das amt entscheidet"], ("everyone",)), (TEXTS, ("board",))]
)
async def test_what_changes_while_a_process_stands_still_after_its_hits_are_chosen_is_noticed(
    world: World, moment: str, texts: Sequence[str] | None, principals: tuple[str, ...]
) -> None:
    now_ns = 0

    async def stand_still() -> None:
        nonlocal now_ns
        now_ns += MAX_ROOT_AGE_NS + 1
        await world.feed(revision("a", 2, texts, principals=principals))

    store = Broken(world.index, before={moment: stand_still})
    result = await ask(retriever(world, store, clock_ns=lambda: now_ns), parents=True, neighbours=1)

    assert [(hit.text, hit.version) for hit in result.hits] == ([(texts[0], 2)] if texts and texts != TEXTS else [])
    assert not any(text in result.context for text in TEXTS)


@pytest.mark.parametrize("texts", [None, ["das amt entscheidet"]], ids=["deleted", "replaced"])
async def test_what_changes_while_a_process_stands_still_in_the_last_look_at_roots_is_noticed(
    world: World, texts: Sequence[str] | None
) -> None:
    now_ns = 0

    class Slow(Broken):
        async def passages(self, row_ids: Any) -> Any:
            nonlocal now_ns
            self.calls["passages"] += 1
            now_ns += (MAX_ROOT_AGE_NS + 1) * (self.calls["passages"] == 1)
            return await world.index.passages(row_ids)

        async def roots(self, root_ids: Any) -> Any:
            nonlocal now_ns
            self.calls["roots"] += 1
            read = await world.index.roots(root_ids)
            if self.calls["roots"] == 2:
                # What was read waits in the socket meanwhile.
                now_ns += MAX_RECHECK_NS + 1
                await world.feed(revision("a", 2, texts))
            return read

    store = Slow(world.index)
    result = await ask(retriever(world, store, clock_ns=lambda: now_ns))

    assert [hit.text for hit in result.hits] == (texts or [])
    assert not any(text in result.context for text in TEXTS)


@pytest.mark.parametrize("explain", [False, True], ids=["plain", "explained"])
@pytest.mark.parametrize("texts", [None, ["das amt entscheidet"]], ids=["deleted", "replaced"])
async def test_what_changes_while_an_answer_waits_for_those_before_it_to_be_sent_is_noticed(
    world: World, texts: Sequence[str] | None, *, explain: bool
) -> None:
    now_ns = 0
    await world.feed(revision("b", 1, ["der antrag kostet eine gebühr"]))
    asked = retriever(world, clock_ns=lambda: now_ns)
    query = ContextQuery(
        query_id=QueryId("q"), tenant=TENANT, text="Antrag und Gebühr", asked_at=now(), explain=explain
    )

    results: list[ContextResult] = []
    async for _, result, _ in asked.answer([(query, ""), (query, "")]):
        results.append(result)
        if len(results) == 1:
            # The other one is composed by now.
            await asyncio.sleep(0.1)
            now_ns += MAX_RECHECK_NS + 1
            await world.feed(revision("a", 2, texts))

    first, second = results
    assert {hit.text for hit in first.hits} > set(TEXTS[:1])
    assert {hit.document_id for hit in second.hits} == {"b"}
    assert not any(text in second.context for text in TEXTS)
    assert (second.explanation is not None) == explain
    assert len(second.notices) == len(set(second.notices))


async def test_a_store_that_is_always_slow_is_asked_twice_at_most_which_documents_stand(world: World) -> None:
    now_ns = 0

    class Slow(Broken):
        async def roots(self, root_ids: Any) -> Any:
            nonlocal now_ns
            self.calls["roots"] += 1
            now_ns += MAX_RECHECK_NS + 1
            return await world.index.roots(root_ids)

    store = Slow(world.index)
    result = await ask(retriever(world, store, clock_ns=lambda: now_ns))

    assert result.hits
    assert store.calls["roots"] == 3


async def test_what_a_second_attempt_finds_is_told_without_the_failure_of_the_first(world: World) -> None:
    now_ns = 0

    class Shaky(Broken):
        async def passages(self, row_ids: Any) -> Any:
            nonlocal now_ns
            self.calls["passages"] += 1
            now_ns += (MAX_ROOT_AGE_NS + 1) * (self.calls["passages"] == 1)
            return await world.index.passages(row_ids)

        async def roots(self, root_ids: Any) -> Any:
            self.calls["roots"] += 1
            if self.calls["roots"] == 2:
                raise Unavailable("roots are down")
            return await world.index.roots(root_ids)

    result = await ask(retriever(world, Shaky(world.index), clock_ns=lambda: now_ns), parents=True, neighbours=1)

    assert result.hits
    assert NoticeKind.DEGRADED not in {kind for _, kind in kinds(result)}


async def test_a_document_that_is_deleted_while_a_process_stands_still_is_not_named_as_holding_the_same_text(
    world: World,
) -> None:
    await world.feed(revision("b", 3, [TEXTS[0].upper(), "etwas ganz anderes"]))
    now_ns = 0

    async def stand_still() -> None:
        nonlocal now_ns
        now_ns += MAX_ROOT_AGE_NS + 1
        await world.feed(revision("b", 4, None))

    store = Broken(world.index, before={"passages": stand_still})
    result = await ask(retriever(world, store, clock_ns=lambda: now_ns))

    assert {hit.document_id for hit in result.hits} == {"a"}
    assert {hit.duplicates for hit in result.hits} == {()}


@pytest.mark.parametrize(("age_ns", "reads"), [(MAX_ROOT_AGE_NS, 1), (MAX_ROOT_AGE_NS + 1, 2), (-1, 2)])
async def test_roots_are_read_again_only_if_they_were_read_some_time_ago(world: World, age_ns: int, reads: int) -> None:
    ranked_ns = 0

    class Slow(Scorer):
        async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
            nonlocal ranked_ns
            ranked_ns = age_ns
            return await super().score(pairs, budget_s=budget_s)

    store = Broken(world.index)
    result = await ask(retriever(world, store, rerankers=[Slow("gebühr")], clock_ns=lambda: ranked_ns))

    assert result.hits
    assert store.calls["roots"] == reads


async def test_a_document_that_is_replaced_at_every_look_is_left_out_and_the_question_is_answered(world: World) -> None:
    versions = count(2)

    class Restless(Broken):
        async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
            version = next(versions)
            await world.feed(revision("a", version, [f"die gebühr beträgt {version} euro"]))
            return await world.index.pages(page_ids)

    result = await ask(retriever(world, Restless(world.index)))

    assert result.hits == ()


@pytest.mark.parametrize("document", ["a", "b"])
async def test_rows_that_are_not_committed_yet_cost_few_looks_and_no_second_search(world: World, document: str) -> None:
    many = [f"der antrag wird vom amt {number} entschieden" for number in range(120)]
    with pytest.raises(Unavailable):
        await world.feed(revision(document, 2, many), Broken(world.index, "commit"))
    store = Broken(world.index)

    result = await ask(retriever(world, store))

    assert {hit.text for hit in result.hits} == set(TEXTS)
    assert {hit.version for hit in result.hits} == {1}
    assert store.calls["dense"] == 1
    assert store.calls["naming"] <= 4


async def test_narrower_access_counts_from_the_commit(world: World) -> None:
    await world.feed(revision("a", 2, TEXTS, principals=("board",)))

    assert (await ask(retriever(world))).hits == ()
    assert (await ask(retriever(world), principals=("board",))).hits


async def test_a_threshold_leaves_out_hits_and_says_so(world: World) -> None:
    best, *others = (await ask(retriever(world))).hits

    result = await ask(retriever(world), min_score=best.score)

    assert others
    assert [hit.chunk_id for hit in result.hits] == [best.chunk_id]
    assert ("threshold", NoticeKind.DROPPED) in kinds(result)


async def test_where_else_a_passage_stands_is_named_with_it(world: World) -> None:
    await world.feed(revision("b", 3, [TEXTS[0].upper(), "etwas ganz anderes"]))

    result = await ask(retriever(world))

    (hit,) = [hit for hit in result.hits if hit.text.lower() == TEXTS[0]]
    (other,) = hit.duplicates
    assert {(hit.document_id, hit.version), (other.document_id, other.version)} == {("a", 1), ("b", 3)}
    assert {hit.duplicates for hit in result.hits if hit.text.lower() != TEXTS[0]} == {()}


async def test_a_copy_that_the_asker_may_not_read_is_neither_named_nor_hides_the_other(world: World) -> None:
    await world.feed(revision("b", 1, TEXTS, principals=("board",)))

    everyone = await ask(retriever(world))
    board = await ask(retriever(world), principals=("board",))

    assert {hit.document_id for hit in everyone.hits} == {"a"}
    assert {hit.duplicates for hit in everyone.hits} == {()}
    assert [len(hit.duplicates) for hit in board.hits] == [1, 1, 1]


async def test_what_is_nearly_the_same_folds_at_the_likeness_that_is_asked_for(world: World) -> None:
    await world.feed(revision("b", 1, [f"{TEXTS[0]} nun"]))

    apart = await ask(retriever(world))
    folded = await ask(retriever(world), fold_at=0.7)

    assert (len(apart.hits), len(folded.hits)) == (4, 3)
    assert sum(len(hit.duplicates) for hit in folded.hits) == 1


async def test_no_document_has_more_hits_than_it_may(world: World) -> None:
    await world.feed(revision("b", 1, ["das freibad öffnet um acht"]))

    result = await ask(retriever(world), per_document=1)

    assert sorted(hit.document_id for hit in result.hits) == ["a", "b"]


async def test_documents_that_may_have_few_hits_leave_room_for_candidates_of_others(world: World) -> None:
    await world.feed(
        revision("long", 1, [f"der antrag auf seite {page} ist schriftlich zu stellen" for page in range(60)])
    )

    free = await ask(retriever(world), "antrag seite schriftlich", top_k=2, rerank_candidates=1)
    shared = await ask(retriever(world), "antrag seite schriftlich", top_k=2, rerank_candidates=1, per_document=1)

    assert {hit.document_id for hit in free.hits} == {"long"}
    assert [len(free.hits), len(shared.hits)] == [2, 2]
    assert {hit.document_id for hit in shared.hits} == {"long", "a"}


@pytest.mark.parametrize("fusion", list(Fusion))
@pytest.mark.parametrize("metric", list(Metric))
async def test_fused_scores_lie_in_0_to_1_and_set_the_order(world: World, fusion: Fusion, metric: Metric) -> None:
    result = await ask(retriever(world), fusion=fusion, metric=metric, reranker=RerankerChoice.NONE)

    fused = [hit.fused_score for hit in result.hits]
    assert fused == sorted(fused, reverse=True)
    assert all(0 <= score <= 1 for score in fused)


@pytest.mark.parametrize(
    ("rerankers", "text", "expected"),
    [
        ([Scorer("gebühr")], "Wie hoch ist die Gebühr?", Confidence.HIGH),
        ([Scorer("nirgends")], "zyx wvu", Confidence.NONE),
        ([], "der antrag ist schriftlich zu stellen", Confidence.HIGH),
    ],
)
async def test_a_result_says_whether_some_hit_answers_the_question(
    world: World, rerankers: list[Scorer], text: str, expected: Confidence
) -> None:
    # The embedder of the tests knows no meaning: vectors are more alike than those of a model.
    defaults = replace(OPTIONS, unanswered_similarity=2.0)

    result = await ask(retriever(world, rerankers=rerankers, defaults=defaults), text, deadline_ms=60_000)

    said = any("nächstliegenden" in line or "only the nearest" in line for line in result.advice)
    assert result.status is ResultStatus.COMPLETE
    assert result.hits
    assert result.confidence is expected
    assert said is (expected is Confidence.NONE)


async def test_only_thresholds_that_were_asked_for_are_told(world: World) -> None:
    asked = retriever(world, rerankers=[Scorer("gebühr")])
    alone = await ask(asked, min_similarity=9.0)
    both = await ask(asked, min_similarity=9.0, min_score=0.999)

    (said,) = [notice.message for notice in alone.notices if notice.stage == "threshold"]
    assert said.startswith("no candidate reaches min_similarity 9: ")
    (said,) = [notice.message for notice in both.notices if notice.stage == "threshold"]
    assert said.startswith("no candidate reaches min_score 0.999, compared with ")
    assert ", or min_similarity 9: " in said


async def test_what_no_score_judges_is_not_judged(world: World) -> None:
    by_words = await ask(retriever(world), "der antrag entscheidet", kind=RequestKind.KEYWORD_SEARCH)
    nothing = await ask(retriever(world), where="name = 'nirgends'")

    assert by_words.hits
    assert by_words.confidence is nothing.confidence is Confidence.UNKNOWN
    assert nothing.hits == ()


async def test_a_condition_narrows_all_searches_and_is_named_where_little_is_found(world: World) -> None:
    every = await ask(retriever(world), top_k=20)
    none = await ask(retriever(world), where="NOT document_id = a AND attribute.year >= 2024")
    some = await ask(retriever(world), top_k=20, where="document_id = a OR attribute.year >= 2024")

    assert {hit.chunk_id for hit in some.hits} == {hit.chunk_id for hit in every.hits if hit.document_id == "a"}
    assert none.hits == ()
    assert any("document_id, attributes.year" in line for line in none.advice)


async def test_a_metric_is_what_the_search_fuses_and_leaves_its_ranking_as_it_is(world: World) -> None:
    def asked(metric: Metric, alpha: float) -> Awaitable[ContextResult]:
        return ask(retriever(world), metric=metric, alpha=alpha, reranker=RerankerChoice.NONE, top_k=20)

    alone = {metric: await asked(metric, 1.0) for metric in Metric}
    both = {metric: await asked(metric, 0.5) for metric in Metric}

    assert len({tuple(hit.chunk_id for hit in result.hits if hit.dense_score) for result in alone.values()}) == 1
    scores = {metric: [hit.fused_score for hit in result.hits] for metric, result in both.items()}
    assert scores[Metric.DOT] == scores[Metric.COSINE] != scores[Metric.EUCLIDEAN]
    for hit in both[Metric.EUCLIDEAN].hits:
        assert hit.dense_score is None or -2 <= hit.dense_score <= 0


async def test_the_better_the_words_match_the_less_vectors_weigh(world: World) -> None:
    asked = retriever(world, defaults=replace(OPTIONS, hybrid_alpha=None))
    alphas: list[float] = []
    for text in ("Was kostet die Kopie eines Bescheids?", "Wer entscheidet über den Antrag beim Amt?"):
        result = await ask(asked, text)
        best = max((hit.lexical_score or 0.0 for hit in result.hits), default=0.0)
        assert result.analysis is not None
        alphas.append(result.analysis.alpha or 0.0)
        assert alphas[-1] == pytest.approx(60 / (60 + best))
    low = await ask(asked, "Wer entscheidet über den Antrag beim Amt?", lexical_pivot=1.0)
    said = await ask(asked, "Wer entscheidet über den Antrag beim Amt?", alpha=0.2, lexical_pivot=1.0)

    assert alphas[1] < alphas[0]
    assert low.analysis is not None
    assert low.analysis.alpha is not None
    assert low.analysis.alpha < alphas[1]
    assert said.analysis is not None
    assert said.analysis.alpha == 0.2


def in_sections(batches: list[ContextualChunkBatch], law: str, numbers: Sequence[str]) -> list[ContextualChunkBatch]:
    """Put each chunk into a section of a law."""

    def placed(each: ContextualChunk) -> ContextualChunk:
        at = each.chunk.ordinal
        return replace(each, chunk=replace(each.chunk, path=f"0/{at}/0", heading_path=(law, f"§ {numbers[at]}")))

    return [replace(batch, chunks=tuple(map(placed, batch.chunks))) for batch in batches]


async def test_what_a_query_cites_comes_before_what_is_only_alike(world: World) -> None:
    texts = ["(2) § 3 Abs. 2 UVPG gilt hier nicht", "(1) es gilt § 3 Abs. 2 UVPG", "(2) die behörde entscheidet"]
    await world.feed(in_sections(revision("law", 1, texts), "Gesetz (UVPG)", ["3e", "3", "3"]))

    result = await ask(retriever(world), "§ 3 Abs. 2 UVPG", top_k=3)
    alike = await ask(retriever(world), "§ 3 Abs. 2 UVPG", top_k=3, exact=False)

    assert [hit.text for hit in result.hits[:2]] == [texts[2], texts[1]]
    assert alike.hits[0].text != texts[2]


LAWS = ("AbcG", "StVollzG", "ZetaG")
LAST_SECTION = "dieses gesetz tritt am tag nach der verkündung in kraft"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        *((f"Inkrafttreten {law}", law) for law in LAWS),
        *((f"Was regelt § 7 {law}?", law) for law in LAWS),
        *((f"Wann tritt das „Gesetz ({law})“ in Kraft?", law) for law in LAWS),
    ],
)
async def test_of_the_same_text_in_several_documents_the_one_that_is_named_is_shown(
    world: World, query: str, named: str
) -> None:
    for document, law in zip("bcd", LAWS, strict=True):
        await world.feed(in_sections(revision(document, 1, [LAST_SECTION], name=f"Gesetz ({law})"), law, ["7"]))

    result = await ask(retriever(world), query, top_k=20, explain=True)

    (hit,) = [hit for hit in result.hits if hit.text == LAST_SECTION]
    assert (hit.name, len(hit.duplicates)) == (f"Gesetz ({named})", 2)
    assert result.explanation is not None
    assert {story.ranks[-1].rank for story in result.explanation.hits} == {hit.rank for hit in result.hits}


async def test_a_neighbour_from_another_section_stands_below_its_own_heading(world: World) -> None:
    texts = ["vorher gilt dies", "die frist beträgt drei monate", "danach gilt jenes"]
    await world.feed(in_sections(revision("law", 1, texts), "Law", ["1", "2", "3"]))

    result = await ask(retriever(world), "die frist beträgt drei monate", top_k=1)

    assert [hit.document_id for hit in result.hits] == ["law"]
    assert [line for line in result.context.splitlines() if line not in {"", result.hits[0].citation}] == [
        *("Law > § 1", "vorher gilt dies"),
        *("Law > § 2", "die frist beträgt drei monate"),
        *("Law > § 3", "danach gilt jenes"),
    ]


@pytest.mark.parametrize("text", ["§ 12 Abs. 2 UVPG", "Was steht in Paragraf 12 Absatz 2?", "What does article 5 say?"])
async def test_a_query_that_names_a_norm_weighs_words_as_one_of_keywords_does(world: World, text: str) -> None:
    asked = retriever(world, defaults=replace(OPTIONS, hybrid_alpha=None, keyword_alpha=0.3))
    by_setting, by_query = await ask(asked, text), await ask(asked, text, alpha=0.9)

    assert by_setting.analysis is not None
    assert by_setting.analysis.alpha == 0.3
    assert by_query.analysis is not None
    assert by_query.analysis.alpha == 0.9


@pytest.mark.parametrize(("lost", "alpha"), [("dense", 0.0), ("lexical", 1.0)])
async def test_where_one_search_fails_the_other_has_all_the_weight(world: World, lost: str, alpha: float) -> None:
    result = await ask(retriever(world, Broken(world.index, lost)), alpha=0.3)

    assert result.hits
    assert result.analysis is not None
    assert result.analysis.alpha == alpha


@pytest.mark.parametrize(
    ("text", "turned", "stages"),
    [
        ("Wo steht „zehn euro“?", {}, [("exact", NoticeKind.DROPPED)]),
        ("das freibad öffnet um acht", {"min_similarity": 0.9}, [("threshold", NoticeKind.DROPPED)]),
        ("Was kostet das?", {"reranker": RerankerChoice.REMOTE}, [("rerank", NoticeKind.DEGRADED)]),
    ],
)
async def test_of_hits_that_are_chosen_again_only_the_last_choice_is_told(
    world: World, text: str, turned: dict[str, Any], stages: list[tuple[str, NoticeKind]]
) -> None:
    await world.feed(revision("b", 1, ["das freibad"]))

    async def change() -> None:
        await world.feed(revision("b", 2, ["das freibad öffnet um acht"]))
        await world.feed(revision("a", 2, ["es kostet zehn euro"]))
        await world.feed(revision("c", 1, ["zehn euro"]))

    result = await ask(retriever(world, Broken(world.index, before={"pages": change})), text, **turned)

    told = [(each.stage, each.kind) for each in result.notices if each.stage in {"exact", "rerank", "threshold"}]
    assert told == stages


async def test_of_hits_that_are_chosen_again_only_the_last_choice_counts_as_not_reranked(world: World) -> None:
    await world.feed(revision("b", 1, ["das freibad"]))

    async def change() -> None:
        await world.feed(revision("b", 2, ["das freibad öffnet um acht"]))

    scorer = Scorer("freibad", most=1)
    asked = retriever(world, Broken(world.index, before={"pages": change}), [scorer])
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="Was kostet das Freibad?", asked_at=now())
    ((_, result, retrieval),) = [answer async for answer in asked.answer([(query, "")])]

    (told,) = [each.message for each in result.notices if each.stage == "rerank"]
    left_out = retrieval.query.log.unranked
    assert len(scorer.seen) > left_out + 1
    assert told.startswith(f"{left_out} of {left_out + 1} candidates were not reranked")


@in_simulated_time
async def test_a_floor_that_is_not_reached_is_told(world: World) -> None:
    met = await ask(retriever(world), at_least=(VersionFloor(document_id=DocumentId("a"), version=1),))
    missed = await ask(
        retriever(world), at_least=(VersionFloor(document_id=DocumentId("a"), version=2),), deadline_ms=100
    )

    assert ("wait", NoticeKind.FRESHNESS) not in kinds(met)
    assert ("wait", NoticeKind.FRESHNESS) in kinds(missed)


@in_simulated_time
@pytest.mark.parametrize("versions", [(1, 2), (2, 1)])
async def test_the_highest_of_several_floors_of_a_document_counts(world: World, versions: tuple[int, int]) -> None:
    floors = tuple(VersionFloor(document_id=DocumentId("a"), version=version) for version in versions)

    result = await ask(retriever(world), at_least=floors, deadline_ms=100)

    assert ("wait", NoticeKind.FRESHNESS) in kinds(result)


class SlowToLook(Broken):
    """A store that takes a while to look at roots."""

    def __init__(self, index: MemoryIndex, seconds: float) -> None:
        super().__init__(index)
        self._seconds = seconds

    async def roots(self, keys: Sequence[RootId]) -> Mapping[RootId, Root]:
        await asyncio.sleep(self._seconds)
        return await self._index.roots(keys)


@in_simulated_time
@pytest.mark.parametrize("seconds", [0.04, 60], ids=["a later look", "the first look"])
async def test_a_floor_is_told_where_the_deadline_comes_during_a_look(world: World, seconds: float) -> None:
    floor = VersionFloor(document_id=DocumentId("a"), version=2)

    result = await ask(retriever(world, SlowToLook(world.index, seconds)), at_least=(floor,), deadline_ms=100)

    assert ("wait", NoticeKind.FRESHNESS) in kinds(result)


async def test_queries_of_one_batch_do_not_mix(world: World) -> None:
    await world.feed(revision("b", 1, ["das freibad öffnet um acht"]))
    queries = [
        ContextQuery(query_id=QueryId(str(place)), tenant=TENANT, text=text, asked_at=now(), top_k=1)
        for place, text in enumerate(["Wann öffnet das Freibad?", "Wie hoch ist die Gebühr?"] * 3)
    ]

    answers = {place: result async for place, result, _ in retriever(world).answer([(query, "") for query in queries])}

    assert [answers[place].query_id for place in range(len(queries))] == [query.query_id for query in queries]
    assert ["freibad" in answers[place].hits[0].text for place in range(len(queries))] == [True, False] * 3


class Slow(Scorer):
    """A reranker that says whose turn it is, and lets one go on for each permit."""

    def __init__(self) -> None:
        super().__init__("amt")
        self.turns: list[str] = []
        self.permits = asyncio.Semaphore(0)

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        self.turns.append(pairs[0].query)
        await self.permits.acquire()
        return await super().score(pairs, budget_s=budget_s)


def asked_within(text: str, deadline_ms: int) -> tuple[ContextQuery, str]:
    return ContextQuery(query_id=QueryId(text), tenant=TENANT, text=text, asked_at=now(), deadline_ms=deadline_ms), ""


async def test_an_answer_leaves_before_the_next_question_is_reranked_and_the_most_urgent_first(world: World) -> None:
    # given a batch of three, of which the last has the least time, and a reranker that has finished one
    slow = Slow()
    batch = [asked_within("Antrag?", 60_000), asked_within("Gebühr?", 50_000), asked_within("Amt?", 40_000)]
    answers = retriever(world, rerankers=[slow]).answer(batch)
    slow.permits.release()

    place, result, _ = await anext(answers)

    assert (place, result.query_id) == (2, "Amt?")
    assert slow.turns[:2] == ["Amt?", "Gebühr?"]
    slow.permits.release()
    slow.permits.release()
    assert [place async for place, _, _ in answers] == [1, 0]


@in_simulated_time
async def test_one_whose_time_is_over_leaves_while_the_others_are_still_searched_for(world: World) -> None:
    # given a store whose search ends when it is told to
    told = asyncio.Event()
    store = Broken(world.index, before={"dense": told.wait})
    answers = retriever(world, store).answer([asked_within("Antrag?", 60_000), asked_within("Amt?", 40)])

    place, hurried, _ = await anext(answers)

    assert (place, hurried.hits, hurried.status) == (1, (), ResultStatus.DEGRADED)
    assert ("search", NoticeKind.DEGRADED) in kinds(hurried)
    told.set()
    assert [(place, bool(result.hits)) async for place, result, _ in answers] == [(0, True)]


@in_simulated_time
async def test_one_whose_time_is_over_leaves_without_what_was_found_but_not_read(world: World) -> None:
    told = asyncio.Event()
    store = Broken(world.index, before={"contents": told.wait})

    (left,) = [result async for _, result, _ in retriever(world, store).answer([asked_within("Amt?", 60)])]

    assert (left.hits, left.status) == ((), ResultStatus.DEGRADED)


@in_simulated_time
async def test_nothing_goes_on_for_questions_that_have_all_left(world: World) -> None:
    told = asyncio.Event()
    store = Broken(world.index, before={"dense": told.wait})
    asked = retriever(world, store)
    before = asyncio.all_tasks()

    (left,) = [result async for _, result, _ in asked.answer([asked_within("Amt?", 40)])]

    assert left.status is ResultStatus.DEGRADED
    assert asyncio.all_tasks() <= before


async def test_questions_that_nobody_waits_for_are_not_finished(world: World) -> None:
    slow = Slow()
    answers = retriever(world, rerankers=[slow]).answer([asked_within("Antrag?", 60_000), asked_within("Amt?", 50_000)])
    slow.permits.release()
    await anext(answers)

    await answers.aclose()

    slow.permits.release()
    await asyncio.sleep(0)
    assert len(slow.seen) == len(TEXTS)


async def test_extra_space_in_a_question_is_no_loss(world: World) -> None:
    result = await ask(retriever(world), "Wer   entscheidet\n\n über den Antrag?  ")

    assert ("analyse", NoticeKind.SKIPPED) not in kinds(result)


async def test_a_hit_holds_what_the_question_quotes(world: World) -> None:
    result = await ask(retriever(world, rerankers=[scorer := Scorer("euro")]), "Wer entscheidet „ÜBER den  Antrag“?")

    assert [hit.text for hit in result.hits] == [TEXTS[2]]
    assert len(scorer.seen) == 1
    assert ("exact", NoticeKind.DROPPED) in kinds(result)
    assert result.status is ResultStatus.COMPLETE


@pytest.mark.parametrize("clause", ["5.1", "5.2", "5.3"])
async def test_the_clause_that_the_question_cites_comes_first(clause: str) -> None:
    world = World()
    await world.feed(revision("vertrag", 1, ["5.1 zehn euro", "5.2 das amt", "5.3 die frist"]))
    await world.feed(revision("mietsatzung", 1, [f"{clause} das amt"]))

    result = await ask(retriever(world, rerankers=[Scorer("amt")]), f"Was regelt Ziffer {clause} im Vertrag?")

    assert (result.hits[0].document_id, result.hits[0].text[:3]) == ("vertrag", clause)


ERRORS = [*(f"fehler e{i} meldet das amt" for i in range(40)), "fehler e4711 meldet niemand"]
ERROR = "Was meldet das amt bei fehler E4711?"


@pytest.mark.parametrize("reranker", [RerankerChoice.COSINE, RerankerChoice.NONE])
async def test_what_mentions_the_designation_of_the_question_comes_before_what_is_only_alike(
    world: World, reranker: RerankerChoice
) -> None:
    await world.feed(revision("b", 1, ERRORS))
    options: dict[str, Any] = {"reranker": reranker, "top_k": 50, "alpha": 1.0}

    result = await ask(retriever(world), ERROR, **options)
    alike = await ask(retriever(world), ERROR, exact=False, **options)

    assert result.hits[0].text == ERRORS[-1]
    assert [hit.text for hit in alike.hits].index(ERRORS[-1]) > 20


async def test_a_reranker_reads_what_mentions_the_designation_of_the_question(world: World) -> None:
    await world.feed(revision("b", 1, ERRORS))

    await ask(retriever(world, rerankers=[scorer := Scorer("amt")]), ERROR, rerank_candidates=1)

    assert [pair.text for pair in scorer.seen] == [f"b\n{ERRORS[-1]}"]


async def test_what_late_interaction_did_not_score_leaves_its_scores_to_the_others(world: World) -> None:
    await world.feed(revision("b", 1, ERRORS))

    # The one that mentions the designation is found by its words alone, and is none of the ten best.
    result = await ask(retriever(world), ERROR, candidates=10, top_k=50, alpha=0.99, fusion=Fusion.TMM)

    assert (result.status, result.reranker) == (ResultStatus.COMPLETE, "local")
    assert sum(hit.rerank_score is not None for hit in result.hits) == 10
    assert ERRORS[-1] in [hit.text for hit in result.hits if hit.rerank_score is None]


@pytest.mark.parametrize("fusion", Fusion)
async def test_what_neither_a_model_nor_late_interaction_scored_comes_last(world: World, fusion: Fusion) -> None:
    await world.feed(revision("b", 1, [*ERRORS, *(f"{text} mehr" for text in ERRORS)]))
    turned: dict[str, Any] = {"candidates": 10, "top_k": 50, "alpha": 0.5, "fusion": fusion, "mmr_lambda": 1.0}

    matched = await ask(retriever(world), "Welche Fehler macht ein Freibad im Winter?", **turned)
    reranked = await ask(
        retriever(world, rerankers=[Scorer("amt")]),
        "Welche Fehler macht ein Freibad im Winter?",
        rerank_candidates=2,
        **turned,
    )

    compared = {hit.chunk_id for hit in matched.hits if hit.rerank_score is not None}
    assert len(reranked.hits) > len(compared) == 10
    assert {hit.chunk_id for hit in reranked.hits[:10]} == compared


async def test_a_designation_that_nearly_all_mention_changes_no_order(world: World) -> None:
    await world.feed(revision("b", 1, [f"gebühr {i} nach kx-200" for i in range(20)]))
    own = (Filter(field="document_id", operator=FilterOperator.EQ, values=("b",)),)

    result = await ask(retriever(world), "Welche gebühr 7 nach KX-200?", top_k=20, filters=own)
    alike = await ask(retriever(world), "Welche gebühr 7 nach KX-200?", top_k=20, filters=own, exact=False)

    assert [hit.chunk_id for hit in result.hits] == [hit.chunk_id for hit in alike.hits]


@pytest.mark.parametrize("reranker", [RerankerChoice.COSINE, RerankerChoice.NONE])
async def test_documents_that_the_question_names_by_their_short_name_come_first(
    world: World, reranker: RerankerChoice
) -> None:
    fees = [f"gebühr {i} erhebt das amt" for i in range(20)]
    await world.feed(revision("Kostenordnung (KostO)", 1, fees))
    await world.feed(revision("Gesetz über Akten (AktG)", 1, ["eine gebühr"]))
    options: dict[str, Any] = {"reranker": reranker, "top_k": 30, "alpha": 1.0}

    result = await ask(retriever(world), "gebühr die das amt erhebt AktG", **options)
    alike = await ask(retriever(world), "gebühr die das amt erhebt AktG", exact=False, **options)

    assert result.hits[0].text == "eine gebühr"
    assert [hit.text for hit in alike.hits].index("eine gebühr") > 9


async def test_what_mentions_the_abbreviation_that_is_asked_for_comes_first(world: World) -> None:
    meant = "eine vma zahlt wer länger als einen tag auf reisen ist oder an zwei orten wohnt"
    await world.feed(revision("b", 1, [*(f"was bedeutet schritt {i}" for i in range(40)), meant]))
    options: dict[str, Any] = {"reranker": RerankerChoice.NONE, "top_k": 50, "alpha": 1.0}

    result = await ask(retriever(world), "Was bedeutet VMA?", **options)
    alike = await ask(retriever(world), "Was bedeutet VMA?", exact=False, **options)

    assert result.hits[0].text == meant
    assert alike.hits[0].text != meant


async def test_quotations_may_stand_in_the_headings_or_the_name(world: World) -> None:
    await world.feed(revision("satzung b", 1, ["zehn euro"]))

    result = await ask(retriever(world), "Was kostet es laut „Satzung  B“?")

    assert {hit.document_id for hit in result.hits} == {"satzung b"}


async def test_one_of_several_quotations_is_enough(world: World) -> None:
    result = await ask(retriever(world), "Was verbindet „zehn Euro“ mit „das Amt“?")

    assert {hit.text for hit in result.hits} == set(TEXTS[1:])


async def test_what_nothing_holds_is_not_demanded(world: World) -> None:
    result = await ask(retriever(world, rerankers=[Scorer("amt")]), "Wer entscheidet über den „Widerspruch“?")

    assert len(result.hits) == len(TEXTS)
    assert [notice.message for notice in result.notices if notice.kind is NoticeKind.UNMET] == [
        f"none of the {len(TEXTS)} best candidates holds „Widerspruch“"
    ]
    assert result.status is ResultStatus.COMPLETE


async def test_quotations_are_words_like_others_where_the_query_says_so(world: World) -> None:
    result = await ask(retriever(world), "Wer entscheidet „über den Antrag“?", exact=False)

    assert len(result.hits) == len(TEXTS)
    assert result.analysis is not None
    assert [term.text for term in result.analysis.exact] == ["über den Antrag"]


async def test_a_quotation_is_found_among_more_candidates_than_are_reranked(world: World) -> None:
    await world.feed(revision("b", 1, [*(f"antrag nummer {i}" for i in range(40)), "ganz zuletzt steht der antrag"]))

    result = await ask(retriever(world), "Wo steht „zuletzt steht“ im antrag nummer?", rerank_candidates=1, top_k=1)

    assert [hit.text for hit in result.hits] == ["ganz zuletzt steht der antrag"]


async def test_a_question_that_no_rule_knows_is_typed_by_examples_once_these_are_known(world: World) -> None:
    asked = retriever(world, embedder=Knowing(world.embedder))
    text = "Was gehört zum Lieferumfang?"

    before = (await ask(asked, text)).analysis
    await asked.warm_up()
    after = (await ask(asked, text)).analysis
    without = (await ask(asked, text, prototypes=False)).analysis

    assert before is not None
    assert after is not None
    assert (before.query_type, before.typed_by, before.levels) == (QueryType.FACTUAL, TypedBy.NOTHING, (1, 2))
    assert (after.query_type, after.typed_by, after.levels) == (QueryType.AGGREGATIVE, TypedBy.EXAMPLES, (0, 1, 2))
    assert without == before


async def test_texts_are_searched_for_without_half_of_what_all_questions_have_in_common(world: World) -> None:
    asked = retriever(world)
    options: dict[str, Any] = {"reranker": RerankerChoice.NONE, "alpha": 1.0, "language": "de", "top_k": 50}
    german = [example.text for example in example_wordings() if example.language == "de"]
    centre = (await world.embedder.embed_queries(german)).vectors.mean(axis=0)

    before = await ask(asked, "Wer haftet?", **options)
    await asked.warm_up()
    after = await ask(asked, "Wer haftet?", **options)

    rows = await rows_of(world.index, root_id(TENANT, DocumentId("a")))
    common = {row.chunk_id: float(vector @ centre) for row, vector in rows.values()}
    raw = {hit.chunk_id: hit.dense_score or 0.0 for hit in before.hits}
    assert {hit.chunk_id: hit.dense_score for hit in after.hits} == pytest.approx(
        {each: raw[each] - 0.5 * (common[each] - float(centre @ centre)) for each in raw}, abs=1e-6
    )


@pytest.mark.parametrize("text", ["Was gehört zum Lieferumfang?", "Nenne alle Gebühren", "Wer haftet?"])
async def test_a_query_that_names_levels_has_these_whatever_its_type(world: World, text: str) -> None:
    asked = retriever(world, embedder=Knowing(world.embedder))
    await asked.warm_up()

    result = await ask(asked, text, levels=(2,))

    assert result.analysis is not None
    assert result.analysis.levels == (2,)
    assert {hit.level for hit in result.hits} == {2}


async def test_a_list_that_may_lack_items_is_told_once_for_all_hits(world: World) -> None:
    texts = [f"nummer{place} " * 50 for place in range(9)]
    texts[2], texts[6] = "alle gebühren: zehn euro", "alle gebühren: elf euro"
    await world.feed(revision("x", 1, texts))

    result = await ask(retriever(world), "Nenne alle gebühren", top_k=2, alpha=0.0, context_tokens=80)

    assert result.analysis is not None
    assert result.analysis.query_type is QueryType.AGGREGATIVE
    (message,) = [each.message for each in result.notices if "a list may lack items" in each.message]
    assert message.startswith("what stands around hits 1, 2")


async def test_examples_do_not_overrule_a_rule(world: World) -> None:
    asked = retriever(world, embedder=Knowing(world.embedder))
    await asked.warm_up()

    analysis = (await ask(asked, "Wann entscheidet das Amt?")).analysis

    assert analysis is not None
    assert (analysis.query_type, analysis.typed_by) == (QueryType.TEMPORAL, TypedBy.WORDING)


async def test_an_answer_that_was_slow_to_send_leaves_the_next_ones_their_time(world: World) -> None:
    asked = retriever(world)
    for seconds in [1.0] * 8 + [10_000.0]:
        asked.learn_sending(seconds)

    result = await ask(asked, deadline_ms=600_000)

    assert (result.status, len(result.hits) > 0) == (ResultStatus.COMPLETE, True)


@pytest.mark.parametrize(
    ("deadline_ms", "named", "depth"), [(60_000, None, 200), (500, None, 50), (500, 120, 120)], ids=str
)
@in_simulated_time
async def test_where_time_is_short_the_search_is_less_deep_unless_the_query_says_how_deep(
    world: World, deadline_ms: int, named: int | None, depth: int
) -> None:
    store = Broken(world.index, before={"dense": partial(asyncio.sleep, 0.3)})
    asked = retriever(world, store)
    await ask(asked, deadline_ms=60_000)

    result = await ask(asked, deadline_ms=deadline_ms, candidates=named)

    assert store.limits["dense"][-1] == store.limits["lexical"][-1] == depth
    assert (("search", NoticeKind.SKIPPED) in kinds(result)) == (depth == 50)
    assert result.hits


async def test_the_best_hit_that_is_too_long_shows_where_the_words_of_the_question_stand(world: World) -> None:
    rest = " ".join(f"Hier folgt Absatz {number} der Satzung." for number in range(40))
    (batch,) = revision("lang", 1, [f"{rest} Die Parkgebühr beträgt zwölf Euro. {rest}"])
    (only,) = batch.chunks
    await world.feed([replace(batch, chunks=(replace(only, chunk=replace(only.chunk, tokens=600)),))])

    result = await ask(retriever(world), "Wie hoch sind Parkgebühren?", top_k=1, context_tokens=60)

    shown = result.context.partition("\n")[2]
    assert "Die Parkgebühr beträgt zwölf Euro." in shown
    assert shown.startswith("[…]\n")
    assert shown.endswith("\n[…]")
    assert (result.citations[0].start, result.citations[0].end) == (result.hits[0].start, result.hits[0].end)


async def test_rows_before_a_hit_stand_below_the_header_of_their_table(world: World) -> None:
    (batch,) = revision("preise", 1, ["schraube | zehn euro", "der rabatt beträgt fünf prozent"])
    rows, prose = batch.chunks
    header = "ware | preis"
    rows = replace(
        rows,
        chunk=replace(rows.chunk, kind=ChunkKind.TABLE, overlap=header, start=100, end=120),
        context=f"preise\n{header}",
    )
    prose = replace(prose, chunk=replace(prose.chunk, start=122, end=153))
    await world.feed([replace(batch, chunks=(rows, prose))])

    result = await ask(retriever(world), "Wie viel prozent beträgt der rabatt?", top_k=1, context_tokens=200)

    assert result.context.splitlines()[1:] == [
        f"… {header}",
        "schraube | zehn euro",
        "",
        "der rabatt beträgt fünf prozent",
    ]
