"""Further searches beside the question's: what they cost, what they add, and what happens where they fail."""

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_text import query_terms
from freki.schemas import ChunkId, ContextQuery, Fusion, NoticeKind, QueryId, RootId, Widening, WidenWhen
from freki.schemas.index import Candidate
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.query_state import QueryState, QueryVariant
from freki.streams.retrieve.steps.query_parser import QueryParser
from freki.streams.retrieve.steps.rewrite import is_written
from freki.streams.retrieve.steps.search import fused
from freki.streams.retrieve.steps.widen import MOST_VARIANTS, VARIANTS_WEIGHT, Widener, share_weight
from tests.unit.questions import KNOBS, Broken, ask, kinds, now, retriever
from tests.unit.revisions import TENANT, World, revision
from tests.unit.test_retriever import TEXTS

BY_RULE = [kind for kind in Widening if not is_written(kind)]

ALWAYS: dict[str, Any] = {"widen": (Widening.STATEMENT,), "widen_when": WidenWhen.ALWAYS}


class Counting(Broken):
    """A store that counts calls, and in which those after the first may fail."""

    def __init__(self, world: World, *, fails: str = "") -> None:
        super().__init__(world.index)
        self.calls: Counter[str] = Counter()
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        self._broken = (name,) if name == self._fails and self.calls[name] > 1 else ()
        broken = Broken(self._index, *self._broken)
        return getattr(broken, name)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.feed(revision("a", 1, TEXTS))
    return made


async def test_the_question_itself_is_searched_first_and_then_its_variants(world: World) -> None:
    result = await ask(retriever(world), "Wie hoch ist die Gebühr?", **ALWAYS)

    assert result.variants == ("Wie hoch ist die Gebühr?", "Die Gebühr beträgt")
    assert result.widened == (Widening.STATEMENT,)


async def test_without_variants_nothing_is_searched_twice(world: World) -> None:
    store = Counting(world)

    result = await ask(retriever(world, store), "Gebühr", **ALWAYS)

    assert (result.variants, result.widened) == (("Gebühr",), ())
    assert (store.calls["dense"], store.calls["lexical"], store.calls["fetch"]) == (1, 1, 1)


async def test_all_variants_of_a_batch_are_searched_by_one_call(world: World) -> None:
    store = Counting(world)
    texts = ["Wie hoch ist die Gebühr?", "Wer entscheidet über den Antrag?", "Amt"]
    queries = [
        ContextQuery(query_id=QueryId(text), tenant=TENANT, text=text, asked_at=now(), **ALWAYS) for text in texts
    ]

    answers = {
        result.query_id: result
        async for _, result, _ in retriever(world, store).answer([(each, "") for each in queries])
    }

    assert [len(answers[QueryId(text)].variants) for text in texts] == [2, 2, 1]
    assert (store.calls["dense"], store.calls["lexical"], store.calls["fetch"]) == (2, 2, 2)


@pytest.mark.parametrize("fails", ["dense", "lexical", "roots", "places", "fetch"])
async def test_a_second_search_that_fails_leaves_what_the_first_one_found(world: World, fails: str) -> None:
    alone = await ask(retriever(world), "Wie hoch ist die Gebühr?", widen=())

    result = await ask(retriever(world, Counting(world, fails=fails)), "Wie hoch ist die Gebühr?", **ALWAYS)

    assert {hit.chunk_id for hit in result.hits} == {hit.chunk_id for hit in alone.hits}
    assert NoticeKind.DEGRADED in {kind for _, kind in kinds(result)}


def a_state(text: str = "Wie hoch ist die Gebühr?", **options: Any) -> QueryState:
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=text, asked_at=now(), **options)
    understand = QueryParser(defaults=KNOBS, profiles={}, analyse_text=query_terms, clock_ns=time.time_ns)
    return understand(query, "", now())


def test_no_second_search_begins_where_time_is_short() -> None:
    estimates = Estimates(time.time)
    attempts = Attempts(failures=(), outages=(), now=now, estimates=estimates, in_flight=InFlight(now), meters=Meters())
    searcher: Any = None
    widener = Widener(searcher=searcher, analyse_text=query_terms, attempts=attempts, rewriter=None)
    state = a_state(**ALWAYS)

    before = widener.wants(state)
    estimates.learn("load", KNOBS.deadline_ms)

    assert before
    assert not widener.wants(state)
    assert [(notice.stage, notice.kind) for notice in state.notices] == [("widen", NoticeKind.SKIPPED)]


