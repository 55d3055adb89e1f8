import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from opentelemetry.trace import NoOpTracer

from freki.client.exchange import NotSent, ReceiptBoard, patience_of
from freki.client.messages import Outgoing
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.errors import Rejected
from freki.streams.client import Asker, Publisher, Receipts
from freki.streams.deliver.outbox import Outbox, Sink
from tests.simulated_time import in_simulated_time
from tests.unit.deliveries import FakeProducer
from tests.unit.evaluations import result
from tests.unit.published import Record
from tests.unit.questions import gateway_of
from tests.unit.receipts import a_receipt

PATIENCE_S = 60.0
CHANGE = DocumentChange(
    tenant=TenantId("t"),
    document_id=DocumentId("d"),
    operation=Operation.UPSERT,
    version=1,
    occurred_at=Timestamp(0),
    content="x",
)
QUERY = ContextQuery(query_id=QueryId("q1"), tenant=TenantId("t"), text="Was?", asked_at=Timestamp(0))
OF_A_LATER_CONTRACT = b"\xc3\x01" + bytes(range(1, 9)) + b"later"


async def records(*outcomes: IndexOutcome) -> AsyncIterator[Record]:
    codec = Codec(IndexOutcome)
    for outcome in outcomes:
        yield Record(key=b"t/d", value=codec.encode(outcome))


async def received(*outcomes: IndexOutcome, expected: int) -> list[OutcomeStatus]:
    receipts = Receipts(records(*outcomes), Codec(IndexOutcome).decode)
    for _ in range(expected):
        receipts.expect(CHANGE)
    async with receipts:
        return [(await receipts.next(patience_s=PATIENCE_S)).status for _ in range(expected)]


async def test_a_deletion_never_has_the_key_of_a_document_of_another_tenant() -> None:
    broker = FakeProducer()
    publisher = Publisher(
        outbox=Outbox(broker, NoOpTracer()),
        encode=Codec(DocumentChange).encode,
        topic="documents",
        claims=None,
        inline_bytes=1000,
    )
    of_other = replace(CHANGE, tenant=TenantId("acme/hr"), operation=Operation.DELETE, content=None)

    with pytest.raises(Rejected, match="tenant: 'acme/hr' holds '/'"):
        await publisher.publish(CHANGE, of_other)

    assert broker.sent == []


async def test_the_doors_refuse_a_change_of_no_document() -> None:
    for name in ("", " "):
        with pytest.raises(Rejected, match="document_id: it is empty"):
            await gateway_of().publish(replace(CHANGE, document_id=DocumentId(name)), wait_s=0)


async def test_a_version_that_is_published_twice_has_two_receipts() -> None:
    first, second = a_receipt(OutcomeStatus.INDEXED), a_receipt(OutcomeStatus.STALE)

    assert await received(first, second, expected=2) == [OutcomeStatus.INDEXED, OutcomeStatus.STALE]


async def test_a_deletion_is_not_confirmed_by_the_receipt_of_the_version_that_it_deletes() -> None:
    # As an erasure deletes: the last version that it knows, which may still be under way.
    deletion = replace(CHANGE, operation=Operation.DELETE, content=None)
    indexed, deleted = a_receipt(OutcomeStatus.INDEXED), a_receipt(OutcomeStatus.DELETED)
    receipts = Receipts(records(indexed, deleted), Codec(IndexOutcome).decode)
    receipts.expect(deletion)
    board = ReceiptBoard(records(indexed, deleted), Codec(IndexOutcome).decode)
    receipt = board.expect(deletion)

    async with receipts, board:
        assert (await receipts.next(patience_s=PATIENCE_S)).status is OutcomeStatus.DELETED
        assert (await board.first(receipt, patience_s=PATIENCE_S)).status is OutcomeStatus.DELETED


@pytest.mark.parametrize("status", [OutcomeStatus.STALE, OutcomeStatus.REJECTED])
async def test_a_receipt_that_does_not_tell_its_operation_is_that_of_the_upsert_if_both_wait(
    status: OutcomeStatus,
) -> None:
    deletion = replace(CHANGE, operation=Operation.DELETE, content=None)
    told = [a_receipt(OutcomeStatus.DELETED), a_receipt(status)]
    board = ReceiptBoard(records(*told), Codec(IndexOutcome).decode)
    both = board.expect(CHANGE), board.expect(deletion)
    receipts = Receipts(records(*reversed(told)), Codec(IndexOutcome).decode)
    receipts.expect(deletion)
    receipts.expect(CHANGE)

    async with board, receipts:
        of_both = [(await board.first(each, patience_s=PATIENCE_S)).status for each in both]
        in_order = [(await receipts.next(patience_s=PATIENCE_S)).status for _ in both]

    assert of_both == [status, OutcomeStatus.DELETED]
    assert in_order == [status, OutcomeStatus.DELETED]


async def test_a_receipt_that_comes_again_is_not_that_of_another_change() -> None:
    again, other = a_receipt(OutcomeStatus.INDEXED), a_receipt(OutcomeStatus.INDEXED, document_id=DocumentId("e"))

    receipts = Receipts(records(again, again, other), Codec(IndexOutcome).decode)
    receipts.expect(CHANGE)
    async with receipts:
        await receipts.next(patience_s=PATIENCE_S)
        with pytest.raises(TimeoutError, match="nothing came within 0 s"):
            await receipts.next(patience_s=0.0)


