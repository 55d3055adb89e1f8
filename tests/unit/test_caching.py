"""Questions that are asked again."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import set_span_in_context

from freki.infra.caches import BoundedCache
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentId,
    ExpectedDocument,
    Filter,
    FilterOperator,
    IndexOutcome,
    NoticeKind,
    OutcomeStatus,
    QueryId,
    RerankerChoice,
    ResultStatus,
    RootId,
    TenantId,
    Timestamp,
    VersionFloor,
    Widening,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Unavailable
from freki.streams.retrieve.cache.caching import CachedSearch, Caches, CachingRetriever
from freki.streams.retrieve.cache.epochs import Epochs, follow_outcomes
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels
from freki.streams.retrieve.explainer import NOT_THERE
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.live import MAX_RECHECK_NS
from freki.streams.retrieve.trace import Models, QueryTrace
from tests.simulated_time import in_simulated_time, time_ns
from tests.unit.deliveries import Event, Spans
from tests.unit.isolation import NAMES, PRINCIPALS, Version, options, versions
from tests.unit.questions import OPTIONS, TEXTS, Broken, ask, kinds, now, stores
from tests.unit.receipts import a_receipt
from tests.unit.revisions import TENANT, World, revision
from tests.unit.test_caches import Counted


class Counting:
    """Counts what is asked of what lies outside."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        behind = getattr(self._behind, name)
        if name in ("dense", "lexical", "embed_queries"):
            self.asked.append(name)
        return behind


class Service:
    """A retriever that remembers, and the world that it looks at."""

    def __init__(self, world: World, *, strong: bool = True, most_bytes: int = 1 << 20, store: Any = None) -> None:
        def cache() -> BoundedCache[Any]:
            return BoundedCache("c", most_bytes=most_bytes, seconds=60, calls=self.calls)

        self.calls = Counted()
        self.epochs = Epochs(strong=strong)
        caches = Caches(embeddings=cache(), rankings=cache(), answers=cache(), epochs=self.epochs)
        self.store = Counting(store or world.index)
        self.embedder = Counting(world.embedder)
        search = CachedSearch(self.store, rankings=caches.rankings, epochs=self.epochs)
        self.plain = self._retriever(world.index, world.embedder, world.index)
        self.retriever = self._retriever(self.store, self.embedder, search, embeddings=caches.embeddings)
        self.remembering = CachingRetriever(
            self.retriever,
            caches=caches,
            search=self.store,
            roots=self.store,
            encode=Codec(ContextResult).encode,
            decode=Codec(ContextResult).decode,
            now=now,
        )

    def _retriever(self, store: Any, embedder: Any, search: Any, embeddings: Any = None) -> Retriever:
        return Retriever(
            RetrievalModels(embedder=embedder, embeddings=embeddings),
            stores(store, search),
            QueryDefaults(options=replace(OPTIONS, cached=True, reranker=RerankerChoice.NONE)),
            Clocks(now=now, ns=time_ns),
        )

    async def ask(self, text: str = "Wer entscheidet über den Antrag?", **options: Any) -> ContextResult:
        return await ask(self.remembering, text, **options)


async def test_an_answer_is_given_again_and_says_how_old_it_is(world: World) -> None:
    service = Service(world)

    first, again = await service.ask(), await service.ask()

    assert first.cached_ms is None
    assert again.cached_ms is not None
    assert [hit.chunk_id for hit in again.hits] == [hit.chunk_id for hit in first.hits]
    assert again.context == first.context
    assert [stage.stage for stage in again.stages] == ["analyse", "remember"]
    assert sorted(service.store.asked) == ["dense", "lexical"]


async def test_a_new_answer_tells_how_long_it_was_looked_for_among_those_before(world: World) -> None:
    service = Service(world)

    first = await service.ask()

    assert [stage.stage for stage in first.stages][:2] == ["analyse", "remember"]


async def test_the_trace_of_an_answer_that_is_given_again_shows_the_hits_and_how_they_were_found(world: World) -> None:
    service, spans = Service(world), Spans()
    traces = QueryTrace(spans.tracer, models=Models(embedder="e", reranker="r"), content=False)

    async def ask() -> ContextResult:
        query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="Ist der Antrag schriftlich?", asked_at=now())
        ((_, result, retrieval),) = [answer async for answer in service.remembering.answer([(query, "")])]
        traces.report(set_span_in_context(spans.tracer.start_span("process")), retrieval, result)
        return result

    await ask()
    result = await ask()

    assert result.cached_ms is not None
    first, again = (dict(span.attributes or {}) for span in spans.finished if span.name == "retrieve")
    assert first["retrieval.documents.0.document.id"] == f"a#{result.hits[0].chunk_id}"
    assert again.pop("freki.cached_ms") == result.cached_ms
    assert again == first


