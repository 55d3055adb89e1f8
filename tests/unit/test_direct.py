"""Calls within the process: the handler of the retrieve stage answers them as it answers those of the topic."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.milvus.sealing import Sealer
from freki.infra.settings import AuthSettings, Settings
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentId,
    Filter,
    FilterOperator,
    NoticeKind,
    QueryId,
    RequestKind,
    ResultStatus,
    StageTime,
    TenantId,
    Timestamp,
    VersionFloor,
)
from freki.schemas.conditions import NO_PREFIX
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.index import Scope
from freki.schemas.query_options import QueryOptions
from freki.streams.messages import Received
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import UNTRACED
from freki.streams.retrieve.authenticate import Authenticator
from freki.streams.retrieve.direct import Batches, DirectAsker, Mailbox, Mailboxes
from freki.streams.retrieve.handler import QueryHandler
from freki.streams.retrieve.trace import Models, QueryTrace
from freki.streams.wire.direct import open_direct
from freki.streams.wire.reload import ReloadableParts
from tests.memory_index import MemoryIndex
from tests.received import received_query
from tests.simulated_time import in_simulated_time
from tests.unit.questions import TEXTS, gateway_of, now, retriever
from tests.unit.revisions import TENANT, World, revision


def question(query_id: str = "1", **given: Any) -> ContextQuery:
    usual: dict[str, Any] = {"tenant": TENANT, "text": TEXTS[0], "asked_at": now(), "deadline_ms": 60_000}
    return ContextQuery(query_id=QueryId(query_id), **usual | given)


class Sealing:
    """A store with encrypted names: what it refuses for one scope, it refuses for all scopes of the call."""

    def __init__(self, index: MemoryIndex) -> None:
        unused: Any = None
        self._index = index
        self._sealer = Sealer(unused)

    def __getattr__(self, name: str) -> Any:
        async def search(given: Any, scopes: Sequence[Scope], **options: Any) -> Any:
            for scope in scopes:
                self._sealer.scope(scope)
            return await getattr(self._index, name)(given, scopes, **options)

        return search if name in ("dense", "lexical", "visible") else getattr(self._index, name)


async def direct(store: Callable[[MemoryIndex], Any] | None = None, **given: Any) -> DirectAsker:
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    mailboxes = Mailboxes()
    handler = QueryHandler(
        retriever(world, None if store is None else store(world.index)),
        replies=mailboxes.results,
        reply_topics=(),
        max_query_chars=1_000,
        traces=QueryTrace(UNTRACED, models=Models(embedder="e", reranker=""), content=False),
        meters=Meters(),
        on_step=mailboxes.on_step,
        **given,
    )
    queries = Batches(handler.handle, mailboxes.results, most=16, in_flight=4)
    return DirectAsker(queries, mailboxes, tracer=UNTRACED, content=False, now=now)


async def test_a_call_is_answered_by_the_handler_of_the_topic() -> None:
    asker = await direct()

    results = await asyncio.gather(*(asker.ask(question(str(each)), patience_s=60) for each in range(40)))

    assert [result.query_id for result in results] == [str(each) for each in range(40)]
    assert {result.status for result in results} == {ResultStatus.COMPLETE}
    assert all(result.hits for result in results)


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"text": " "}, ResultStatus.REJECTED, "text: it is empty"),
        ({"text": "a" * 1_001}, ResultStatus.REJECTED, "more than 1000"),
        ({"alpha": 3.0}, ResultStatus.REJECTED, "alpha"),
        ({"asked_at": Timestamp(1)}, ResultStatus.EXPIRED, "its time had been over"),
    ],
)
async def test_a_call_is_refused_as_on_the_topic(given: dict[str, Any], status: ResultStatus, said: str) -> None:
    result = await (await direct()).ask(question(**given), patience_s=60)

    assert result.status is status
    assert said in result.notices[0].message


@pytest.mark.parametrize(
    "begins",
    [
        {"where": "NOT name STARTS WITH Hand"},
        {"filters": (Filter(field="name", operator=FilterOperator.PREFIX, values=("Hand",)),)},
    ],
)
@pytest.mark.parametrize("kind", [RequestKind.RETRIEVE, RequestKind.CHUNK_READ])
async def test_a_call_for_the_beginning_of_an_encrypted_name_is_refused_and_takes_no_hits_from_others_in_its_batch(
    begins: dict[str, Any], kind: RequestKind
) -> None:
    asks = {"kind": kind} | ({"document_ids": (DocumentId("a"),)} if kind is RequestKind.CHUNK_READ else {})
    asker = await direct(Sealing, encrypts_names=True)

    refused, answered = await asyncio.gather(
        asker.ask(question("1", **asks, **begins), patience_s=60), asker.ask(question("2", **asks), patience_s=60)
    )

    assert refused.status is ResultStatus.REJECTED
    assert NO_PREFIX in refused.notices[0].message
    assert answered.status is ResultStatus.COMPLETE
    assert answered.hits


@in_simulated_time
async def test_a_call_waits_for_a_version_until_its_deadline() -> None:
    floor = (VersionFloor(document_id=DocumentId("a"), version=9),)

    result = await (await direct()).ask(question(at_least=floor, deadline_ms=150), patience_s=60)

    assert NoticeKind.FRESHNESS in {notice.kind for notice in result.notices}


async def test_steps_are_heard_while_the_question_is_answered() -> None:
    heard: list[StageTime] = []
    asker = await direct()

    result = await asker.watch(question(), patience_s=60, token=None, heard=heard.append)
    await asker.ask(question("2"), patience_s=60)

    assert tuple(heard) == result.stages


async def test_a_stream_gives_each_step_before_the_answer_and_stops_when_nobody_listens() -> None:
    asker = await direct()
    gateway = gateway_of(asker=asker, watching=asker)

    events = [each async for each in gateway.stream(question(), token=None)]
    begun = gateway.stream(question(), token=None)
    await anext(begun)
    await begun.aclose()

    assert isinstance(events[-1], ContextResult)
    assert tuple(events[:-1]) == events[-1].stages
    assert not asker._mailboxes.heard


class Patient:
    """Asks nobody; keeps how long callers would wait."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    async def ask(self, _: ContextQuery, *, patience_s: float, **_token: str | None) -> ContextResult:
        self.waits_s.append(patience_s)
        raise TimeoutError