async def test_a_change_that_has_its_receipts_is_forgotten() -> None:
    # `freki watch` expects changes as long as it runs.
    receipts = Receipts(records(*[a_receipt(OutcomeStatus.INDEXED)] * 3), Codec(IndexOutcome).decode)
    receipts.expect(CHANGE)
    receipts.expect(CHANGE)
    async with receipts:
        await receipts.next(patience_s=PATIENCE_S)
        await receipts.next(patience_s=PATIENCE_S)

    assert not receipts._expected


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param((None, b"", b"garbage", b"\xc3\x01"), id="damaged"),
        pytest.param((OF_A_LATER_CONTRACT, b"\x00\x00\x00\x00\x09later"), id="of unknown contracts"),
        pytest.param((Codec(DocumentChange).encode(CHANGE),), id="another record"),
    ],
)
async def test_receipts_are_found_among_records_that_can_not_be_decoded(
    garbage: tuple[bytes | None, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async def with_garbage() -> AsyncIterator[Record]:
        for value in garbage:
            yield Record(key=b"t/d", value=value)
        async for record in records(a_receipt(OutcomeStatus.INDEXED)):
            yield record

    receipts = Receipts(with_garbage(), Codec(IndexOutcome).decode)
    receipts.expect(CHANGE)
    board = ReceiptBoard(with_garbage(), Codec(IndexOutcome).decode)
    receipt = board.expect(CHANGE)
    async with receipts, board:
        first = await receipts.next(patience_s=PATIENCE_S)
        second = await board.first(receipt, patience_s=PATIENCE_S)

    assert (first.status, second.status) == (OutcomeStatus.INDEXED, OutcomeStatus.INDEXED)
    assert "record skipped, 1 since the start of reading: " in caplog.text


async def test_an_answer_that_can_not_be_decoded_is_told_to_its_asker_and_others_get_theirs() -> None:
    queried, answer = asyncio.Event(), result(QUERY, [])

    async def answers() -> AsyncIterator[Record]:
        await queried.wait()
        yield Record(key=b"q1", value=OF_A_LATER_CONTRACT)
        yield Record(key=b"q2", value=Codec(ContextResult).encode(answer))
        await asyncio.Event().wait()

    queries = Sink(Outbox(FakeProducer(), NoOpTracer()), "queries", Codec(ContextQuery).encode)
    async with Asker(
        queries=queries, answers=[answers()], decode=Codec(ContextResult).decode, tracer=NoOpTracer()
    ) as asker:
        waiting = [
            asyncio.create_task(asker.ask(replace(QUERY, query_id=QueryId(name)), patience_s=PATIENCE_S))
            for name in ("q1", "q2")
        ]
        # The first step of each task registers its question.
        await asyncio.sleep(0)
        queried.set()
        with pytest.raises(UndecodableError, match="0102030405060708"):
            await waiting[0]
        assert await waiting[1] == answer
        assert asker.is_reading


@in_simulated_time
async def test_a_question_that_the_broker_does_not_take_is_told_from_one_without_an_answer() -> None:
    class Stuck:
        async def send(self, *_: Outgoing) -> None:
            await asyncio.Event().wait()

    async def silence() -> AsyncIterator[Record]:
        await asyncio.Event().wait()
        yield Record(key=b"", value=b"")

    cases = (
        (Stuck(), NotSent, "is Kafka up"),
        (Outbox(FakeProducer(), NoOpTracer()), TimeoutError, "does a worker run"),
    )
    for outbox, kind, told in cases:
        queries = Sink(outbox, "queries", Codec(ContextQuery).encode)
        asker = Asker(queries=queries, answers=[silence()], decode=Codec(ContextResult).decode, tracer=NoOpTracer())
        async with asker:
            with pytest.raises(TimeoutError, match=told) as raised:
                await asker.ask(QUERY, patience_s=0.1)
        assert raised.type is kind


async def test_a_question_whose_id_still_waits_is_refused_by_name() -> None:
    async def silence() -> AsyncIterator[Record]:
        await asyncio.Event().wait()
        yield Record(key=b"", value=b"")

    producer = FakeProducer()
    queries = Sink(Outbox(producer, NoOpTracer()), "queries", Codec(ContextQuery).encode)
    asker = Asker(queries=queries, answers=[silence()], decode=Codec(ContextResult).decode, tracer=NoOpTracer())
    async with asker:
        first = asyncio.create_task(asker.ask(QUERY, patience_s=PATIENCE_S))
        # The first step of the task registers the question.
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="q1 still waits"):
            await asker.ask(QUERY, patience_s=PATIENCE_S)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


@pytest.mark.parametrize(("deadline_ms", "patience_s"), [(-5, 1.0), (0, 1.0), (5_000, 6.0), (10**400, 601.0)])
def test_a_deadline_out_of_bounds_is_left_to_the_worker_to_refuse(deadline_ms: int, patience_s: float) -> None:
    assert patience_of(deadline_ms) == patience_s