async def test_what_no_longer_holds_is_counted_as_no_hit(world: World) -> None:
    service = Service(world)

    await service.ask()
    await world.feed(revision("b", 1, ["Ein anderer Text, der nichts sagt."]))
    await service.ask()

    # The vector of the question holds.
    assert service.calls.hits == 1


async def test_other_options_take_the_candidates_and_the_vector_that_are_there(world: World) -> None:
    service = Service(world)

    await service.ask()
    other = await service.ask(neighbours=0)

    assert other.cached_ms is None
    assert sorted(service.store.asked + service.embedder.asked) == ["dense", "embed_queries", "lexical"]


@pytest.mark.parametrize(
    "options",
    [{"cached": False}, {"at_least": (VersionFloor(document_id=DocumentId("a"), version=1),)}],
    ids=["not-wanted", "a-version-is-wanted"],
)
async def test_who_wants_it_anew_gets_it_anew(world: World, options: Mapping[str, Any]) -> None:
    service = Service(world)

    await service.ask(**options)

    assert (await service.ask(**options)).cached_ms is None


async def test_nothing_is_shared_between_principals(world: World) -> None:
    service = Service(world)

    await service.ask(principals=("anna", "ben"))
    for principals in ((), ("anna",), ("anna", "ben", "board")):
        assert (await service.ask(principals=principals)).cached_ms is None

    assert service.embedder.asked == ["embed_queries"] * 4
    assert sorted(service.store.asked) == ["dense"] * 4 + ["lexical"] * 4
    assert (await service.ask(principals=("ben", "anna", "ben"))).cached_ms is not None


async def test_an_answer_in_which_a_step_failed_is_not_given_again(world: World) -> None:
    service = Service(world, store=Broken(world.index, "dense"))

    await service.ask()

    assert (await service.ask()).cached_ms is None


async def test_an_empty_answer_is_given_again_but_not_if_there_was_no_time_to_search_further(world: World) -> None:
    service = Service(world)
    nowhere = Filter(field="document_id", operator=FilterOperator.EQ, values=("nowhere",))
    asks: dict[str, Any] = {"filters": (nowhere,), "widen": (Widening.STATEMENT,)}
    service.retriever._estimates.learn("match", 20.0)

    short = await service.ask("Was ist ein Xylophon?", **asks, deadline_ms=10_000)
    long = await service.ask("Was ist ein Xylophon?", **asks, deadline_ms=600_000)
    again = await service.ask("Was ist ein Xylophon?", **asks, deadline_ms=10_000)

    assert [each.status for each in (short, long, again)] == [ResultStatus.EMPTY] * 3
    assert ("widen", NoticeKind.SKIPPED) in kinds(short)
    assert long.cached_ms is None
    assert not kinds(long)
    assert again.cached_ms is not None


async def test_a_store_that_is_down_is_no_reason_to_believe_what_is_remembered(world: World) -> None:
    down = Broken(world.index)
    service = Service(world, store=down)
    await service.ask()
    down._broken = ("watermarks", "roots", "dense", "lexical")

    assert (await service.ask()).cached_ms is None


@pytest.mark.parametrize("call", ["watermarks", "roots"])
@in_simulated_time
async def test_a_store_that_hangs_holds_up_no_answer_and_leaves_time_to_make_it_anew(world: World, call: str) -> None:
    store = Broken(world.index)
    service = Service(world, store=store)
    await service.ask()
    let_go = asyncio.Event()
    store._before = {call: let_go.wait}

    async with asyncio.timeout(60):
        result = await service.ask(deadline_ms=1_000)

    assert not store._before
    assert not let_go.is_set()
    assert result.cached_ms is None
    assert result.hits


@pytest.mark.parametrize("strong", [True, False], ids=["strong", "bounded"])
@pytest.mark.parametrize("moment", ["roots", "naming", "contents", "pages"])
async def test_a_search_is_repeated_without_its_kept_rankings_if_a_document_was_replaced(
    world: World, *, moment: str, strong: bool
) -> None:
    new = ["das amt entscheidet über den antrag im mai", "die gebühr beträgt elf euro"]

    async def replaced() -> None:
        await world.feed(revision("a", 2, new))

    store = Broken(world.index, before={moment: replaced})
    service = Service(world, strong=strong, store=store)
    service.epochs.followed(follows=True)

    result = await service.ask()

    assert not store._before
    assert {hit.text for hit in result.hits} == set(new)
    searches = len(service.store.asked)
    # Other options: not the kept answer, but rankings, which are those of the second search.
    other = await service.ask(neighbours=0)
    assert {hit.text for hit in other.hits} == set(new)
    assert strong or len(service.store.asked) == searches


