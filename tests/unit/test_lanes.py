from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.streams.deliver import or_tombstone
from freki.streams.lanes import Lane, lane_of, priority_in
from tests.unit.deliveries import Event

CODEC = Codec(DocumentChange)
DECODE = or_tombstone(CODEC.decode)


def stored(operation: Operation = Operation.UPSERT, priority: int = 0, header: bytes | None = None) -> Event:
    change = DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId("d"),
        operation=operation,
        version=1,
        occurred_at=Timestamp(1),
        priority=priority,
        content="Text" if operation is Operation.UPSERT else None,
    )
    headers = () if header is None else (("freki-priority", header),)
    return Event(key=b"acme/d", value=CODEC.encode(change), headers=headers)


def test_deletions_are_urgent_whatever_their_producer_knows_of_priorities() -> None:
    assert lane_of(stored(Operation.DELETE), DECODE) is Lane.EXPRESS
    assert lane_of(Event(value=None), DECODE) is Lane.EXPRESS


def test_a_change_is_urgent_by_its_field_or_by_its_header() -> None:
    assert lane_of(stored(), DECODE) is Lane.REGULAR
    assert lane_of(stored(priority=-1), DECODE) is Lane.REGULAR
    assert lane_of(stored(priority=1), DECODE) is Lane.EXPRESS
    assert lane_of(stored(header=b"1"), DECODE) is Lane.EXPRESS
    assert lane_of(stored(priority=1, header=b"0"), DECODE) is Lane.EXPRESS


@given(value=st.one_of(st.none(), st.binary(max_size=40)), key=st.one_of(st.none(), st.just(b"k")), header=st.binary())
def test_every_record_begins_in_one_lane(value: bytes | None, key: bytes | None, header: bytes) -> None:
    record = Event(key=key, value=value, headers=(("freki-priority", header),))

    assert lane_of(record, DECODE) in {Lane.EXPRESS, Lane.REGULAR}


@given(header=st.binary(max_size=30))
def test_a_header_that_is_no_number_counts_for_nothing(header: bytes) -> None:
    priority = priority_in((("freki-priority", header),))

    assert priority == (int(header) if header.isdigit() and len(header) < 19 else 0)
