"""Kinds of chunks that have an embedder for themselves: by writer and reader, with an index in memory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.infra.models.vectors import VectorCache
from freki.operators.identify import chunk_id_of_kind, root_id
from freki.schemas import ChunkId, ChunkKind, ChunkLevel, DocumentId, RerankerChoice
from freki.schemas.arrays import Floats
from freki.schemas.index import IndexedChunk, Scope
from tests.unit.questions import ask, retriever
from tests.unit.revisions import TENANT, Crash, Crashing, World, a_family, apart_index, revision, rows_of

contents = st.one_of(st.none(), st.lists(st.tuples(st.sampled_from("uvwx"), st.booleans()), max_size=4))
histories = st.lists(st.tuples(st.sampled_from("ab"), contents), min_size=1, max_size=6)


def with_kind_embedder(**changes: Any) -> World:
    return World(index=apart_index(), embedder=a_family(), **changes)


async def rows_by_chunk(world: World) -> dict[ChunkId, tuple[IndexedChunk, Floats]]:
    rows = await rows_of(world.index, root_id(TENANT, DocumentId("a")))
    return {row.chunk_id: (row, vector) for row, vector in rows.values()}


async def kinds(world: World, document: str) -> dict[str, tuple[str, ChunkKind]]:
    """Embedder and kind of the rows that a document has, by their texts."""
    key = root_id(TENANT, DocumentId(document))
    rows = await rows_of(world.index, key)
    return {row.text: (row.embedder, row.kind) for row, _ in rows.values()}


@settings(max_examples=150)
@given(
    history=histories,
    crashes=st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=3),
    batch=st.integers(1, 4),
)
async def test_text_that_moves_between_kinds_leaves_no_row_anywhere_whatever_crashes(
    history: list[tuple[str, list[tuple[str, bool]] | None]], crashes: list[tuple[int, bool]], batch: int
) -> None:
    world = with_kind_embedder()
    states: dict[str, dict[str, bool] | None] = {"a": None, "b": None}
    allowed: dict[str, list[list[str] | None]] = {"a": [None], "b": [None]}
    events = []
    for version, (document, chunks) in enumerate(history, start=1):
        states[document] = state = None if chunks is None else dict(chunks)
        texts = None if state is None else list(state)
        allowed[document].append(texts)
        events += revision(document, version, texts, code=[text for text, is_code in (state or {}).items() if is_code])

    at = 0
    pending = list(crashes)
    while at < len(events):
        dies_at, after = pending[0] if pending else (10**9, False)
        try:
            await world.feed(events[at : at + batch], Crashing(world.index, dies_at, after))
        except Crash:
            pending.pop(0)
        else:
            at += batch
        for document, revisions in allowed.items():
            assert await world.texts(document) in revisions

    expected = {"fake@64+aligned1": ChunkKind.PROSE, "fake@48+aligned1": ChunkKind.CODE}
    for document, state in states.items():
        assert await world.texts(document) == (None if state is None else list(state))
        rows = await kinds(world, document)
        assert {text: kind is ChunkKind.CODE for text, (_, kind) in rows.items()} == (state or {})
        assert all(expected[embedder] is kind for embedder, kind in rows.values())
    # Counted in all collections: no chunk stands in two.
    assert (await world.index.statistics()).chunks == sum(len(state or {}) for state in states.values())


async def test_text_that_becomes_code_is_embedded_by_the_embedder_for_code() -> None:
    world = with_kind_embedder(vectors=VectorCache("family", 1_000_000))
    await world.feed(revision("a", 1, ["u", "v"]))

    (outcome,) = await world.feed(revision("a", 2, ["u", "v"], code=["v"]))

    assert (outcome.embedded, outcome.removed) == (1, 1)
    assert await kinds(world, "a") == {
        "u": ("fake@64+aligned1", ChunkKind.PROSE),
        "v": ("fake@48+aligned1", ChunkKind.CODE),
    }


async def test_new_access_rights_keep_the_vectors_of_all_embedders() -> None:
    world = with_kind_embedder()
    await world.feed(revision("a", 1, ["u", "v"], code=["v"]))
    key = root_id(TENANT, DocumentId("a"))
    before = {row.chunk_id: vector for row, vector in (await rows_of(world.index, key)).values()}

    (outcome,) = await world.feed(revision("a", 2, ["u", "v"], code=["v"], principals=("staff",)))

    after = (await rows_of(world.index, key)).values()
    assert outcome.embedded == 0
    assert {row.chunk_id for row, _ in after} == before.keys()
    for row, vector in after:
        np.testing.assert_allclose(vector, before[row.chunk_id])
        assert row.principals == ("staff",)


async def test_one_ranking_holds_chunks_of_all_embedders() -> None:
    world = with_kind_embedder()
    await world.feed(revision("a", 1, ["red wine", "red shoes", "blue sky"], code=["red shoes"]))
    scope = Scope(tenant=TENANT, principals=(), levels=(ChunkLevel.PARAGRAPH,), filters=())

    asked = await world.embedder.embed_queries(["a red"])
    (dense,) = await world.index.dense(asked.vectors, [scope], limit=9, strong=True)
    (lexical,) = await world.index.lexical(["red"], [scope], limit=9, strong=True)

    rows = await rows_by_chunk(world)
    assert {rows[hit.chunk_id][0].text for hit in dense[:2]} == {"red wine", "red shoes"}
    assert [hit.score for hit in dense] == sorted((hit.score for hit in dense), reverse=True)
    assert {rows[hit.chunk_id][0].text for hit in lexical} == {"red wine", "red shoes"}


async def test_the_score_is_the_product_of_the_rows_of_question_and_chunk() -> None:
    world = with_kind_embedder()
    await world.feed(revision("a", 1, ["red wine", "red shoes", "blue sky"], code=["red shoes"]))
    scope = Scope(tenant=TENANT, principals=(), levels=(ChunkLevel.PARAGRAPH,), filters=())
    question = (await world.embedder.embed_queries(["the red wine"])).vectors

    (found,) = await world.index.dense(question, [scope], limit=9, strong=True)

    rows = await rows_by_chunk(world)
    assert len(found) == 3
    for hit in found:
        assert float(rows[hit.chunk_id][1] @ question[0]) == pytest.approx(hit.score, abs=1e-6)


async def test_a_question_is_answered_with_chunks_of_all_embedders() -> None:
    world = with_kind_embedder()
    texts = ["red wine", "red shoes", "blue sky", "blue whale"]
    await world.feed(revision("a", 1, texts, code=["red shoes", "blue sky"]))

    result = await ask(retriever(world), "red", reranker=RerankerChoice.COSINE)

    assert {hit.text for hit in result.hits[:2]} == {"red wine", "red shoes"}
    assert {hit.text for hit in result.hits} == set(texts)
    for hit in result.hits:
        assert hit.rerank_score == pytest.approx(hit.dense_score, abs=1e-6)


async def test_what_all_questions_have_in_common_stays_where_each_kind_has_another_share_of_it() -> None:
    world = with_kind_embedder()
    await world.feed(revision("a", 1, ["red wine", "blue sky"], code=["blue sky"]))
    asked = retriever(world)

    before = await ask(asked, "red wine", language="en")
    await asked.warm_up()
    after = await ask(asked, "red wine", language="en")

    assert [hit.dense_score for hit in after.hits] == [hit.dense_score for hit in before.hits]


async def test_an_unrelated_chunk_is_not_chosen_because_it_has_another_embedder() -> None:
    world = with_kind_embedder()
    await world.feed(revision("a", 1, ["red wine old", "red wine new", "red wine", "blue sky"], code=["blue sky"]))

    places = []
    for unrelated in (world.embedder.unrelated, 0.0):
        world.embedder.unrelated = unrelated
        result = await ask(retriever(world), "red wine", reranker=RerankerChoice.COSINE, mmr_lambda=0.45)
        places.append([hit.text for hit in result.hits].index("blue sky"))

    # Taken for the product of its row and theirs, it would be the second.
    assert places == [3, 1]


def test_a_chunk_of_another_kind_has_another_id() -> None:
    plain = ChunkId("0" * 32)

    ids = {plain, *(chunk_id_of_kind(plain, kind) for kind in ChunkKind)}

    assert len(ids) == 1 + len(ChunkKind)
