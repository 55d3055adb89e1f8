"""Further chunks of the documents of the best hits."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.schemas import CitationStyle, ContextResult, NoticeKind, RerankerChoice
from tests.unit import questions
from tests.unit.questions import Broken, kinds, retriever
from tests.unit.revisions import World, revision

ask = partial(questions.ask, expand_documents=3)
QUESTION = "was kostet der antrag"
LONG = [f"was kostet der antrag nummer {number}" for number in range(20)]
OTHER = ["das wetter wird schön", "der antrag kostet nichts", "morgen regnet es"]


@pytest.fixture
async def world() -> World:
    made = World()
    await made.feed(revision("long", 1, LONG))
    await made.feed(revision("other", 1, OTHER))
    return made


def texts(result: ContextResult, document: str) -> list[str]:
    return [each.text for each in result.expansions if each.document_id == document]


async def test_they_stand_by_document_and_place_and_are_no_hits(world: World) -> None:
    result = await ask(retriever(world), QUESTION, top_k=2)

    hits = {hit.chunk_id for hit in result.hits}
    assert len(result.hits) == 2
    assert hits.isdisjoint(each.chunk_id for each in result.expansions)
    assert texts(result, "long") == [text for text in LONG if text not in {hit.text for hit in result.hits}]
    assert [each.number for each in result.expansions] == list(range(3, 3 + len(result.expansions)))
    assert ("expand" in {stage.stage for stage in result.stages}) == bool(result.expansions)


async def test_a_document_that_one_hit_fits_is_shown_whole_also_what_says_nothing_of_the_question(world: World) -> None:
    stations = [
        "peter arbeitet beim amt",
        "wanderte durch die alpen",
        "spielte geige",
        "zog um",
        "kochte",
        "las",
        "schlief",
    ]
    await world.feed(revision("cv", 1, stations))

    result = await ask(retriever(world), "peter arbeitet beim amt", top_k=1)

    assert [result.hits[0].text, *texts(result, "cv")] == stations


async def test_a_document_that_no_hit_fits_well_enough_is_not_expanded(world: World) -> None:
    weak = await ask(retriever(world), QUESTION, top_k=2, expand_similarity=1.5, reranker=RerankerChoice.COSINE)
    fitting = await ask(retriever(world), QUESTION, top_k=2, expand_similarity=0.1, reranker=RerankerChoice.COSINE)

    assert (len(weak.hits), weak.expansions) == (2, ())
    assert fitting.expansions


async def test_a_long_document_leaves_a_short_one_its_places(world: World) -> None:
    await world.feed(
        revision("longer", 1, [f"was kostet der antrag der stadt nummer {number}" for number in range(300)])
    )

    result = await ask(retriever(world), QUESTION, per_document=1, top_k=3, expand_similarity=-5.0)

    assert len(texts(result, "other")) == len(OTHER) - 1
    assert len(texts(result, "longer")) == 20


async def test_there_are_at_most_as_many_as_asked_for_of_each_and_the_most_similar(world: World) -> None:
    result = await ask(retriever(world), "kostet der antrag nummer 7", top_k=1, expand_chunks=3)

    similarities = {each.text: each.similarity for each in result.expansions}
    everything = await ask(retriever(world), "kostet der antrag nummer 7", top_k=1, expand_similarity=-1.0)
    best = sorted((each.similarity for each in everything.expansions if each.document_id == "long"), reverse=True)
    assert sorted(similarities.values(), reverse=True) == pytest.approx(best[:3])


@pytest.mark.parametrize("options", [{"expand_documents": 0}, {"expand_chunks": 0}, {"expand_similarity": 2.0}])
async def test_none_are_found_where_none_are_wanted(world: World, options: dict[str, Any]) -> None:
    assert (await ask(retriever(world), QUESTION, top_k=1, **options)).expansions == ()


async def test_a_store_that_fails_costs_no_hit(world: World) -> None:
    result = await ask(retriever(world, Broken(world.index, fails_from={"dense": 2})), QUESTION, top_k=2)

    assert (len(result.hits), result.expansions) == (2, ())
    assert ("expand", NoticeKind.DEGRADED) in kinds(result)


async def test_near_the_deadline_they_are_left_out_and_that_is_said(world: World) -> None:
    # given a clock by which the second search, the one for further chunks, takes longer than a question has time
    now_ns = 0
    before: dict[str, Callable[[], Awaitable[None]]] = {}

    async def search() -> None:
        before["dense"] = expand

    async def expand() -> None:
        nonlocal now_ns
        now_ns += 10**12

    before["dense"] = search
    asked = retriever(world, Broken(world.index, before=before), clock_ns=lambda: now_ns)
    first = await ask(asked, QUESTION, top_k=2)

    result = await ask(asked, QUESTION, top_k=2)

    assert first.expansions
    assert (len(result.hits), result.expansions) == (2, ())
    assert ("expand", NoticeKind.SKIPPED) in kinds(result)


async def test_a_revision_that_is_replaced_meanwhile_gives_none_of_its_chunks(world: World) -> None:
    async def replace() -> None:
        await world.feed(revision("long", 2, ["etwas anderes"]))

    result = await ask(retriever(world, Broken(world.index, before={"passages": replace})), QUESTION, top_k=2)

    assert texts(result, "long") == []


async def test_who_may_not_read_a_document_sees_nothing_of_it(world: World) -> None:
    await world.feed(revision("long", 2, LONG, principals=("board",)))

    result = await ask(retriever(world), QUESTION, top_k=2, expand_similarity=-1.0)

    assert {hit.document_id for hit in result.hits} == {each.document_id for each in result.expansions} == {"other"}


MARKS = {
    CitationStyle.QUELLE: re.compile(r"\[QUELLE-\d+: [^\[\]]* \| chunk:[^\[\]]+\]"),
    CitationStyle.DOCUMENT: re.compile(r"\[Document \d+: [^\[\]]*\]"),
}


@given(
    style=st.sampled_from(CitationStyle),
    top_k=st.integers(1, 8),
    context_tokens=st.integers(50, 400),
    parents=st.booleans(),
    neighbours=st.integers(0, 2),
    expand_documents=st.integers(0, 3),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_citation_of_the_context_leads_to_its_document_and_the_other_way_round(
    world: World, style: CitationStyle, **options: Any
) -> None:
    result = await ask(retriever(world), QUESTION, citations=style, **options)

    told = {citation.citation: citation for citation in result.citations}
    assert MARKS[style].findall(result.context) == list(told)
    assert len(told) == len(result.citations)
    known = {each.citation: each.chunk_id for each in result.hits}
    known |= {each.citation: each.chunk_id for each in result.expansions}
    assert all(known[each.citation] == each.chunk_id for each in result.citations)
    for one, other in pairwise(result.citations):
        assert one.document_id != other.document_id or one.start <= other.start
