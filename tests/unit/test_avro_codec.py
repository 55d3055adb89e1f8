import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    Filter,
    FilterOperator,
    IndexOutcome,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
    VersionFloor,
)
from freki.schemas.avro import (
    TOPICS,
    Codec,
    UndecodableError,
    UnencodableError,
    UnknownSchemaIdError,
    packaged_contracts,
)
from tests.strategies import records

CODECS: dict[type, Codec[Any]] = {record: Codec(record) for record in TOPICS}
CHANGE = DocumentChange(
    tenant=TenantId("t"),
    document_id=DocumentId("a/b.md"),
    operation=Operation.UPSERT,
    version=7,
    occurred_at=Timestamp(1_700_000_000_123),
    content="§ 242 BGB",
)
ANY_RECORD: st.SearchStrategy[Any] = st.sampled_from(list(TOPICS)).flatmap(records)


class Registered:
    """A registry's memory: schemas by id."""

    def __init__(self, schemas: dict[int, str]) -> None:
        self.schemas = schemas

    def id_of(self, record: str) -> int:
        return next(known for known, text in self.schemas.items() if f'"name": "{record}"' in text)

    def schema_of(self, schema_id: int) -> str | None:
        return self.schemas.get(schema_id)


def registered(*record_types: type) -> Registered:
    texts = [packaged_contracts().current(record.__name__).text for record in record_types]
    return Registered(dict(enumerate(texts, start=0x01020304)))


