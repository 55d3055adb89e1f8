"""Laws of every answer, whatever a query turns, where nothing fails and there is time."""

import re
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from freki.schemas import (
    CitationStyle,
    ContextQuery,
    ContextResult,
    DocumentId,
    Fusion,
    NoticeKind,
    QueryId,
    RequestKind,
    RerankerChoice,
    ResultStatus,
    Widening,
    WidenWhen,
)
from freki.streams.retrieve.steps.select import THRESHOLD
from tests.unit.questions import ask, now, retriever
from tests.unit.revisions import TENANT, World, revision

DOCUMENTS = {
    "störung": [*(f"fehler e{i} meldet das amt" for i in range(24)), "fehler e4711 meldet niemand"],
    "gebühren (GebO)": [f"gebühr {i} nach kx-200 für den antrag" for i in range(12)],
    "satzung": ["5.1 zehn euro", "5.2 das amt entscheidet", "5.3 die frist beträgt einen monat"],
    "antrag": ["der antrag ist schriftlich zu stellen", "über den antrag entscheidet das amt", "die frist beginnt"],
}
ASKED = (
    "Was meldet das amt bei fehler E4711?",
    "Welche gebühr nach KX-200?",
    "Was regelt Ziffer 5.2 der satzung?",
    'Wo steht "die frist"?',
    "GebO",
    "wer entscheidet über den antrag?",
    "E4711",
    "nichts dergleichen XY-1",
)
SEARCHES = ("dense", "bm25")
ANSWERED = {ResultStatus.COMPLETE, ResultStatus.EMPTY}
EXCUSES = {NoticeKind.DEGRADED, NoticeKind.SKIPPED, NoticeKind.REJECTED}

options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"top_k": st.sampled_from([1, 3, 10, 60])},
    optional={
        "candidates": st.sampled_from([1, 5, 10, 200]),
        "fusion": st.sampled_from(Fusion),
        "alpha": st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0]),
        "reranker": st.sampled_from(
            [RerankerChoice.AUTO, RerankerChoice.LOCAL, RerankerChoice.COSINE, RerankerChoice.NONE]
        ),
        "rerank_candidates": st.sampled_from([0, 1, 5, 60]),
        "rerank_blend": st.sampled_from([0.0, 2.0]),
        "mmr_lambda": st.sampled_from([0.0, 0.5, 1.0]),
        "min_score": st.sampled_from([0.0, 0.4, 1.0]),
        "min_similarity": st.sampled_from([0.2, 0.9]),
        "per_document": st.sampled_from([0, 1, 2]),
        "fold_at": st.sampled_from([0.0, 0.3]),
        "parents": st.booleans(),
        "neighbours": st.integers(0, 2),
        "exact": st.booleans(),
        "explain": st.booleans(),
        "widen": st.lists(
            st.sampled_from(
                [Widening.SYNONYMS, Widening.COMPOUNDS, Widening.SPELLING, Widening.TERMS, Widening.VECTOR]
            ),
            max_size=2,
        ).map(tuple),
        "widen_when": st.sampled_from(WidenWhen),
    },
)


async def _full() -> World:
    world = World()
    for name, texts in DOCUMENTS.items():
        await world.feed(revision(name, 1, texts))
    return world


async def _asked(world: World, text: str, turned: dict[str, Any]) -> ContextResult:
    return await ask(retriever(world), text, **{"deadline_ms": 600_000, "context_tokens": 2_000, **turned})


async def _asked_together(world: World, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[ContextResult]:
    queries = [
        ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=text, asked_at=now(), deadline_ms=600_000, **turned)
        for text, turned in asked
    ]
    answers = {place: result async for place, result, _ in retriever(world).answer([(each, "") for each in queries])}
    return [answers[place] for place in range(len(asked))]


def _shown(result: ContextResult) -> list[tuple[Any, ...]]:
    return [(hit.chunk_id, hit.score, hit.rerank_score, hit.text) for hit in result.hits]


@settings(max_examples=50)
@given(text=st.sampled_from(ASKED), turned=options)
async def test_an_answer_keeps_its_laws(text: str, turned: dict[str, Any]) -> None:
    world = await _full()

    result = await _asked(world, text, turned)

    # What no hit reaches is an excuse, but no failure.
    excuses = [each for each in result.notices if each.kind in EXCUSES and each.stage != THRESHOLD]
    assert excuses == []
    assert result.status in ANSWERED or any(each.stage == THRESHOLD for each in result.notices)
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
    assert len({hit.chunk_id for hit in result.hits}) == len(result.hits) <= turned["top_k"]
    assert all(isfinite(hit.score) for hit in result.hits)
    if turned.get("per_document"):
        assert max(Counter(hit.document_id for hit in result.hits).values(), default=0) <= turned["per_document"]
    assert _shown(await _asked(world, text, turned)) == _shown(result)


