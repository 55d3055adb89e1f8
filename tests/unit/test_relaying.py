import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from opentelemetry.context import Context

from freki.operators.errors import InvalidChange, InvalidEnvelope
from freki.operators.map_envelope import Envelope
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import schema_id_of
from freki.streams.deliver.dead_letters import replay
from freki.streams.feed.relay import from_avro, relay_handler
from freki.streams.messages import Received
from tests.unit.deliveries import dead_letter


def received(text: str) -> Received[bytes | None]:
    return Received(
        value=text.encode(),
        key=b"k",
        headers=(),
        topic="shop",
        partition=0,
        offset=3,
        timestamp=Timestamp(5),
        trace=Context(),
    )


def mapped(envelope: Envelope) -> list[DocumentChange]:
    text = (envelope.value or b"").decode()
    if text == "bad":
        raise InvalidEnvelope("bad")
    if text == "nothing":
        return []
    return [
        DocumentChange(
            tenant=TenantId("t"),
            document_id=DocumentId(text),
            operation=Operation.DELETE,
            version=envelope.offset,
            occurred_at=envelope.timestamp,
        )
    ]


class Published(list[str]):
    async def take(self, *changes: DocumentChange) -> None:
        self.extend(change.document_id for change in changes)


async def test_what_records_tell_of_is_published_in_order() -> None:
    published = Published()

    await relay_handler(mapped, published.take)([received("b"), received("nothing"), received("a")])

    assert published == ["b", "a"]


async def test_a_dead_letter_that_is_sent_again_is_no_newer_than_it_was() -> None:
    times = list[Timestamp]()

    async def take(*changes: DocumentChange) -> None:
        times.extend(change.occurred_at for change in changes)

    again = replay(dead_letter(timestamp=Timestamp(5)))
    await relay_handler(mapped, take)([replace(received("a"), headers=again.headers, timestamp=Timestamp(9))])

    assert times == [5]


@pytest.mark.parametrize(("keyed_by_row", "expected"), [(True, ["b"]), (False, ["b", "b"])])
async def test_only_of_tables_a_later_deletion_by_another_row_is_left_out(
    expected: list[str], *, keyed_by_row: bool
) -> None:
    published = Published()

    def changes_of(envelope: Envelope) -> list[DocumentChange]:
        [deletion] = mapped(envelope)
        return [replace(deletion, operation=Operation.UPSERT, content="b")] if envelope.key == b"k" else [deletion]

    handle = relay_handler(changes_of, published.take, keyed_by_row=keyed_by_row)
    await handle([received("b"), replace(received("b"), key=b"other")])

    assert published == expected


@pytest.mark.parametrize(("text", "error"), [("bad", InvalidEnvelope), ("x" * 600, InvalidChange)])
async def test_a_bad_record_among_others_publishes_none_of_them_twice(text: str, error: type[Exception]) -> None:
    published = Published()

    with pytest.raises(error):
        await relay_handler(mapped, published.take)([received("a"), received(text)])

    assert published == []


class Registry:
    """Knows a schema by its id, once asked for it."""

    def __init__(self) -> None:
        self.read: dict[int, str] = {}

    async def prepare(self, values: Iterable[bytes | None]) -> None:
        if any(value is not None and schema_id_of(value) == 7 for value in values):
            self.read[7] = SCHEMA

    def id_of(self, record: str) -> int:
        raise NotImplementedError

    def schema_of(self, schema_id: int) -> str | None:
        return self.read.get(schema_id)


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "long"}, {"name": "image", "type": ["null", "bytes"]}],
    }
)
HEADER = b"\x00\x00\x00\x00\x07"


def envelope(key: bytes | None, value: bytes | None) -> Envelope:
    return Envelope(key=key, value=value, headers=(), timestamp=Timestamp(5), offset=3)


async def test_avro_becomes_json_and_all_else_stays() -> None:
    decode = from_avro(Registry())

    (row, text, tombstone) = await decode(
        [
            envelope(HEADER + b"\x04\x00", HEADER + b"\x04\x02\x04\xff\x01"),
            envelope(b"k", b'{"id": 2}'),
            envelope(HEADER + b"\x04\x00", None),
        ]
    )

    assert (row.key, row.value) == (b'{"id": 2, "image": null}', b'{"id": 2, "image": "/wE="}')
    assert (text.key, text.value) == (b"k", b'{"id": 2}')
    assert tombstone.value is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x00\x00\x00\x00\x08\x04\x00", "schema id 8 is not in the schema registry"),
        (HEADER + b"\x04", "cut short"),
        (HEADER + b"\x04\x00\x00", "1 bytes follow"),
    ],
)
async def test_avro_that_cannot_be_read_is_a_bad_record(value: bytes, message: str) -> None:
    with pytest.raises(InvalidEnvelope, match=message):
        await from_avro(Registry())([envelope(HEADER + b"\x04\x00", None), envelope(None, value)])