def long(value: int) -> bytes:
    """Write an Avro long."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*encoded, rest])


def nested(depth: int) -> Any:
    """Make arrays within arrays."""
    return {"type": "array", "items": nested(depth - 1)} if depth else "long"


def read_or_refuse(codec: Codec[Any], data: bytes) -> Any:
    """Give the value, or None for bytes that are refused as they should be."""
    try:
        return codec.decode(data)
    except UndecodableError:
        return None


@given(value=ANY_RECORD)
def test_encode_then_decode_is_identity(value: object) -> None:
    codec = CODECS[type(value)]

    decoded = codec.decode(codec.encode(value))

    assert decoded == value
    assert repr(decoded) == repr(value)


@settings(max_examples=25)
@given(value=ANY_RECORD)
def test_with_a_registry_too_encode_then_decode_is_identity(value: object) -> None:
    codec = Codec(type(value), registry=registered(*TOPICS))

    assert codec.decode(codec.encode(value)) == value


@settings(max_examples=25)
@given(value=ANY_RECORD)
def test_the_same_value_gives_the_same_bytes(value: object) -> None:
    assert CODECS[type(value)].encode(value) == Codec(type(value)).encode(value)


def test_decoded_values_share_nothing_that_can_change() -> None:
    codec = Codec(DocumentChange)

    one, other = codec.decode(codec.encode(CHANGE)), codec.decode(codec.encode(CHANGE))

    assert one.attributes is not other.attributes


def test_without_a_registry_a_record_starts_with_the_fingerprint_of_its_contract() -> None:
    data = Codec(DocumentChange).encode(CHANGE)

    assert data[:2] == b"\xc3\x01"
    assert data[2:10] == packaged_contracts().current("DocumentChange").fingerprint


def test_with_a_registry_a_record_starts_with_the_id_of_its_schema() -> None:
    data = Codec(DocumentChange, registry=registered(DocumentChange)).encode(CHANGE)

    assert data[:5] == b"\x00\x01\x02\x03\x04"


def test_a_reader_with_a_registry_reads_single_objects_too() -> None:
    data = Codec(DocumentChange).encode(CHANGE)

    assert Codec(DocumentChange, registry=registered()).decode(data) == CHANGE


def test_an_id_that_was_not_read_from_the_registry_is_named_so_that_the_caller_can_ask_and_try_again() -> None:
    data = Codec(DocumentChange, registry=registered(DocumentChange)).encode(CHANGE)
    memory = Registered({})
    codec = Codec(DocumentChange, registry=memory)

    with pytest.raises(UnknownSchemaIdError) as failure:
        codec.decode(data)
    memory.schemas[failure.value.schema_id] = packaged_contracts().current("DocumentChange").text

    assert codec.decode(data) == CHANGE


def test_a_record_of_a_registry_is_refused_where_none_is_set() -> None:
    data = Codec(DocumentChange, registry=registered(DocumentChange)).encode(CHANGE)

    with pytest.raises(UndecodableError, match="FREKI_REGISTRY__URL"):
        Codec(DocumentChange).decode(data)


@pytest.mark.parametrize("text", ["syntax = 'proto3';", '{"type": "object"}', '"string"', "[]", '["null"]', "7"])
def test_a_registered_schema_that_is_no_avro_record_is_refused(text: str) -> None:
    codec = Codec(DocumentChange, registry=Registered({9: text}))

    with pytest.raises(UndecodableError, match="schema id 9 of the registry is no Avro schema of a record"):
        codec.decode(b"\x00\x00\x00\x00\x09abc")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (["null", "DocumentChange"], "holds itself"),
        ({"type": "array", "items": {"type": "map", "values": "freki.DocumentChange"}}, "holds itself"),
        ({"type": "array", "items": "null"}, "null may only be a branch"),
        (
            {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}},
            "freki.Empty may take no bytes",
        ),
        ({"type": "map", "values": {"type": "fixed", "name": "Zero", "size": 0}}, "freki.Zero may take no bytes"),
        ({"type": "array", "items": {"type": {"type": "null"}}}, "no Avro schema"),
        ({"type": "array", "items": {"type": "error", "name": "Empty", "fields": []}}, "may take no bytes"),
        (nested(70), "deeper than 64"),
        (nested(350), "deeper than 64"),
        (nested(700), "deeper than 64"),
        (nested(900), "deeper than 64"),
    ],
    ids=range(11),
)
def test_a_registered_schema_that_lets_few_bytes_exhaust_the_reader_is_refused(schema: Any, message: str) -> None:
    fields = [{"name": "content", "type": schema}]
    record = {"type": "record", "name": "DocumentChange", "namespace": "freki", "fields": fields}
    codec = Codec(DocumentChange, registry=Registered({9: json.dumps(record)}))

    with pytest.raises(UndecodableError, match=f"schema id 9 .*{message}"):
        codec.decode(b"\x00\x00\x00\x00\x09" + b"\x02" * 100_000)


def test_a_registered_schema_of_a_newer_version_is_read() -> None:
    newer = json.loads(packaged_contracts().current("DocumentChange").text)
    newer["fields"].append({"name": "mood", "type": {"type": "fixed", "name": "Mood", "size": 2}})
    codec = Codec(DocumentChange, registry=Registered({9: json.dumps(newer)}))
    written = Codec(DocumentChange).encode(CHANGE)[10:] + b"ok"

    assert codec.decode(b"\x00\x00\x00\x00\x09" + written) == CHANGE


def test_bytes_that_are_no_text_where_text_belongs_are_refused() -> None:
    foreign = packaged_contracts().current("DocumentChange").text.replace('"string"', '"bytes"', 1)
    codec = Codec(DocumentChange, registry=Registered({9: foreign}))
    tenant_that_is_no_text = Codec(DocumentChange).encode(CHANGE)[10:].replace(b"\x02t", b"\x02\xff", 1)

    with pytest.raises(UndecodableError, match="does not fit"):
        codec.decode(b"\x00\x00\x00\x00\x09" + tenant_that_is_no_text)


def test_a_record_of_another_type_is_refused_by_name() -> None:
    data = Codec(DocumentChange).encode(CHANGE)

    with pytest.raises(UndecodableError, match="this is a DocumentChange, but records of this topic are ContextQuery"):
        Codec(ContextQuery).decode(data)


def test_a_registered_record_of_another_type_is_refused_by_name() -> None:
    registry = registered(DocumentChange)
    data = Codec(DocumentChange, registry=registry).encode(CHANGE)

    with pytest.raises(
        UndecodableError, match=r"this is a DocumentChange .*but records of this topic are ContextQuery"
    ):
        Codec(ContextQuery, registry=registry).decode(data)


def test_an_unknown_fingerprint_is_refused_with_those_that_are_known_and_with_what_to_do() -> None:
    known = packaged_contracts().current("DocumentChange").fingerprint.hex()

    with pytest.raises(UndecodableError, match=f"0102030405060708.*{known}.*freki schemas export"):
        Codec(DocumentChange).decode(b"\xc3\x01\x01\x02\x03\x04\x05\x06\x07\x08abc")


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"op": "upsert"}', b"\xc3", b"\xc3\x01", b"\xc3\x01123", b"\x00", b"\x00ab"]
)
def test_bytes_in_no_known_frame_are_refused_with_what_was_expected(data: bytes) -> None:
    with pytest.raises(
        UndecodableError, match=r"neither Avro single-object encoding .* nor Confluent.* DocumentChange"
    ):
        Codec(DocumentChange).decode(data)


@given(value=ANY_RECORD, data=st.data())
def test_no_beginning_of_a_record_is_taken_for_the_whole(value: object, data: st.DataObject) -> None:
    encoded = CODECS[type(value)].encode(value)
    end = data.draw(st.integers(min_value=0, max_value=len(encoded) - 1))

    with pytest.raises(UndecodableError):
        CODECS[type(value)].decode(encoded[:end])


@settings(max_examples=25)
@given(value=ANY_RECORD, surplus=st.binary(min_size=1, max_size=20))
def test_bytes_after_the_record_are_refused(value: object, surplus: bytes) -> None:
    encoded = CODECS[type(value)].encode(value)

    with pytest.raises(UndecodableError, match=f"{len(surplus)} bytes follow the record"):
        CODECS[type(value)].decode(encoded + surplus)


@given(value=ANY_RECORD, data=st.data())
def test_damaged_bytes_are_a_record_or_refused_but_nothing_else(value: object, data: st.DataObject) -> None:
    damaged = bytearray(CODECS[type(value)].encode(value))
    for _ in range(data.draw(st.integers(min_value=1, max_value=4))):
        damaged[data.draw(st.integers(min_value=10, max_value=len(damaged) - 1))] = data.draw(st.integers(0, 255))

    decoded = read_or_refuse(CODECS[type(value)], bytes(damaged))

    assert decoded is None or type(decoded) is type(value)


@given(record=st.sampled_from(list(TOPICS)), noise=st.binary(max_size=200))
def test_noise_behind_a_right_fingerprint_is_a_record_or_refused(record: type, noise: bytes) -> None:
    header = b"\xc3\x01" + packaged_contracts().current(record.__name__).fingerprint

    decoded = read_or_refuse(CODECS[record], header + noise)

    assert decoded is None or type(decoded) is record


@pytest.mark.parametrize("claimed", [2**31, 2**40, 2**62, -1, -(2**62)])
def test_a_length_of_gigabytes_that_is_not_there_allocates_nothing(claimed: int) -> None:
    codec = CODECS[IndexOutcome]
    header = b"\xc3\x01" + packaged_contracts().current("IndexOutcome").fingerprint
    tracemalloc.start()

    with pytest.raises(UndecodableError):
        codec.decode(header + long(claimed) + b"abc")

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("claimed", [2**31, 2**62, -(2**62)])
def test_a_count_of_billions_that_are_not_there_allocates_nothing(claimed: int) -> None:
    change = Codec(DocumentChange).encode(CHANGE)
    behind = long(CHANGE.occurred_at) + bytes(4)  # and four nulls: there the principals begin
    principals = change.index(behind) + len(behind)
    tracemalloc.start()

    with pytest.raises(UndecodableError):
        CODECS[DocumentChange].decode(change[:principals] + long(claimed) + b"\x02a" * 10)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def with_text(text: Any) -> ContextQuery:
    return ContextQuery(query_id=QueryId("q"), tenant=TenantId("t"), text=text, asked_at=Timestamp(0))


def with_fields(**fields: Any) -> ContextQuery:
    return replace(with_text("x"), **fields)


FLOAT: Any = 3.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (with_text(None), "ContextQuery.text must be string"),
        (with_text(7), "ContextQuery.text must be string"),
        (replace(with_text("x"), top_k=2**63), "ContextQuery.top_k must be null or long"),
        (with_text("\ud800"), "half of a character"),
        # It would be cut off: the receipt would be of another version.
        (with_fields(asked_at=1_700_000_000.5), r"ContextQuery\.asked_at must be int"),
        (with_fields(at_least=(VersionFloor(document_id=DocumentId("d"), version=FLOAT),)), r"\.version must be int"),
        ({"text": "x"}, "ContextQuery: 'dict' object has no attribute"),
        (with_fields(filters=({"field": "name"},)), r"ContextQuery\.filters must be a list of Filter"),
        (
            with_fields(filters=VersionFloor(document_id=DocumentId("d"), version=1)),
            r"filters must be a list of Filter",
        ),
    ],
)
def test_a_value_that_breaks_its_contract_is_refused_with_the_name_of_the_field(value: Any, message: str) -> None:
    with pytest.raises(UnencodableError, match=message):
        Codec(ContextQuery).encode(value)


def test_a_number_that_needs_more_than_64_bits_is_refused_with_the_name_of_the_field() -> None:
    outcome = DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=Operation.DELETE,
        version=2**63,
        occurred_at=Timestamp(0),
    )

    with pytest.raises(UnencodableError, match=r"DocumentChange\.version must be long"):
        Codec(DocumentChange).encode(outcome)


def test_a_refusal_does_not_repeat_the_content() -> None:
    secret = DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=Operation.UPSERT,
        version=2**63,
        occurred_at=Timestamp(0),
        content="the password is swordfish",
    )

    with pytest.raises(UnencodableError) as failure:
        Codec(DocumentChange).encode(secret)

    assert "swordfish" not in str(failure.value)


def test_nothing_but_a_member_of_the_enum_can_be_written() -> None:
    query = ContextQuery(
        query_id=QueryId("q"),
        tenant=TenantId("t"),
        text="x",
        asked_at=Timestamp(0),
        filters=(Filter(field="name", operator="LIKE", values=("x",)),),  # type: ignore[arg-type] # the point
    )

    with pytest.raises(UnencodableError, match="operator"):
        Codec(ContextQuery).encode(query)


def test_enums_and_tuples_come_back_as_what_they_were() -> None:
    query = ContextQuery(
        query_id=QueryId("q"),
        tenant=TenantId("t"),
        text="x",
        asked_at=Timestamp(0),
        levels=(1, 2),
        filters=(Filter(field="name", operator=FilterOperator.IN, values=("a", "b")),),
    )
    codec = Codec(ContextQuery)

    decoded = codec.decode(codec.encode(query))

    assert decoded.levels == (1, 2)
    assert decoded.filters[0].operator is FilterOperator.IN


@pytest.mark.parametrize("record", [ChunkBatch, ContextResult])
def test_a_codec_is_made_without_reading_the_source_of_a_class(record: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspect.getsource", lambda _: pytest.fail("read the source"))

    Codec(record)
