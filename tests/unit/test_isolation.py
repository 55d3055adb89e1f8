"""An asker gets the same whether documents that the asker may not read exist or not.

The law is that of two worlds: one has only what the asker may read. Results are compared as a whole, with notices,
advice, counts and traces, and so is what a language model is shown; left out is only how fresh the stream is, which is
one for all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.operators.ask_llm import WRITTEN
from freki.operators.identify import root_id
from freki.schemas import (
    EVERYONE,
    ContextQuery,
    DocumentId,
    QueryId,
    RequestKind,
    RerankerChoice,
    TenantId,
    Timestamp,
    VersionFloor,
    Widening,
    WidenWhen,
)
from freki.schemas.index import Exclusions, RerankPair
from tests.simulated_time import in_simulated_time
from tests.unit.isolation import (
    NAMES,
    NOW,
    ByLength,
    History,
    Model,
    Version,
    answers,
    clock_of_loop,
    cut_short,
    hidden,
    queries,
    stopped_clock,
    world,
    write,
    written,
)
from tests.unit.questions import ask, retriever
from tests.unit.revisions import TENANT


async def both(
    documents: Mapping[str, History],
    query: ContextQuery,
    *,
    clock: Callable[[], Callable[[], Timestamp]] = stopped_clock,
) -> None:
    """Ask in a world with everything, and in one without what the asker may not read."""
    full, without = world(), world()
    await write(full, documents)
    unseen = await hidden(full, documents, query.principals)
    await write(without, {name: history for name, history in documents.items() if name not in unseen})

    model, same = Model(), Model()
    assert await answers(full, [query], model, clock=clock) == await answers(without, [query], same, clock=clock)
    assert shown(model) == shown(same)


def shown(*models: Model) -> list[tuple[str, str]]:
    """Give what language models were shown, in no order."""
    return sorted((prompt.system, prompt.user) for model in models for prompt in model.shown)


@settings(max_examples=60)
@given(documents=st.dictionaries(NAMES, written, max_size=6), query=queries())
async def test_what_may_not_be_read_changes_nothing(documents: Mapping[str, History], query: ContextQuery) -> None:
    await both(documents, query)


@settings(max_examples=60)
@given(documents=st.dictionaries(NAMES, cut_short, max_size=6), query=queries())
async def test_nor_does_it_where_its_access_was_just_being_changed(
    documents: Mapping[str, History], query: ContextQuery
) -> None:
    # Deep enough that all candidates are looked at: those further down keep their part in the scale of scores.
    await both(documents, replace(query, candidates=None, top_k=12))


@settings(max_examples=60)
@given(
    documents=st.dictionaries(NAMES, written, max_size=4),
    others=st.dictionaries(NAMES, written | cut_short, min_size=1, max_size=4),
    query=queries(),
)
async def test_what_another_tenant_has_changes_nothing_also_under_the_same_ids(
    documents: Mapping[str, History], others: Mapping[str, History], query: ContextQuery
) -> None:
    full, without = world(), world()
    await write(full, others, tenant=TenantId("another"))
    for somewhere in (full, without):
        await write(somewhere, documents)

    model, same = Model(), Model()
    assert await answers(full, [query], model) == await answers(without, [query], same)
    assert shown(model) == shown(same)


@settings(max_examples=60)
@given(
    documents=st.dictionaries(NAMES, written, max_size=6),
    objected=st.sets(NAMES, min_size=1, max_size=3),
    query=queries(),
)
async def test_what_is_objected_to_changes_nothing(
    documents: Mapping[str, History], objected: set[str], query: ContextQuery
) -> None:
    full, without = world(), world()
    await write(full, documents)
    await write(without, {name: history for name, history in documents.items() if name not in objected})
    left_out = Exclusions(roots=tuple(sorted(root_id(TENANT, DocumentId(name)) for name in objected)))

    model, same = Model(), Model()
    assert await answers(full, [query], model, left_out=left_out) == await answers(without, [query], same)
    assert shown(model) == shown(same)


@settings(max_examples=60)
@given(
    documents=st.dictionaries(NAMES, written, max_size=6),
    query=queries().filter(lambda each: each.kind is not RequestKind.CHUNK_READ),
    kinds=st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=2).map(tuple),
)
async def test_nor_does_it_where_a_language_model_writes_and_grades(
    documents: Mapping[str, History], query: ContextQuery, kinds: Sequence[Widening]
) -> None:
    asks = replace(query, widen=tuple(kinds), widen_when=WidenWhen.ALWAYS, reranker=RerankerChoice.LLM)

    await both(documents, replace(asks, rerank_candidates=5))


@settings(max_examples=30)
@given(
    documents=st.dictionaries(NAMES, written, max_size=6),
    query=queries(),
    company=st.lists(queries(), min_size=1, max_size=3),
)
async def test_who_else_asks_at_the_same_time_changes_nothing(
    documents: Mapping[str, History], query: ContextQuery, company: Sequence[ContextQuery]
) -> None:
    somewhere = world()
    await write(somewhere, documents)

    models, together = [Model() for _ in (query, *company)], Model()
    [alone], *_ = [
        await answers(somewhere, [each], model) for each, model in zip([query, *company], models, strict=True)
    ]
    first, *_ = await answers(somewhere, [query, *company], together)

    assert first == alone
    assert shown(together) == shown(*models)


@settings(max_examples=20)
@given(documents=st.dictionaries(NAMES, written, max_size=3), query=queries(), wanted=st.sampled_from("abcdefgh"))
@in_simulated_time
async def test_waiting_for_a_version_does_not_tell_whether_it_exists(
    documents: Mapping[str, History], query: ContextQuery, wanted: str
) -> None:
    floor = VersionFloor(document_id=DocumentId(wanted), version=1)

    await both(documents, replace(query, at_least=(floor,), deadline_ms=300), clock=clock_of_loop)


@pytest.mark.parametrize("kind", WRITTEN)
async def test_a_language_model_is_shown_the_question_and_what_its_asker_may_read(kind: Widening) -> None:
    somewhere, model = world(), Model()
    texts = {"a": ("antrag amt frist", ("anna",)), "b": ("antrag amt geheimnis", ("ben",))}
    await write(
        somewhere,
        {
            name: History((Version((text,), readers, {}),), dies_at=None, after=False)
            for name, (text, readers) in texts.items()
        },
    )
    query = ContextQuery(
        query_id=QueryId("q"),
        tenant=TENANT,
        text="antrag amt",
        asked_at=NOW,
        principals=("anna",),
        widen=(kind, Widening.TERMS),
        widen_when=WidenWhen.ALWAYS,
        reranker=RerankerChoice.LLM,
    )

    [answer] = await answers(somewhere, [query], model)

    assert [hit["document_id"] for hit in answer["hits"]] == ["a"]
    assert kind in answer["widened"]
    prompts = [prompt.user for prompt in model.shown]
    assert [("antrag amt" in prompt, "antrag amt frist" in prompt) for prompt in prompts] == [
        (True, False),
        (True, True),
    ]
    assert "geheimnis" not in str(model.shown)


async def test_the_reranker_reads_only_what_may_be_read() -> None:
    read: list[RerankPair] = []

    class Reading(ByLength):
        async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
            read.extend(pairs)
            return await super().score(pairs, budget_s=budget_s)

    somewhere = world()
    for name, readers in (("a", ("board", "anna")), ("b", ("ben",)), ("c", (EVERYONE,))):
        history = History((Version((f"antrag amt {name}",), readers, {}),), dies_at=None, after=False)
        await write(somewhere, {name: history})

    await ask(retriever(somewhere, rerankers=[Reading()]), "antrag amt", principals=("anna",))

    assert {pair.text for pair in read} == {"a\nantrag amt a", "c\nantrag amt c"}
