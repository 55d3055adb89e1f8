"""Further searches beside the question's: what they cost, what they add, and what happens where they fail."""

import asyncio
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_text import query_terms
from freki.operators.rephrase import Thesaurus
from freki.schemas import ChunkId, ContextQuery, Fusion, NoticeKind, QueryId, RootId, Widening, WidenWhen
from freki.schemas.index import Candidate, RowId
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.candidates import History, LoadedCandidates, QueryCandidates
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.search_result import QueryVariant, SearchedVariant, SearchResult, variant_of
from freki.streams.retrieve.steps.fuse import fuse
from freki.streams.retrieve.steps.query_parser import QueryParser
from freki.streams.retrieve.steps.rewrite import is_written
from freki.streams.retrieve.steps.variants import MAX_VARIANTS, VARIANTS_WEIGHT, VariantMaker, share_weight
from freki.streams.retrieve.steps.widen import Widener
from tests.unit.questions import OPTIONS, Broken, ask, kinds, now, retriever
from tests.unit.revisions import TENANT, World, revision

BY_RULE = [kind for kind in Widening if not is_written(kind)]

ALWAYS: dict[str, Any] = {"widen": (Widening.STATEMENT,), "widen_when": WidenWhen.ALWAYS}


class Counting(Broken):
    """A store that counts calls, and in which those after the first may fail, so many times."""

    def __init__(self, world: World, *, fails: str = "", times: int = 1) -> None:
        super().__init__(world.index)
        self.calls: Counter[str] = Counter()
        self._fails = fails
        self._times = times

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        self._broken = (name,) if name == self._fails and 1 < self.calls[name] <= 1 + self._times else ()
        broken = Broken(self._index, *self._broken)
        return getattr(broken, name)


class Stalling(Broken):
    """A store whose second search waits."""

    def __init__(self, world: World, until: asyncio.Event) -> None:
        super().__init__(world.index)
        self._until = until

    async def dense(self, *args: Any, **kwargs: Any) -> list[list[Candidate]]:
        self.calls["dense"] += 1
        if self.calls["dense"] > 1:
            await self._until.wait()
        return await self._index.dense(*args, **kwargs)


async def test_the_question_itself_is_searched_first_and_then_its_variants(world: World) -> None:
    result = await ask(retriever(world), "Wie hoch ist die Gebühr?", **ALWAYS)

    assert result.variants == ("Wie hoch ist die Gebühr?", "Die Gebühr beträgt")
    assert result.widened == (Widening.STATEMENT,)


async def test_without_variants_nothing_is_searched_twice(world: World) -> None:
    store = Counting(world)

    result = await ask(retriever(world, store), "Gebühr", **ALWAYS)

    assert (result.variants, result.widened) == (("Gebühr",), ())
    assert (store.calls["dense"], store.calls["lexical"], store.calls["contents"]) == (1, 1, 1)


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
    assert (store.calls["dense"], store.calls["lexical"], store.calls["contents"]) == (2, 2, 2)
    assert store.calls["naming"] == 1  # both searches find the same documents


@pytest.mark.parametrize(("fails", "times"), [("dense", 1), ("lexical", 1), ("roots", 1), ("contents", 2)])
async def test_a_second_search_that_fails_leaves_what_the_first_one_found(world: World, fails: str, times: int) -> None:
    alone = await ask(retriever(world), "Wie hoch ist die Gebühr?", widen=())

    result = await ask(
        retriever(world, Counting(world, fails=fails, times=times)), "Wie hoch ist die Gebühr?", **ALWAYS
    )

    assert {hit.chunk_id for hit in result.hits} == {hit.chunk_id for hit in alone.hits}
    assert NoticeKind.DEGRADED in {kind for _, kind in kinds(result)}


async def test_a_query_has_all_of_its_own_time_for_the_second_search_that_it_shares(world: World) -> None:
    # given a second search of a batch that ends once the query with less time has left
    left = asyncio.Event()
    store = Stalling(world, left)
    text = "Wie hoch ist die Gebühr?"
    hurried, patient = (
        ContextQuery(
            query_id=QueryId(name), tenant=TENANT, text=text, asked_at=now(), deadline_ms=deadline_ms, **ALWAYS
        )
        for name, deadline_ms in (("hurried", 1_000), ("patient", 60_000))
    )
    answers = retriever(world, store).answer([(hurried, ""), (patient, "")])

    _, without, _ = await anext(answers)
    left.set()
    _, widened, _ = await anext(answers)

    assert (without.query_id, widened.query_id) == ("hurried", "patient")
    assert (len(without.variants), len(widened.variants)) == (1, 2)
    assert NoticeKind.DEGRADED in {kind for _, kind in kinds(without)}
    assert kinds(widened) == set()


def a_query(text: str = "Wie hoch ist die Gebühr?", **options: Any) -> EmbeddedQuery:
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=text, asked_at=now(), **options)
    parse = QueryParser(defaults=OPTIONS, profiles={}, analyse_text=query_terms, clock_ns=time.monotonic_ns)
    return EmbeddedQuery.of(parse(query, "", now()), None, {})


def without_hits(query: EmbeddedQuery) -> QueryCandidates:
    search = SearchResult(variants=[SearchedVariant(variant=variant_of(query), dense=None, lexical=None)])
    return QueryCandidates(query=query, candidates=LoadedCandidates(search=search, found=(), history=History()))


