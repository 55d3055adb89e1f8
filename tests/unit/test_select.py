"""Which candidates become hits: laws that hold for any of them."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.identify import root_id
from freki.schemas import (
    ChunkId,
    ChunkKind,
    ContextQuery,
    DocumentId,
    ExactKind,
    ExactTerm,
    NoticeKind,
    QueryAnalysis,
    QueryId,
    QueryType,
    RerankerChoice,
    Timestamp,
)
from freki.schemas.index import ChunkContent
from freki.streams.retrieve.candidates import History, LoadedChunk, RankedCandidates, Selection
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import QueryLog
from freki.streams.retrieve.search_result import SearchedVariant, SearchResult, variant_of
from freki.streams.retrieve.steps.live import LiveDocument
from freki.streams.retrieve.steps.select import select
from tests.contract.index_records import root
from tests.unit.questions import OPTIONS
from tests.unit.revisions import TENANT

Candidate = tuple[str, float, float | None]
"""Document, fused score, reranker's score."""

shares = st.integers(0, 10).map(lambda tenths: tenths / 10)
candidates = st.lists(st.tuples(st.sampled_from("abc"), shares, st.none() | shares), max_size=8)
options = st.fixed_dictionaries(
    {
        "mmr_lambda": st.sampled_from([0.3, 0.7, 1.0]),
        "rerank_blend": st.sampled_from([0.0, 1.0, 6.0]),
        "per_document": st.integers(0, 2),
        "top_k": st.integers(1, 8),
    }
)


ROOTS = {name: root(root_id(TENANT, DocumentId(name)), tenant=TENANT, document_id=DocumentId(name)) for name in "abc"}


ROW = ChunkContent(
    level=1,
    kind=ChunkKind.PROSE,
    language="de",
    heading_path=(),
    text="Text",
    context="",
    context_key="",
    lexical="",
    tokens=1,
)
Given = tuple[EmbeddedQuery, RankedCandidates]


def ranked(
    given_: list[Candidate], *, exact: tuple[ExactTerm, ...] = (), reranker: str = "local", **turned: Any
) -> Given:
    vectors = np.random.default_rng(0).normal(size=(len(given_), 4)).astype(np.float32)
    analysis = QueryAnalysis(
        language="de", query_type=QueryType.FACTUAL, keyword=False, levels=(1,), alpha=None, lexical="", exact=exact
    )
    query = EmbeddedQuery(
        query=ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="?", asked_at=Timestamp(0)),
        options=replace(OPTIONS, **turned),
        analysis=analysis,
        text="?",
        cites=any(term.kind is ExactKind.SECTION for term in exact),
        trace_id="",
        received_at=Timestamp(0),
        count_tokens=None,
        log=QueryLog(lambda: 0),
        embedding=None,
        boosts={},
    )
    found = [
        LoadedChunk(
            chunk_id=ChunkId(f"{place:02}"),
            document=LiveDocument(ROOTS[name], {}, 0),
            fused=fused,
            row=ROW,
            vector=vectors[place] / np.linalg.norm(vectors[place]),
            reranked=reranked,
        )
        for place, (name, fused, reranked) in enumerate(given_)
    ]
    search = SearchResult(variants=[SearchedVariant(variant=variant_of(query), dense=None, lexical=None)])
    return query, RankedCandidates(search=search, found=found, history=History(), head=found, reranker=reranker)


def chosen(given_: Given) -> Selection:
    return select(*given_, unrelated=-1.0)


def ids(selection: Selection) -> list[ChunkId]:
    return [found.chunk_id for found in selection.found]


def hits(given_: list[Candidate], **turned: Any) -> list[ChunkId]:
    return ids(chosen(ranked(given_, **turned)))


@given(given_=candidates, options=options, data=st.data())
def test_the_order_of_candidates_does_not_matter_where_relevance_decides(
    given_: list[Candidate], options: dict[str, Any], data: st.DataObject
) -> None:
    query, one = ranked(given_, **{**options, "mmr_lambda": 1.0})
    other = replace(one, found=data.draw(st.permutations(one.found)))

    assert ids(chosen((query, one))) == ids(chosen((query, other)))


@given(given_=candidates, options=options, threshold=shares)
def test_hits_are_some_of_the_candidates_each_once_and_within_all_limits(
    given_: list[Candidate], options: dict[str, Any], threshold: float
) -> None:
    query, before = ranked(given_, **options, min_score=threshold)

    made = chosen((query, before))

    documents = Counter(found.root.document_id for found in made.found)
    assert len(made.found) == len(set(ids(made))) <= options["top_k"]
    assert {found.chunk_id for found in before.found}.issuperset(ids(made))
    assert all(found.score >= threshold for found in made.found) or made.best_effort
    assert all(count <= (options["per_document"] or 8) for count in documents.values())


@given(given_=candidates, options=options)
def test_what_was_not_reranked_stands_behind_what_was_in_an_order_of_its_own(
    given_: list[Candidate], options: dict[str, Any]
) -> None:
    query, candidates = ranked(given_, **{**options, "per_document": 0, "top_k": 8})
    unreached = replace(candidates, found=[each for each in candidates.found if each.reranked is None])

    found, alone = chosen((query, candidates)), chosen((query, unreached))

    reached = [each.reranked is not None for each in found.found]
    assert reached == sorted(reached, reverse=True)
    assert [each.chunk_id for each in found.found if each.reranked is None] == ids(alone)