@pytest.mark.parametrize(("deadline_ms", "longest_s"), [(300, 1.3), (None, QueryOptions().deadline_ms / 1000 + 1)])
async def test_callers_of_a_query_that_nobody_answers_wait_a_second_beyond_its_deadline(
    deadline_ms: int | None, longest_s: float
) -> None:
    nobody = Patient()
    gateway = gateway_of(asker=nobody)

    with pytest.raises(TimeoutError):
        await gateway.ask(question(deadline_ms=deadline_ms), token=None)
    with pytest.raises(TimeoutError):
        await anext(gateway.stream(question(deadline_ms=deadline_ms), token=None))

    assert nobody.waits_s == [longest_s, longest_s]


async def test_a_deadline_below_0_is_refused_by_what_is_wrong_with_it() -> None:
    result = await gateway_of(asker=await direct()).ask(question(deadline_ms=-5000), token=None)

    assert result.status is ResultStatus.REJECTED
    assert "deadline_ms: -5000" in result.notices[0].message


async def test_over_a_topic_the_steps_come_with_the_answer() -> None:
    gateway = gateway_of(asker=await direct())

    events = [each async for each in gateway.stream(question(), token=None)]

    assert isinstance(events[-1], ContextResult)
    assert tuple(events[:-1]) == events[-1].stages


class Handler:
    """Answers a number with its double; may be slow, fail, or die of one number."""

    def __init__(self, mailbox: Mailbox[int], *, bad: int | None = None) -> None:
        self._mailbox = mailbox
        self._bad = bad
        self.batches: list[list[int]] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def __call__(self, batch: Sequence[Received[Any]]) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            self.batches.append([int(each.key) for each in batch])
            if any(int(each.key) == self._bad for each in batch):
                raise Unavailable("down")
            for each in batch:
                await self._mailbox.send(each, 2 * int(each.key), to="elsewhere", private=True)
        finally:
            self.in_flight -= 1


def received(number: int) -> Received[Any]:
    return replace(received_query(question(str(number)), ()), key=str(number).encode())


@given(
    calls=st.integers(1, 30), most=st.integers(1, 5), in_flight=st.integers(1, 3), bad=st.none() | st.integers(0, 29)
)
def test_each_caller_gets_its_own_answer_or_error_in_bounded_batches(
    calls: int, most: int, in_flight: int, bad: int | None
) -> None:
    mailbox: Mailbox[int] = Mailbox()
    handler = Handler(mailbox, bad=bad)
    batches = Batches(handler, mailbox, most=most, in_flight=in_flight)

    async def ask_all() -> list[int | BaseException]:
        asked = (batches.ask(received(number), patience_s=60) for number in range(calls))
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(ask_all())

    for number, answer in enumerate(answers):
        assert isinstance(answer, Unavailable) if number == bad else answer == 2 * number
    assert max(map(len, handler.batches)) <= most
    assert handler.most_in_flight <= in_flight


async def test_a_question_whose_caller_has_gone_is_not_asked() -> None:
    mailbox: Mailbox[int] = Mailbox()
    handler = Handler(mailbox)
    batches: Batches[Any, int] = Batches(handler, mailbox, most=1, in_flight=1)

    kept, gone = (asyncio.create_task(batches.ask(received(number), patience_s=60)) for number in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()

    assert await kept == 2
    await asyncio.wait({gone})
    assert await batches.ask(received(3), patience_s=60) == 6
    assert handler.batches == [[1], [3]]


async def test_who_waits_too_long_is_told_so() -> None:
    async def never(_: Sequence[Received[Any]]) -> None:
        await asyncio.Event().wait()

    batches: Batches[Any, int] = Batches(never, Mailbox(), most=1, in_flight=1)

    with pytest.raises(TimeoutError):
        await batches.ask(received(1), patience_s=0.01)


class Judge:
    """Knows one token."""

    async def identify(self, token: bytes) -> Identity | RefusalReason:
        known = Identity(tenant=TenantId(TENANT), principals=("ada",), subject="ada", token_id=None)
        return known if token == b"good" else RefusalReason.SIGNATURE


async def test_a_call_with_a_token_is_answered_in_the_name_of_who_asks_only() -> None:
    judge: Any = Judge()
    asker = await direct(authenticator=Authenticator(judge))

    answers = [await asker.ask(question(), patience_s=60, token=token) for token in (None, "bad", "good")]
    other = await asker.ask(question(tenant="other"), patience_s=60, token="good")  # noqa: S106 - no secret

    assert [answer.status for answer in answers] == [
        ResultStatus.REJECTED,
        ResultStatus.REJECTED,
        ResultStatus.COMPLETE,
    ]
    assert other.status is ResultStatus.REJECTED
    assert not any(answer.hits for answer in (*answers[:2], other))


async def test_tokens_that_serve_one_query_need_the_topic() -> None:
    auth = AuthSettings(jwks="keys.json", issuer="https://issuer.example.org", audience="freki", replay_window_s=60)

    with pytest.raises(Misconfigured, match="FREKI_SERVE__DIRECT"):
        async with open_direct(Settings(auth=auth), ReloadableParts()):
            pass