@settings(max_examples=30)
@given(text=st.sampled_from(ASKED), turned=options)
async def test_what_is_explained_agrees_with_the_answer(text: str, turned: dict[str, Any]) -> None:
    world = await _full()
    await world.feed(revision("copy", 1, DOCUMENTS["satzung"]))
    names = tuple(map(DocumentId, (*DOCUMENTS, "copy", "nowhere")))

    result = await _asked(world, text, {**turned, "explain": True, "expect": names})

    told = result.explanation
    assert told is not None
    assert [each.chunk_id for each in told.hits] == [hit.chunk_id for hit in result.hits]
    for hit, story in zip(result.hits, told.hits, strict=True):
        scores = {search: [each.score for each in story.retrieved if each.search == search] for search in SEARCHES}
        assert [max(found, default=None) for found in scores.values()] == [hit.dense_score, hit.lexical_score]
        assert story.rerank_score == hit.rerank_score
        assert story.ranks[-1].rank == hit.rank
    ranks = [*(story.ranks for story in told.hits), *(each.best.ranks for each in told.expected if each.best)]
    # Each was left after the first steps, of which none leaves more than the one before.
    longest = max(ranks, key=len, default=())
    for own in ranks:
        assert [(each.step, each.of) for each in own] == [(each.step, each.of) for each in longest[: len(own)]]
        assert all(1 <= each.rank <= each.of for each in own)
    assert [each.of for each in longest] == sorted((each.of for each in longest), reverse=True)
    by_fusion = sorted(zip(told.hits, result.hits, strict=True), key=lambda pair: pair[0].ranks[0].rank)
    fused = [hit.fused_score for _, hit in by_fusion]
    assert fused == sorted(fused, reverse=True)
    shown = {hit.document_id for hit in result.hits}
    for each in told.expected:
        assert (each.lost_at is None) is (each.document_id in shown)
        assert each.lost_at not in {rank.step for rank in (each.best.ranks if each.best else ())}


@settings(max_examples=30)
@given(text=st.sampled_from([text for text in ASKED if '"' not in text]), turned=options)
async def test_what_a_query_names_moves_hits_and_drops_none(text: str, turned: dict[str, Any]) -> None:
    world = await _full()
    turned |= {"top_k": 60, "per_document": 0, "min_score": 0.0}

    found = {exact: await _asked(world, text, turned | {"exact": exact}) for exact in (True, False)}

    assert {hit.chunk_id for hit in found[True].hits} == {hit.chunk_id for hit in found[False].hits}


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(ASKED),
            st.builds(
                lambda turned, kind, where: {**turned, "kind": kind, "where": where},
                options.map(lambda turned: {key: value for key, value in turned.items() if key != "alpha"}),
                st.sampled_from([kind for kind in RequestKind if kind is not RequestKind.CHUNK_READ]),
                st.sampled_from([None, "name = 'nowhere'", "name = 'satzung'"]),
            ),
        ),
        min_size=2,
        max_size=3,
    )
)
async def test_queries_of_a_batch_have_the_answers_that_each_has_alone(asked: list[tuple[str, dict[str, Any]]]) -> None:
    world = await _full()

    together = await _asked_together(world, asked)

    for one, result in zip(asked, together, strict=True):
        (alone,) = await _asked_together(world, [one])
        assert (_shown(result), result.context, result.notices) == (_shown(alone), alone.context, alone.notices)
        assert (result.status, result.variants, result.analysis) == (alone.status, alone.variants, alone.analysis)


@settings(max_examples=30)
@given(
    text=st.sampled_from(ASKED),
    turned=options,
    tokens=st.integers(50, 150),
    citations=st.sampled_from(CitationStyle),
    documents=st.integers(0, 2),
)
async def test_the_context_has_what_it_cites_and_names_the_hits_it_has_no_room_for(
    text: str, turned: dict[str, Any], tokens: int, citations: CitationStyle, documents: int
) -> None:
    world = await _full()
    expanded = {"expand_documents": documents, "expand_chunks": 3, "expand_similarity": -10.0}

    result = await _asked(world, text, {**turned, **expanded, "context_tokens": tokens, "citations": citations})

    marks = re.findall(r"^\[(?:QUELLE-|Document )\d+: .*\]$", result.context, re.MULTILINE)
    assert marks == [each.citation for each in result.citations]
    omitted = [found for each in result.notices if (found := re.match(r"hit (\d+) is left out of", each.message))]
    cited = {each.number for each in result.citations if not each.expansion}
    assert {hit.rank for hit in result.hits} == cited | {int(each[1]) for each in omitted}
    assert all(hit.text in result.context for hit in result.hits[1:] if hit.rank in cited)