@given(given_=candidates, options=options, place=st.integers(0, 7), reranker=st.sampled_from(["local", "cosine"]))
def test_what_mentions_a_name_of_the_query_loses_no_place_and_keeps_its_score(
    given_: list[Candidate], options: dict[str, Any], place: int, reranker: str
) -> None:
    query, candidates = ranked(
        given_, **{**options, "mmr_lambda": 1.0, "per_document": 0, "top_k": 8}, reranker=reranker
    )
    chunk_id = ChunkId(f"{place:02}")
    naming = [replace(each, mentions=2.0) if each.chunk_id == chunk_id else each for each in candidates.found]

    plain, named = (chosen((query, replace(candidates, found=found))) for found in (candidates.found, naming))

    assert not given_[place:] or ids(named).index(chunk_id) <= ids(plain).index(chunk_id)
    assert {each.chunk_id: each.score for each in named.found} == {each.chunk_id: each.score for each in plain.found}


def test_a_rare_mention_outweighs_a_somewhat_better_probability() -> None:
    query, candidates = ranked([("a", 0.0, 0.3), ("b", 0.0, 0.02)])
    naming = [candidates.found[0], replace(candidates.found[1], mentions=4.2)]

    assert ids(chosen((query, replace(candidates, found=naming)))) == ["01", "00"]


@given(given_=candidates, options=options, threshold=shares)
def test_a_threshold_comes_last_and_only_leaves_out(
    given_: list[Candidate], options: dict[str, Any], threshold: float
) -> None:
    everything = {**options, "top_k": 8, "per_document": 0}
    all_in_order = chosen(ranked(given_, **everything))

    passing = [found.chunk_id for found in all_in_order.found if found.score >= threshold]

    assert not passing or hits(given_, **everything, min_score=threshold) == passing


@given(given_=candidates, options=options, thresholds=st.tuples(shares, shares).map(sorted))
def test_a_higher_threshold_gives_no_hit_more(
    given_: list[Candidate], options: dict[str, Any], thresholds: list[float]
) -> None:
    low, high = (chosen(ranked(given_, **{**options, "top_k": 8}, min_score=each)) for each in thresholds)

    assert len(low.found) >= len(high.found) or high.best_effort


@given(given_=candidates, options=options)
def test_where_nothing_passes_a_few_are_given_and_said_to_be_only_the_nearest(
    given_: list[Candidate], options: dict[str, Any]
) -> None:
    query, candidates = ranked(given_, **options, min_score=2.0)

    made = chosen((query, candidates))

    assert bool(made.found) == bool(given_)
    assert len(made.found) <= min(3, options["top_k"])
    assert [notice.kind for notice in query.log.notices] == [NoticeKind.DEGRADED] * bool(given_)


@given(given_=candidates, place=st.integers(0, 7), more=shares)
def test_a_candidate_never_loses_by_a_better_score(given_: list[Candidate], place: int, more: float) -> None:
    if place >= len(given_) or given_[place][2] is None:
        return
    name, fused, reranked = given_[place]
    better = [*given_]
    better[place] = (name, min(1.0, fused + more), min(1.0, (reranked or 0.0) + more))
    order = {"mmr_lambda": 1.0, "rerank_blend": 2.0, "top_k": 8}

    before, after = (hits(each, **order).index(ChunkId(f"{place:02}")) for each in (given_, better))

    assert after <= before


def test_hybrid_search_has_more_to_say_where_a_norm_is_named() -> None:
    given_: list[Candidate] = [("a", 1.0, 0.05), ("b", 0.3, 0.5)]
    weights = {"usual_blend": 1.0, "exact_blend": 6.0}
    norm = (ExactTerm(kind=ExactKind.SECTION, text="§ 573c"),)
    name = (ExactTerm(kind=ExactKind.IDENTIFIER, text="KX-200"),)

    assert hits(given_, exact=name, **weights) == ["01", "00"]
    assert hits(given_, exact=norm, **weights) == ["00", "01"]
    assert hits(given_, exact=norm, **weights, rerank_blend=0.0) == ["01", "00"]


def test_the_score_stays_the_rerankers() -> None:
    made = chosen(ranked([("a", 1.0, 0.05), ("b", 0.3, 0.5)], rerank_blend=6.0))

    assert [found.score for found in made.found] == [0.05, 0.5]


def test_what_a_threshold_was_compared_with_is_told() -> None:
    said = {}
    for reranker in ("local", "remote", "vertex", "llm", "cosine", "none"):
        query, candidates = ranked([("a", 0.3, 0.2), ("b", 1.0, 0.95)], reranker=reranker, min_score=0.9)
        chosen((query, candidates))
        ((kind, said[reranker]),) = [(notice.kind, notice.message) for notice in query.log.notices]
        assert kind is NoticeKind.DROPPED

    assert said["local"] == "1 candidates are below min_score 0.9, compared with probabilities"
    assert said["remote"].endswith("scores of the remote service as it means them")
    assert said["cosine"].endswith("fused scores")


def test_cosines_set_the_order_only_where_they_were_asked_for() -> None:
    given_: list[Candidate] = [("a", 0.9, 0.1), ("b", 0.3, 0.8)]

    automatic = hits(given_, reranker="cosine")
    asked, candidates = ranked(given_, reranker="cosine")
    asked = replace(asked, options=replace(asked.options, reranker=RerankerChoice.COSINE))

    assert automatic == ["00", "01"]
    assert ids(chosen((asked, candidates))) == ["01", "00"]