async def test_with_bounded_consistency_receipts_end_what_is_remembered(world: World) -> None:
    service = Service(world, strong=False)
    await service.ask()
    assert (await service.ask()).cached_ms is None, "nobody reads receipts"

    service.epochs.followed(follows=True)
    await service.ask()
    assert (await service.ask()).cached_ms is not None

    service.epochs.changed(TenantId("another"))
    assert (await service.ask()).cached_ms is not None

    service.epochs.changed(TENANT)
    assert (await service.ask()).cached_ms is None

    service.epochs.followed(follows=False)
    assert (await service.ask()).cached_ms is None


@pytest.mark.parametrize("texts", [None, ["das amt ist geschlossen"]], ids=["deleted", "replaced"])
async def test_a_document_that_is_gone_is_not_quoted_even_before_its_receipt(
    world: World, texts: Sequence[str] | None
) -> None:
    service = Service(world, strong=False)
    service.epochs.followed(follows=True)
    await service.ask()

    await world.feed(revision("a", 2, texts))

    result = await service.ask()
    assert result.cached_ms is None
    assert {hit.version for hit in result.hits} <= {2}


@pytest.mark.parametrize("texts", [None, ["das amt ist geschlossen"]], ids=["deleted", "replaced"])
@in_simulated_time
async def test_nor_is_a_document_that_goes_while_the_process_stands_still_in_its_look_at_roots(
    world: World, texts: Sequence[str] | None
) -> None:
    class Slow(Broken):
        async def roots(self, root_ids: Sequence[RootId]) -> Any:
            read = await world.index.roots(root_ids)
            if "roots" in self._before:
                # What was read waits in the socket meanwhile.
                await self._before.pop("roots")()
            return read

    async def stand_still() -> None:
        await asyncio.sleep(2 * MAX_RECHECK_NS / 1e9)
        await world.feed(revision("a", 2, texts))

    store = Slow(world.index)
    service = Service(world, strong=False, store=store)
    service.epochs.followed(follows=True)
    await service.ask()
    store._before = {"roots": stand_still}

    result = await service.ask(deadline_ms=60_000)

    assert not store._before
    assert result.cached_ms is None
    assert {hit.version for hit in result.hits} <= {2}


@in_simulated_time
async def test_nor_is_a_document_that_goes_while_answers_before_it_are_sent(world: World) -> None:
    await world.feed(revision("b", 1, ["etwas ganz anderes über gebühren"]))
    service = Service(world, strong=False)
    service.epochs.followed(follows=True)
    kept = ("Wer entscheidet über den Antrag?", "Was kostet die Gebühr?")
    for text in kept:
        await service.ask(text, deadline_ms=60_000)
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=kept[0], asked_at=now(), deadline_ms=60_000)

    results = {}
    async for place, result, _ in service.remembering.answer([(replace(query, text=text), "") for text in kept]):
        results[place] = result
        if len(results) == 1:
            await asyncio.sleep(2 * MAX_RECHECK_NS / 1e9)
            await world.feed(revision("a", 2, None))

    assert results[0].cached_ms is not None
    assert results[0].hits
    assert "a" not in {hit.document_id for hit in results[1].hits}


async def test_nor_is_a_document_named_as_a_duplicate_that_the_asker_may_not_read_any_more(world: World) -> None:
    await world.feed(revision("b", 1, TEXTS))
    service = Service(world, strong=False)
    service.epochs.followed(follows=True)
    named = {other.document_id for hit in (await service.ask()).hits for other in hit.duplicates}

    await world.feed(revision("b", 2, TEXTS, principals=("board",)))

    result = await service.ask()
    assert named == {"b"}
    assert result.cached_ms is None
    assert not any(hit.duplicates for hit in result.hits)


async def test_nor_is_told_what_became_of_an_expected_document_that_the_asker_may_not_read_any_more(
    world: World,
) -> None:
    asks: dict[str, Any] = {"expect": (DocumentId("b"),), "top_k": 1}
    await world.feed(revision("b", 1, ["die gebühr beträgt neun euro"]))
    service = Service(world, strong=False)
    service.epochs.followed(follows=True)
    before = (await service.ask(**asks)).explanation

    await world.feed(revision("b", 2, ["die gebühr beträgt neun euro"], principals=("board",)))

    after = (await service.ask(**asks)).explanation
    assert before is not None
    assert after is not None
    assert before.expected[0].best is not None
    assert after.expected == (
        ExpectedDocument(document_id=DocumentId("b"), lost_at="search", reason=NOT_THERE, best=None),
    )


