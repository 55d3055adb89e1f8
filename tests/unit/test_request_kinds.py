"""Keyword search, semantic search and reading by name: what each does, and that rights hold for all alike."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.operators.identify import chunk_id
from freki.operators.rephrase import Thesaurus, parse_thesaurus
from freki.schemas import (
    ChunkId,
    ContextQuery,
    ContextResult,
    DocumentId,
    Filter,
    FilterOperator,
    Fusion,
    NoticeKind,
    QueryId,
    RequestKind,
    RerankerChoice,
    ResultStatus,
    TenantId,
    Widening,
    WidenWhen,
)
from tests.unit.questions import TEXTS, Broken, Scorer, ask, kinds, now, retriever
from tests.unit.revisions import TENANT, World, revision

SEARCHES = (RequestKind.KEYWORD_SEARCH, RequestKind.SEMANTIC_SEARCH)
UNKNOWN = ChunkId("0" * 32)


def named(document: str, text: str) -> ChunkId:
    return chunk_id(TENANT, DocumentId(document), level=2, heading_path=(), text=text, occurrence=0)


async def read(world: World, *chunk_ids: ChunkId, store: Any | None = None, **fields: Any) -> ContextResult:
    return await ask(retriever(world, store), "", kind=RequestKind.CHUNK_READ, chunk_ids=chunk_ids, **fields)


async def test_keyword_search_finds_only_what_has_the_words_and_shows_them(world: World) -> None:
    result = await ask(retriever(world), "antrag", kind=RequestKind.KEYWORD_SEARCH)

    assert {hit.text for hit in result.hits} == {TEXTS[0], TEXTS[2]}
    assert all(hit.dense_score is None and hit.lexical_score is not None for hit in result.hits)
    assert all("antrag" in hit.snippets[0].text for hit in result.hits)
    assert "embed" not in {stage.stage for stage in result.stages if stage.items}


async def test_semantic_search_asks_no_words(world: World) -> None:
    result = await ask(retriever(world), "gebühr", kind=RequestKind.SEMANTIC_SEARCH)

    assert len(result.hits) == len(TEXTS)
    assert all(hit.lexical_score is None and hit.dense_score is not None for hit in result.hits)
    assert [hit.dense_score for hit in result.hits] == sorted(
        (hit.dense_score or 0 for hit in result.hits), reverse=True
    )
    assert result.analysis is not None
    assert (result.analysis.alpha, result.analysis.lexical) == (1.0, "")


@pytest.mark.parametrize("fusion", Fusion)
@pytest.mark.parametrize("kind", SEARCHES)
async def test_further_searches_are_those_of_the_kind(world: World, kind: RequestKind, fusion: Fusion) -> None:
    await world.feed(revision("b", 1, ["das auto fährt", "der wagen steht"]))
    asked = retriever(world, thesaurus=Thesaurus(parse_thesaurus("auto, wagen")))
    widen = (Widening.SYNONYMS, Widening.TERMS, Widening.VECTOR)

    result = await ask(asked, "auto", kind=kind, widen=widen, widen_when=WidenWhen.ALWAYS, fusion=fusion)

    assert "wagen" in result.variants
    assert "der wagen steht" in [hit.text for hit in result.hits]
    other = "dense_score" if kind is RequestKind.KEYWORD_SEARCH else "lexical_score"
    assert {getattr(hit, other) for hit in result.hits} == {None}


@pytest.mark.parametrize("kind", SEARCHES)
async def test_a_search_neither_reranks_nor_widens_unless_asked_to(world: World, kind: RequestKind) -> None:
    scorer = Scorer("amt")

    plain = await ask(retriever(world, rerankers=[scorer]), "antrag", kind=kind)
    asked = await ask(retriever(world), "antrag", kind=kind, neighbours=1)

    assert not scorer.seen
    assert all(hit.parent is None and hit.before == hit.after == () for hit in plain.hits)
    assert any(hit.before or hit.after for hit in asked.hits)


async def test_a_keyword_search_that_asks_for_late_interaction_is_told_what_it_lacks(world: World) -> None:
    result = await ask(
        retriever(world), "antrag", kind=RequestKind.KEYWORD_SEARCH, reranker=RerankerChoice.LOCAL, rerank_candidates=5
    )

    (notice,) = [each for each in result.notices if each.stage == "rerank"]
    assert notice.kind is NoticeKind.DEGRADED
    assert "a keyword search has none" in notice.message


async def test_a_keyword_search_that_asks_for_further_chunks_is_told_what_it_lacks(world: World) -> None:
    result = await ask(retriever(world), "antrag", kind=RequestKind.KEYWORD_SEARCH, expand_documents=3)

    assert result.hits
    (notice,) = [each for each in result.notices if each.stage == "expand"]
    assert notice.kind is NoticeKind.SKIPPED
    assert "a keyword search has none" in notice.message


async def test_a_semantic_search_without_its_model_says_that_it_failed(world: World) -> None:
    result = await ask(retriever(world, Broken(world.index, "dense")), "antrag", kind=RequestKind.SEMANTIC_SEARCH)

    assert (result.status, result.hits) == (ResultStatus.DEGRADED, ())
    assert ("search.dense", NoticeKind.DEGRADED) in kinds(result)


async def test_chunks_are_read_in_the_order_in_which_they_are_named(world: World) -> None:
    result = await read(world, named("a", TEXTS[2]), named("a", TEXTS[0]))

    assert [hit.text for hit in result.hits] == [TEXTS[2], TEXTS[0]]
    assert [part.text for part in result.hits[1].after] == [TEXTS[1]]
    assert (result.status, result.notices, result.advice) == (ResultStatus.COMPLETE, (), ())


async def test_equal_texts_are_read_as_often_as_they_are_named(world: World) -> None:
    await world.feed(revision("b", 1, TEXTS))

    result = await read(world, named("a", TEXTS[0]), named("b", TEXTS[0]))

    assert [hit.document_id for hit in result.hits] == ["a", "b"]


async def test_a_document_is_read_from_its_beginning(world: World) -> None:
    result = await read(world, document_ids=(DocumentId("a"),), neighbours=2)

    assert [hit.text for hit in result.hits] == [TEXTS[0]]
    assert [part.text for part in result.hits[0].after] == TEXTS[1:]


@pytest.mark.parametrize("moment", ["pages", "visible", "roots", "naming"])
async def test_what_is_named_is_read_again_if_its_document_is_replaced_meanwhile(world: World, moment: str) -> None:
    async def replaced() -> None:
        await world.feed(revision("a", 2, ["die gebühr beträgt elf euro", TEXTS[2]]))

    chunk = await read(world, named("a", TEXTS[2]), store=Broken(world.index, before={moment: replaced}))
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    store = Broken(world.index, before={moment: replaced})
    document = await read(world, document_ids=(DocumentId("a"),), store=store)

    assert [(hit.text, hit.version) for hit in chunk.hits] == [(TEXTS[2], 2)]
    assert [(hit.text, hit.version) for hit in document.hits] == [("die gebühr beträgt elf euro", 2)]
    assert {notice.kind for notice in (*chunk.notices, *document.notices)} == set()


async def test_filters_hold_for_what_is_named(world: World) -> None:
    other = Filter(field="document_id", operator=FilterOperator.NE, values=("a",))

    result = await read(world, named("a", TEXTS[0]), filters=(other,))

    assert result.hits == ()


async def _deleted(world: World) -> None:
    await world.feed(revision("a", 2, None))


async def _replaced(world: World) -> None:
    await world.feed(revision("a", 2, ["etwas anderes"]))


async def _hidden(world: World) -> None:
    await world.feed(revision("a", 2, TEXTS, principals=("boss",)))


async def _replaced_and_hidden(world: World) -> None:
    await world.feed(revision("a", 2, ["etwas anderes"], principals=("boss",)))


@pytest.mark.parametrize("change", [_deleted, _replaced, _hidden, _replaced_and_hidden])
@pytest.mark.parametrize("left", [(), (named("a", TEXTS[0]),)], ids=["swept", "rows left behind"])
async def test_what_is_gone_or_not_to_be_read_is_answered_as_what_never_was(
    world: World, change: Callable[[World], Any], left: Sequence[ChunkId]
) -> None:
    chunk = named("a", TEXTS[0])
    stored = await world.index.stored(left)
    rows = await world.index.fetch([row.row_id for of_chunk in stored.values() for row in of_chunk])
    await change(world)
    for row, vector in rows.values():
        await world.index.insert([row], vector.reshape(1, -1))

    gone = await read(world, chunk)
    never = await read(world, UNKNOWN)

    assert told(gone, chunk) == told(never, UNKNOWN)


async def test_what_others_own_is_answered_as_what_never_was(world: World) -> None:
    await world.feed(revision("secret", 1, TEXTS, principals=("boss",)))
    theirs = DocumentId("secret")

    chunk = await read(world, named("secret", TEXTS[0]))
    document = await read(world, document_ids=(theirs,))
    owner = await read(world, named("secret", TEXTS[0]), principals=("boss",))

    assert told(chunk, named("secret", TEXTS[0])) == told(await read(world, UNKNOWN), UNKNOWN)
    assert told(document, theirs) == told(await read(world, document_ids=(DocumentId("none"),)), "none")
    assert len(owner.hits) == 1


def told(result: ContextResult, name: str) -> object:
    """All that an asker can tell results apart by, but for times."""
    return (
        result.status,
        result.hits,
        result.context,
        [(notice.stage, notice.kind, notice.message.replace(name, "NAME")) for notice in result.notices],
        result.advice,
        [(stage.stage, stage.items) for stage in result.stages],
    )


async def test_another_tenant_reads_nothing(world: World) -> None:
    query = ContextQuery(
        query_id=QueryId("q"),
        tenant=TenantId("other"),
        text="",
        asked_at=now(),
        kind=RequestKind.CHUNK_READ,
        chunk_ids=(named("a", TEXTS[0]),),
        document_ids=(DocumentId("a"),),
    )

    ((_, result, _),) = [answer async for answer in retriever(world).answer([(query, "")])]

    assert result.hits == ()


async def test_a_document_that_is_replaced_while_it_is_read_is_read_again(world: World) -> None:
    async def replace() -> None:
        await world.feed(revision("a", 2, [TEXTS[0], "das ist neu"]))

    result = await read(world, named("a", TEXTS[0]), store=Broken(world.index, before={"pages": replace}))

    assert [(hit.version, hit.text) for hit in result.hits] == [(2, TEXTS[0])]


async def test_a_store_that_is_down_is_not_taken_for_an_unknown_chunk(world: World) -> None:
    result = await read(world, named("a", TEXTS[0]), store=Broken(world.index, "visible"))

    assert result.status is ResultStatus.DEGRADED
    assert {stage for stage, _ in kinds(result)} >= {"read"}


people = st.lists(st.sampled_from(["ann", "bob", "everyone"]), max_size=2).map(tuple)


@settings(max_examples=30, deadline=None)
@given(owners=st.lists(people, min_size=1, max_size=3), asker=people)
async def test_a_batch_of_all_kinds_gives_each_asker_only_what_is_theirs(
    owners: Sequence[tuple[str, ...]], asker: tuple[str, ...]
) -> None:
    world = World()
    for number, principals in enumerate(owners):
        await world.feed(revision(str(number), 1, TEXTS, principals=principals))
    documents = tuple(DocumentId(str(number)) for number in range(len(owners)))
    requests: list[dict[str, Any]] = [
        *({"kind": kind} for kind in (RequestKind.RETRIEVE, *SEARCHES)),
        {"kind": RequestKind.CHUNK_READ, "document_ids": documents},
    ]
    queries = [
        ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="antrag", asked_at=now(), principals=who, **extra)
        for who in (asker, ("ann", "bob"))
        for extra in requests
    ]

    results = [answer async for answer in retriever(world).answer([(query, "") for query in queries])]

    for place, result, _ in results:
        mine = {*queries[place].principals, "everyone"}
        allowed = {document for document, owner in zip(documents, owners, strict=True) if mine & set(owner)}
        found = {hit.document_id for hit in result.hits}
        assert found <= allowed
        assert queries[place].kind is not RequestKind.CHUNK_READ or found == allowed