def test_all_that_a_second_search_changed_is_taken_over() -> None:
    state = a_state()
    after = state.second_pass()
    # The weights of both searches are told with the analysis.
    after.analysis = replace(after.analysis, alpha=0.6)
    after.excluded = 3

    state.take_over(after)

    assert (state.analysis.alpha, state.excluded) == (0.6, 3)
    assert state == after


async def test_without_further_kinds_a_weak_ranking_is_left_as_it_is(world: World) -> None:
    result = await ask(retriever(world), "Wie hoch ist die Gebühr?", widen=(), widen_when=WidenWhen.ALWAYS)

    assert result.variants == ("Wie hoch ist die Gebühr?",)


async def test_a_misspelt_word_is_searched_as_the_texts_write_it_also_where_nothing_looks_weak(world: World) -> None:
    options: dict[str, Any] = {"widen": (Widening.SPELLING, Widening.STATEMENT), "widen_when": WidenWhen.WEAK}

    result = await ask(retriever(world), "schriflich", **options)

    assert result.variants == ("schriflich", "schriftlich")


async def test_words_are_corrected_only_by_texts_that_the_asker_may_read() -> None:
    world = World()
    await world.feed(revision("a", 1, ["der antrag ist schriftlich zu stellen"]))
    await world.feed(
        revision("b", 1, ["die geheimhaltungsstufe gilt (VSA) verschlusssachenanweisung"], principals=("board",))
    )
    spelling: dict[str, Any] = {"widen": tuple(BY_RULE), "widen_when": WidenWhen.ALWAYS}

    stranger = await ask(retriever(world), "Geheimhaltungsstuffe", **spelling)
    member = await ask(retriever(world), "Geheimhaltungsstuffe", principals=("board",), **spelling)

    assert not any("geheimhaltungsstufe" in variant.casefold() for variant in stranger.variants)
    assert "geheimhaltungsstufe" in member.variants


def hit(name: str, score: float) -> Candidate:
    return Candidate(chunk_id=ChunkId(name), root_id=RootId("r"), score=score)


rankings = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 1)), max_size=6, unique_by=lambda each: each[0]
).map(lambda found: sorted((hit(name, score) for name, score in found), key=lambda each: -each.score))
variants = st.builds(
    QueryVariant,
    text=st.text(max_size=5),
    terms=st.just("x"),
    kind=st.just(Widening.SYNONYMS),
    dense=rankings,
    lexical=rankings,
)


@given(found=st.tuples(rankings, rankings), variants=st.lists(variants, max_size=5), data=st.data())
@pytest.mark.parametrize("fusion", list(Fusion))
def test_the_order_of_variants_does_not_matter(
    fusion: Fusion, found: tuple[list[Candidate], list[Candidate]], variants: list[QueryVariant], data: st.DataObject
) -> None:
    state = a_state(fusion=fusion)
    state.query_variants[0].dense, state.query_variants[0].lexical = found
    question, weighed = state.query_variants[0], share_weight(variants)
    state.query_variants = [question, *weighed]
    ranked = fused(state)
    state.query_variants = [question, *data.draw(st.permutations(weighed))]

    assert [each[:5] for each in fused(state)] == [each[:5] for each in ranked]


@given(texts=st.lists(st.text(max_size=20), max_size=30))
def test_variants_are_few_differ_and_together_weigh_less_than_the_question(texts: list[str]) -> None:
    weighed = share_weight([QueryVariant(text=text, terms=text) for text in texts])

    assert len(weighed) <= MOST_VARIANTS
    assert len({variant.text for variant in weighed}) == len(weighed)
    assert sum(variant.weight for variant in weighed) == pytest.approx(VARIANTS_WEIGHT if weighed else 0)
    assert a_state().query_variants[0].weight > VARIANTS_WEIGHT


def test_a_chunk_is_marked_by_the_first_way_that_found_it() -> None:
    state = a_state()
    state.query_variants[0].dense, state.query_variants[0].lexical = [hit("a", 0.9)], []
    state.query_variants += [
        QueryVariant(text="b", terms="b", weight=0.5, dense=[hit("a", 0.9), hit("b", 0.8)], lexical=[])
    ]

    assert {each.chunk_id: each.variant for each in fused(state)} == {"a": 0, "b": 1}


@given(text=st.text(max_size=3000))
def test_no_variant_by_rule_is_longer_than_what_a_question_may_search_by(text: str) -> None:
    attempts: Any = None
    searcher: Any = None
    widener = Widener(searcher=searcher, analyse_text=query_terms, attempts=attempts, rewriter=None)
    state = a_state(f"Was ist {text}?", widen=tuple(BY_RULE))

    assert all(len(variant.text) <= 2000 for variant in widener.by_rule(state))
