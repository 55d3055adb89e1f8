from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec, packaged_contracts
from freki.streams.deliver.intake import Decode, or_tombstone
from freki.streams.deliver.lanes import Lane, lanes_of, priority_in
from freki.streams.messages import REINDEX_HEADER, Received, Stored
from tests.unit.deliveries import Bench, Event

CODEC = Codec(DocumentChange)
DECODE = or_tombstone(CODEC.decode)


def change(operation: Operation = Operation.UPSERT, priority: int = 0) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId("d"),
        operation=operation,
        version=1,
        occurred_at=Timestamp(1),
        priority=priority,
        content="Text" if operation is Operation.UPSERT else None,
    )


CHANGE = change()


def stored(operation: Operation = Operation.UPSERT, priority: int = 0, header: bytes | None = None) -> Event:
    headers = () if header is None else (("freki-priority", header),)
    return Event(key=b"acme/d", value=CODEC.encode(change(operation, priority)), headers=headers)


def test_deletions_are_urgent_whatever_their_producer_knows_of_priorities() -> None:
    assert lanes_of(stored(Operation.DELETE), DECODE) == {Lane.EXPRESS}
    assert lanes_of(Event(value=None), DECODE) == {Lane.EXPRESS}


def test_a_change_is_urgent_by_its_field_or_by_its_header() -> None:
    assert lanes_of(stored(), DECODE) == {Lane.REGULAR}
    assert lanes_of(stored(priority=-1), DECODE) == {Lane.REGULAR}
    assert lanes_of(stored(priority=1), DECODE) == {Lane.EXPRESS}
    assert lanes_of(stored(header=b"1"), DECODE) == {Lane.EXPRESS}
    assert lanes_of(stored(priority=1, header=b"0"), DECODE) == {Lane.EXPRESS}


def test_a_version_that_is_made_anew_overtakes_nothing() -> None:
    urgent = stored(priority=1, header=b"1")
    requested = Event(key=urgent.key, value=urgent.value, headers=(*urgent.headers, (REINDEX_HEADER, b"1732385959000")))

    assert lanes_of(urgent, DECODE) == {Lane.EXPRESS}
    assert lanes_of(requested, DECODE) == {Lane.REGULAR}


@given(value=st.one_of(st.none(), st.binary(max_size=40)), key=st.one_of(st.none(), st.just(b"k")), header=st.binary())
def test_every_record_is_some_lane_s(value: bytes | None, key: bytes | None, header: bytes) -> None:
    record = Event(key=key, value=value, headers=(("freki-priority", header),))

    assert lanes_of(record, DECODE) in ({Lane.EXPRESS}, {Lane.REGULAR}, {Lane.EXPRESS, Lane.REGULAR})


@pytest.mark.parametrize(
    "value", [b"", b"junk", b"\x00\xff\xff\xff\xffjunk", CODEC.encode(CHANGE)[:-3], CODEC.encode(CHANGE) + b"junk"]
)
def test_what_nobody_can_ever_decode_has_one_dead_letter(value: bytes) -> None:
    assert lanes_of(Event(value=value), DECODE) == {Lane.REGULAR}


@pytest.mark.parametrize("value", [b"\x00\x00\x00\x00\x07", b"\xc3\x01" + b"\x07" * 8 + b"later"])
def test_what_another_process_may_decode_is_left_to_none(value: bytes) -> None:
    assert lanes_of(Event(value=value), DECODE) == {Lane.EXPRESS, Lane.REGULAR}


class Registry:
    """Knows a schema from some moment on."""

    def __init__(self) -> None:
        self.known = False

    def id_of(self, record: str) -> int:
        raise KeyError(record)

    def schema_of(self, schema_id: int) -> str | None:
        return packaged_contracts().current("DocumentChange").text if self.known and schema_id == 7 else None


def takes(lane: Lane, decode: Decode[DocumentChange | None], stored: Stored) -> bool:
    return lane in lanes_of(stored, decode)


@given(
    operation=st.sampled_from(Operation),
    express_knows=st.booleans(),
    regular_knows=st.booleans(),
    order=st.permutations([Lane.EXPRESS, Lane.REGULAR]),
)
async def test_whatever_the_lanes_know_of_schemas_some_lane_takes_each_change(
    operation: Operation, *, express_knows: bool, regular_knows: bool, order: list[Lane]
) -> None:
    event = Event(key=b"acme/d", value=b"\x00\x00\x00\x00\x07" + CODEC.encode(change(operation))[10:])
    bench, taken = Bench(), list[Lane]()
    knows = {Lane.EXPRESS: express_knows, Lane.REGULAR: regular_knows}

    for lane in order:
        registry = Registry()
        registry.known = knows[lane]
        decode = or_tombstone(Codec(DocumentChange, registry=registry).decode)

        async def handle(batch: Sequence[Received[DocumentChange | None]], lane: Lane = lane) -> None:
            taken.extend(lane for _ in batch)

        delivery = bench.delivery(
            decode=decode,
            handle=handle,
            accepts=partial(takes, lane, decode),
        )
        await delivery.deliver([event], group="g")

    own = Lane.EXPRESS if operation is Operation.DELETE else Lane.REGULAR
    unknown = [lane for lane in order if not knows[lane]]
    assert len(bench.dead) == len(unknown)
    assert taken == ([own] if knows[own] else [])
    assert bench.dead or taken


@given(header=st.binary(max_size=30))
def test_a_header_that_is_no_number_counts_for_nothing(header: bytes) -> None:
    priority = priority_in((("freki-priority", header),))

    assert priority == (int(header) if header.isdigit() and len(header) < 19 else 0)