@settings(max_examples=40)
@given(one=options(), other=options())
async def test_an_answer_to_other_options_is_not_given_again(one: dict[str, Any], other: dict[str, Any]) -> None:
    empty = World()
    await empty.feed(revision("a", 1, TEXTS))
    service = Service(empty)
    await service.ask(**one)

    unsaid: dict[str, Any] = {"explain": False, "expect": (), "filters": ()}
    assert (await service.ask(**other)).cached_ms is None or unsaid | one == unsaid | other


Step = tuple[str, Version | None, str, frozenset[str]]
steps = st.lists(
    st.tuples(
        NAMES,
        st.none() | versions,
        st.sampled_from(["antrag", "gebühr amt"]),
        st.frozensets(st.sampled_from(PRINCIPALS[:3]), max_size=1),
    ),
    max_size=8,
)


@settings(max_examples=30)
@given(steps=steps, most_bytes=st.sampled_from([0, 4_000, 1 << 20]))
async def test_whatever_is_remembered_the_answer_is_that_of_now(steps: list[Step], most_bytes: int) -> None:
    world = World()
    service = Service(world, most_bytes=most_bytes)
    for number, (name, version, text, principals) in enumerate(steps, start=1):
        if version is not None:
            await world.feed(revision(name, number, version.texts, principals=version.principals))
        options = {"principals": tuple(principals)}
        for _ in range(2):
            got, expected = await service.ask(text, **options), await ask(service.plain, text, **options)
            assert same(got) == same(expected)


def same(result: ContextResult) -> ContextResult:
    """Leave out times."""
    hits = tuple(replace(hit, age_ms=0) for hit in result.hits)
    never = Timestamp(0)
    return replace(result, hits=hits, stages=(), asked_at=never, answered_at=never, cached_ms=None)


def outcome(tenant: str, status: OutcomeStatus) -> bytes:
    return Codec(IndexOutcome).encode(a_receipt(status, tenant=TenantId(tenant)))


def ends_with(other: str) -> bool:
    """Return whether the epoch of the tenant ends with that of another one: a few share a counter, by their hashes."""
    epochs = Epochs(strong=False)
    epochs.followed(follows=True)
    before = epochs.now(TENANT)
    epochs.changed(TenantId(other))
    return epochs.now(TENANT) != before


async def test_receipts_end_the_epoch_of_their_tenant_and_what_cannot_be_read_that_of_all() -> None:
    epochs, ended = Epochs(strong=False), []
    other = next(name for name in ("other", "another", "third") if not ends_with(name))

    async def receipts() -> AsyncIterator[Event]:
        for value in (
            outcome("t", OutcomeStatus.STALE),
            outcome(other, OutcomeStatus.INDEXED),
            outcome("t", OutcomeStatus.DELETED),
            b"no receipt",
        ):
            before = epochs.now(TENANT)
            yield Event(value=value)
            ended.append(epochs.now(TENANT) != before)
        raise Unavailable("the broker is gone")

    with pytest.raises(Unavailable):
        await follow_outcomes(receipts(), epochs, decode=Codec(IndexOutcome).decode)

    assert ended == [False, False, True, True]
    assert epochs.now(TENANT) is None


class Held:
    """A store whose searches wait until they are let go."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind
        self.arrived = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def dense(self, *args: Any, **kwargs: Any) -> Any:
        self.arrived.release()
        await self.go_on.wait()
        return await self._behind.dense(*args, **kwargs)


async def test_options_that_change_while_four_questions_are_in_flight_count_for_the_next_one(world: World) -> None:
    held = Held(world.index)
    service = Service(world, store=held)
    words = ("antrag", "gebühr", "amt", "schriftlich")
    asking = [asyncio.create_task(service.ask(f"Was ist {word}?")) for word in words]
    for _ in words:
        await held.arrived.acquire()

    fewer = replace(OPTIONS, cached=True, reranker=RerankerChoice.NONE, top_k=1)
    service.remembering.take_over(QueryDefaults(options=fewer), BoundedCache("answers", most_bytes=1 << 20, seconds=60))
    held.go_on.set()
    begun = await asyncio.gather(*asking)
    # The same questions: what those in flight remembered is not given again.
    later = [await service.ask(f"Was ist {word}?") for word in words]
    again = await service.ask(f"Was ist {words[0]}?")

    assert [len(result.hits) for result in begun] == [3] * 4
    assert [(len(result.hits), result.cached_ms) for result in later] == [(1, None)] * 4
    assert len(again.hits) == 1
    assert again.cached_ms is not None