def a_widener(attempts: Any) -> Widener:
    unused: Any = None
    return Widener(
        searcher=unused, embed=unused, variants=VariantMaker(query_terms, Thesaurus()), rewriter=None, attempts=attempts
    )


def short_of_time() -> Widener:
    """Return a widener for queries whose whole time is needed for loading."""
    estimates = Estimates(time.monotonic)
    estimates.learn("load", OPTIONS.deadline_ms)
    return a_widener(
        Attempts(now=now, clock_s=time.monotonic, estimates=estimates, in_flight=InFlight(now), meters=Meters())
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Wie hoch ist die Gebühr?", Widening.STATEMENT),
        *(("Gebühr", kind) for kind in Widening if is_written(kind)),
    ],
)
def test_no_second_search_begins_where_time_is_short(text: str, kind: Widening) -> None:
    given_ = without_hits(a_query(text, widen=(kind,), widen_when=WidenWhen.ALWAYS))
    estimates = Estimates(time.monotonic)
    in_time = a_widener(
        Attempts(now=now, clock_s=time.monotonic, estimates=estimates, in_flight=InFlight(now), meters=Meters())
    )

    assert in_time.wants(given_)
    assert not short_of_time().wants(given_)
    assert [(notice.stage, notice.kind) for notice in given_.query.log.notices] == [("widen", NoticeKind.SKIPPED)]


@pytest.mark.parametrize(
    ("text", "widen"), [("Wie hoch ist die Gebühr?", [Widening.SPELLING]), ("Gebühr", BY_RULE), ("Gebühr", [])]
)
def test_a_search_that_would_not_have_been_made_is_not_told_as_skipped(text: str, widen: list[Widening]) -> None:
    given_ = without_hits(a_query(text, widen=tuple(widen), widen_when=WidenWhen.ALWAYS))

    assert not short_of_time().wants(given_)
    assert not given_.query.log.notices


async def test_a_result_tells_the_weight_of_the_search_that_it_is_of(world: World) -> None:
    asked = retriever(world, defaults=replace(OPTIONS, hybrid_alpha=None))

    alone = await ask(asked, "Wie hoch ist die Gebühr?", widen=())
    widened = await ask(asked, "Wie hoch ist die Gebühr?", **ALWAYS)

    assert widened.widened
    assert alone.analysis is not None
    assert widened.analysis is not None
    assert alone.analysis.alpha
    assert widened.analysis.alpha


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
    return Candidate(chunk_id=ChunkId(name), row_id=RowId(name), root_id=RootId("r"), score=score)


rankings = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 1)), max_size=6, unique_by=lambda each: each[0]
).map(lambda found: sorted((hit(name, score) for name, score in found), key=lambda each: -each.score))
variants = st.builds(
    SearchedVariant,
    variant=st.builds(QueryVariant, text=st.text(max_size=5), terms=st.just("x"), kind=st.just(Widening.SYNONYMS)),
    dense=rankings,
    lexical=rankings,
)


def weighed(variants: list[SearchedVariant]) -> list[SearchedVariant]:
    shared = {each.text: each for each in share_weight([each.variant for each in variants])}
    searched = {each.variant.text: each for each in reversed(variants)}
    return [replace(searched[text], variant=variant) for text, variant in shared.items()]


@given(found=st.tuples(rankings, rankings), variants=st.lists(variants, max_size=5), data=st.data())
@pytest.mark.parametrize("fusion", list(Fusion))
def test_the_order_of_variants_does_not_matter(
    fusion: Fusion,
    found: tuple[list[Candidate], list[Candidate]],
    variants: list[SearchedVariant],
    data: st.DataObject,
) -> None:
    query = a_query(fusion=fusion)
    question = SearchedVariant(variant=variant_of(query), dense=found[0], lexical=found[1])
    others = weighed(variants)

    ranked, alpha = fuse(query, [question, *others])
    again, same_alpha = fuse(query, [question, *data.draw(st.permutations(others))])

    assert [each[:5] for each in again] == [each[:5] for each in ranked]
    assert alpha == same_alpha


@given(texts=st.lists(st.text(max_size=20), max_size=30))
def test_variants_are_few_differ_and_together_weigh_less_than_the_question(texts: list[str]) -> None:
    weighed = share_weight([QueryVariant(text=text, terms=text) for text in texts])

    assert len(weighed) <= MAX_VARIANTS
    assert len({variant.text for variant in weighed}) == len(weighed)
    assert sum(variant.weight for variant in weighed) == pytest.approx(VARIANTS_WEIGHT if weighed else 0)
    assert variant_of(a_query()).weight > VARIANTS_WEIGHT


def test_a_chunk_is_marked_by_the_first_way_that_found_it() -> None:
    query = a_query()
    question = SearchedVariant(variant=variant_of(query), dense=[hit("a", 0.9)], lexical=[])
    variant = QueryVariant(text="b", terms="b", weight=0.5)
    other = SearchedVariant(variant=variant, dense=[hit("a", 0.9), hit("b", 0.8)], lexical=[])

    ranked, _ = fuse(query, [question, other])

    assert {each.chunk_id: each.variant for each in ranked} == {"a": 0, "b": 1}


@given(text=st.text(max_size=3000))
def test_no_variant_by_rule_is_longer_than_what_a_question_may_search_by(text: str) -> None:
    given_ = without_hits(a_query(f"Was ist {text}?", widen=tuple(BY_RULE)))

    assert all(len(variant.text) <= 2000 for variant in a_widener(None).by_rule(given_))
