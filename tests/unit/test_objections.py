"""Objections: from their topic into every search, and out again."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.milvus.filters import scope_expression
from freki.operators.identify import root_id
from freki.schemas import (
    ContextQuery,
    Coverage,
    DocumentChange,
    DocumentId,
    Notice,
    Objection,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
    VersionFloor,
)
from freki.schemas.avro import Codec
from freki.schemas.index import Exclusions, RerankPair, Scope
from freki.streams.privacy.current_cases import case_key
from freki.streams.privacy.objections import NOTHING, Objections
from freki.streams.retrieve.budget.attempts import FINISHING
from freki.streams.retrieve.retriever import Retriever
from freki.streams.wire.from_settings import wall_clock
from tests.unit.deliveries import Event
from tests.unit.pipelines import Pipeline

CODEC = Codec(Objection)
T, U = TenantId("t"), TenantId("u")
A, B = DocumentId("a"), DocumentId("b")


def objection(name: str, covers: Coverage, tenant: TenantId = T) -> Objection:
    return Objection(tenant=tenant, name=name, covers=covers, reason="r", recorded_by="test", recorded_at=Timestamp(1))


def event(
    name: str, covers: Coverage | None, offset: int, *, tenant: TenantId = T, value: bytes | None = None
) -> Event:
    if covers is not None:
        value = CODEC.encode(objection(name, covers, tenant))
    return Event(topic="objections", key=case_key(tenant, name), value=value, offset=offset)


def taken(events: Sequence[Event], objections: Objections | None = None) -> Objections:
    objections = objections or Objections()
    for each in events:
        objections.take(each, CODEC.decode)
    return objections


def test_an_objection_counts_for_its_tenant_until_it_is_lifted() -> None:
    objections = taken([event("one", Coverage(documents=(A,)), 0), event("two", Coverage(attributes={"k": "v"}), 1)])

    left_out = objections.left_out(T)
    assert left_out == Exclusions(roots=(root_id(T, A),), attributes=((("k", "v"),),))
    assert objections.left_out(U) is NOTHING

    taken([event("one", None, 2)], objections)
    assert objections.left_out(T) == Exclusions(attributes=((("k", "v"),),))
    taken([event("two", None, 3)], objections)
    assert objections.left_out(T) is NOTHING


def test_what_cannot_be_read_leaves_out_its_whole_tenant_until_it_is_lifted() -> None:
    foreign = CODEC.encode(objection("one", Coverage(documents=(A,)), U))
    for value in (b"\xff", foreign):
        objections = taken([event("one", None, 0, value=value)])
        assert objections.left_out(T) == Exclusions(everything=True)
        assert objections.left_out(U) is NOTHING
        taken([event("one", None, 1)], objections)
        assert objections.left_out(T) is NOTHING


def test_an_objection_that_the_store_cannot_compare_fails_no_search() -> None:
    # Searches have the scopes of many tenants: one that is refused fails them all.
    nameless = {"": "x"}
    objections = taken(
        [event("one", Coverage(attributes=nameless), 0), event("two", Coverage(attributes={"k": "v", **nameless}), 1)]
    )

    left_out = objections.left_out(T)

    scope = Scope(tenant=T, principals=(), levels=(1,), filters=(), left_out=left_out)
    assert scope_expression(scope) == scope_expression(replace(scope, left_out=NOTHING))
    assert not left_out.has(root_id(T, A), {"k": "v"})


def test_a_record_without_a_readable_key_changes_nothing() -> None:
    for key in (None, b"", b"\xff", b'["t"]', b'["t", 1]', b"[" * 100_000):
        assert taken([Event(topic="objections", key=key, value=b"x", offset=0)]).left_out(T) is NOTHING


@given(
    events=st.lists(
        st.tuples(st.sampled_from(["one", "two"]), st.none() | st.sampled_from([A, B]), st.sampled_from([T, U])),
        max_size=6,
    ),
    again=st.integers(0, 6),
)
def test_what_is_read_again_has_no_effect(events: list[tuple[str, DocumentId | None, TenantId]], again: int) -> None:
    records = [
        event(name, None if document is None else Coverage(documents=(document,)), offset, tenant=tenant)
        for offset, (name, document, tenant) in enumerate(events)
    ]
    objections = taken(records)
    expected = {tenant: objections.left_out(tenant) for tenant in (T, U)}

    taken(records[:again], objections)

    assert {tenant: objections.left_out(tenant) for tenant in (T, U)} == expected


def test_whoever_remembers_answers_is_told_of_each_change() -> None:
    objections, told = Objections(), list[TenantId]()
    objections.listeners.append(told.append)

    taken([event("one", Coverage(documents=(A,)), 0), event("one", None, 1), event("x", None, 2, tenant=U)], objections)
    objections.opened({0: 1})

    assert told == [T, T, U]


def document(name: str, text: str, **attributes: str) -> DocumentChange:
    return DocumentChange(
        tenant=T,
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(1),
        principals=("everyone",),
        media_type="text/plain",
        attributes=attributes,
        content=text,
    )


async def test_answers_are_those_of_an_index_without_the_documents_and_have_them_again() -> None:
    objections = Objections()
    texts = {
        "a": "Ada entscheidet über den Antrag auf Urlaub.",
        "b": "Der Rat entscheidet über den Antrag der Gemeinde.",
        "c": "Die Kasse entscheidet über den Antrag auf Zahlung.",
    }
    here, without = Pipeline(left_out=objections.left_out), Pipeline()
    await here.publish(*(document(name, text, who=name) for name, text in texts.items()))
    await without.publish(*(document(name, texts[name], who=name) for name in "bc"))

    async def hits(pipeline: Pipeline) -> list[str]:
        query = ContextQuery(
            query_id=QueryId("q"), tenant=T, text="Wer entscheidet über den Antrag?", asked_at=wall_clock()
        )
        return [hit.document_id for hit in (await pipeline.ask(query)).hits]

    before = await hits(here)
    assert set(before) == set("abc")
    for covers in (Coverage(documents=(A,)), Coverage(attributes={"who": "a"})):
        offset = len(before) + 10 * bool(covers.attributes)
        taken([event("one", covers, offset)], objections)
        assert sorted(await hits(here)) == sorted(await hits(without)) == ["b", "c"]
        taken([event("one", None, offset + 1)], objections)
        assert await hits(here) == before
    taken([event("one", Coverage(whole_tenant=True), 100)], objections)
    assert await hits(here) == []


async def test_an_objection_counts_for_a_query_that_waited_for_a_version_when_it_was_made() -> None:
    objections, begun = Objections(), asyncio.Event()

    def left_out(tenant: TenantId) -> Exclusions:
        begun.set()
        return objections.left_out(tenant)

    here = Pipeline(left_out=left_out)
    await here.publish(document("a", "Ada entscheidet über den Antrag."))
    query = ContextQuery(
        query_id=QueryId("q"),
        tenant=T,
        text="Wer entscheidet über den Antrag?",
        asked_at=wall_clock(),
        deadline_ms=60_000,
        at_least=(VersionFloor(document_id=B, version=1),),
    )
    waiting = asyncio.create_task(here.ask(query))
    await begun.wait()
    taken([event("one", Coverage(documents=(A,)), 0)], objections)
    await here.publish(document("b", "Der Rat entscheidet über den Antrag."))

    assert [hit.document_id for hit in (await waiting).hits] == [B]


class Objecting:
    """A reranker that takes objections while it scores."""

    name = "local"

    def __init__(self, objections: Objections, *events: Event) -> None:
        self._objections, self._events = objections, events

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:  # noqa: ARG002
        taken(self._events, self._objections)
        return [0.9 for _ in pairs]


@pytest.mark.parametrize(
    ("covers", "shown"),
    [
        # The best of documents with the same text stands for the others, and is found in its place.
        (Coverage(documents=(A,)), [B, DocumentId("copy")]),
        (Coverage(documents=(DocumentId("copy"),)), [A, B]),
        (Coverage(attributes={"who": "a"}), [B]),
        (Coverage(whole_tenant=True), []),
    ],
)
async def test_an_objection_counts_for_a_query_whose_candidates_were_found_before(
    covers: Coverage, shown: list[DocumentId]
) -> None:
    objections = Objections()
    here = Pipeline(left_out=objections.left_out, rerankers=[Objecting(objections, event("one", covers, 0))])
    text = "Ada entscheidet über den Antrag auf Urlaub."
    await here.publish(
        document("a", text, who="a"),
        document("copy", text, who="a"),
        document("b", "Der Rat entscheidet über den Antrag der Gemeinde."),
    )

    query = ContextQuery(
        query_id=QueryId("q"), tenant=T, text="Wer entscheidet über den Antrag?", asked_at=wall_clock(), explain=True
    )
    result = await here.ask(query)

    duplicates = [each.document_id for hit in result.hits for each in hit.duplicates]
    assert sorted([*(hit.document_id for hit in result.hits), *duplicates]) == shown
    assert {each.document_id for each in result.citations} <= set(shown)
    assert result.explanation is not None
    assert {each.document_id for each in result.explanation.hits} <= set(shown)


async def test_waiting_for_a_version_does_not_tell_that_a_document_is_there() -> None:
    objections = taken([event("one", Coverage(documents=(A,)), 0)])
    here, without = Pipeline(left_out=objections.left_out), Pipeline()
    await here.publish(document("a", "Ada entscheidet über den Antrag."), document("b", "Der Rat entscheidet."))
    await without.publish(document("b", "Der Rat entscheidet."))

    async def told(pipeline: Pipeline) -> Sequence[Notice]:
        retriever = pipeline.retrieving._retriever
        assert isinstance(retriever, Retriever)
        # As of a worker that has answered before: it stops waiting in time to answer.
        retriever._estimates.learn(FINISHING[0], 0.1)
        query = ContextQuery(
            query_id=QueryId("q"),
            tenant=T,
            text="Wer entscheidet über den Antrag?",
            asked_at=wall_clock(),
            deadline_ms=1_000,
            at_least=(VersionFloor(document_id=A, version=1),),
        )
        return [each for each in (await pipeline.ask(query)).notices if each.stage == "wait"]

    assert await told(here) == await told(without) != []


def test_a_lifted_objection_stays_lifted_in_whatever_order_added_partitions_are_read() -> None:
    raised = replace(event("one", Coverage(documents=(A,)), 5), timestamp_ms=1_000)
    lifted = replace(event("one", None, 0), partition=4, timestamp_ms=2_000)

    for order in ([raised, lifted], [lifted, raised]):
        assert taken(order).left_out(T) is NOTHING
