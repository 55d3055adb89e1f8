"""Versions that changes get where their producer names none."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import NoOpTracer

from freki.client.versions import Versions
from freki.schemas import DocumentChange, DocumentId, IndexOutcome, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.streams.client import Publisher, ReceiptBoard
from freki.streams.deliver.outbox import Outbox
from tests.unit.deliveries import FakeProducer
from tests.unit.questions import gateway_of

NOW = Timestamp(1_700_000_000_000)


def change(document_id: str = "d", version: int = 0) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(document_id),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(0),
        content="x",
    )


async def nothing_stored() -> Any:
    await asyncio.Event().wait()
    yield


async def test_changes_of_one_document_at_one_time_have_versions_of_their_own() -> None:
    broker = FakeProducer()
    codec = Codec(DocumentChange)
    publisher = Publisher(
        outbox=Outbox(broker, NoOpTracer()), encode=codec.encode, topic="documents", claims=None, inline_bytes=1000
    )
    async with ReceiptBoard(nothing_stored(), Codec(IndexOutcome).decode) as receipts:
        gateway = gateway_of(publisher=publisher, receipts=receipts, now=lambda: NOW)
        await asyncio.gather(*(gateway.publish(change(each), wait_s=0) for each in ("a", "a", "b", "a")))

    sent = [codec.decode(each.value) for each in broker.sent if each.value is not None]
    assert sorted((each.document_id, each.version) for each in sent) == [
        ("a", NOW),
        ("a", NOW + 1),
        ("a", NOW + 2),
        ("b", NOW),
    ]
    assert {each.occurred_at for each in sent} == {NOW}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=40))
def test_versions_of_a_document_grow_and_are_ahead_of_the_time_by_no_more_than_needed(
    published: list[tuple[str, int]],
) -> None:
    versions, now, last = Versions(), NOW, {"a": 0, "b": 0, "c": 0}
    for document, later_ms in published:
        now = Timestamp(now + later_ms)
        version = versions.of(change(document), now=now)
        assert version == max(now, last[document] + 1)
        last[document] = version


def test_versions_of_a_document_grow_also_after_the_clock_was_set_back() -> None:
    versions = Versions()
    versions.of(change("a"), now=NOW)
    versions.of(change("b"), now=Timestamp(NOW + 1_000))

    assert versions.of(change("a"), now=Timestamp(NOW - 60_000)) == NOW + 1


def test_what_the_producer_names_is_kept() -> None:
    versions = Versions()
    assert [versions.of(change(version=7), now=NOW) for _ in range(2)] == [7, 7]
