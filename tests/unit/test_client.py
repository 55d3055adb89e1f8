from collections.abc import AsyncIterator

import pytest

from freki.schemas import DocumentChange, DocumentId, IndexOutcome, Operation, OutcomeStatus, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.streams.client import Receipts
from tests.unit.published import Record
from tests.unit.receipts import a_receipt

PATIENCE_S = 10.0
CHANGE = DocumentChange(
    tenant=TenantId("t"),
    document_id=DocumentId("d"),
    operation=Operation.UPSERT,
    version=1,
    occurred_at=Timestamp(0),
    content="x",
)


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


async def test_a_version_that_is_published_twice_has_two_receipts() -> None:
    first, second = a_receipt(OutcomeStatus.INDEXED), a_receipt(OutcomeStatus.STALE)

    assert await received(first, second, expected=2) == [OutcomeStatus.INDEXED, OutcomeStatus.STALE]


async def test_a_receipt_that_comes_again_is_not_that_of_another_change() -> None:
    again, other = a_receipt(OutcomeStatus.INDEXED), a_receipt(OutcomeStatus.INDEXED, document_id=DocumentId("e"))

    receipts = Receipts(records(again, again, other), Codec(IndexOutcome).decode)
    receipts.expect(CHANGE)
    async with receipts:
        await receipts.next(patience_s=PATIENCE_S)
        with pytest.raises(TimeoutError):
            await receipts.next(patience_s=0.0)
