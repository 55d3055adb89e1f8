"""Bytes as they were once written are read today, by Freki and by Apache's own package, to the same values."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
from avro.io import BinaryDecoder, BinaryEncoder, DatumReader, DatumWriter
from avro.schema import Schema, parse
from fastavro import parse_schema, schemaless_reader
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.avro import TOPICS, Codec, Contract, packaged_contracts
from freki.schemas.avro.contracts import COMPATIBILITY, Compatibility
from freki.schemas.avro.convert import to_plain
from tests.avro_values import values_of, write
from tests.golden import CASES, Golden, frozen_versions, golden_cases, path_of

CODECS: dict[str, Codec[Any]] = {record.__name__: Codec(record) for record in TOPICS}
RECORDS = {record.__name__: record for record in TOPICS}
GOLDEN = golden_cases()
LATEST = [one for one in GOLDEN if one.version == len(packaged_contracts().versions(one.record))]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FRAME = 10

PROMISED = [one for one in GOLDEN if COMPATIBILITY[RECORDS[one.record]] is Compatibility.FULL_TRANSITIVE]


def name_of(golden: Golden) -> str:
    return f"{golden.record} {golden.version} {golden.case}"


every_case = pytest.mark.parametrize("golden", GOLDEN, ids=name_of)


def schema_of(record: str, version: int) -> Schema:
    return parse(packaged_contracts().versions(record)[version - 1].text)


def read_by_apache(golden: Golden, reader: Schema) -> Any:
    """Read with Apache's package, which makes datetimes of times."""
    stream = BytesIO(golden.data[FRAME:])
    value = DatumReader(schema_of(golden.record, golden.version), reader).read(BinaryDecoder(stream))
    assert stream.read() == b""
    return value


def written_by_apache(value: Any, schema: Schema) -> bytes:
    stream = BytesIO()
    DatumWriter(schema).write(value, BinaryEncoder(stream))
    return stream.getvalue()


def in_milliseconds(value: Any) -> Any:
    """Turn datetimes back."""
    match value:
        case datetime():
            return (value - EPOCH) // timedelta(milliseconds=1)
        case dict():
            return {key: in_milliseconds(part) for key, part in value.items()}
        case list():
            return [in_milliseconds(part) for part in value]
        case _:
            return value


def decoded(golden: Golden) -> Any:
    """Give what Freki reads, as plain values."""
    record = RECORDS[golden.record]
    return json_like(to_plain(record)(CODECS[golden.record].decode(golden.data)))


def json_like(value: Any) -> Any:
    """Turn tuples into lists and members of enums into their symbols."""
    match value:
        case dict():
            return {key: json_like(part) for key, part in value.items()}
        case list() | tuple():
            return [json_like(part) for part in value]
        case str():
            return str(value)
        case _:
            return value


@pytest.mark.parametrize(("record", "version"), frozen_versions())
def test_every_version_has_its_golden_bytes(record: str, version: int) -> None:
    assert path_of(record, version).exists(), "run `make schemas`"
    assert [one.case for one in GOLDEN if (one.record, one.version) == (record, version)] == list(CASES)


@every_case
def test_golden_bytes_name_the_version_that_wrote_them(golden: Golden) -> None:
    assert golden.data[:FRAME] == b"\xc3\x01" + golden.contract.fingerprint


@every_case
def test_apache_reads_the_value_that_was_written(golden: Golden) -> None:
    read = read_by_apache(golden, schema_of(golden.record, golden.version))

    assert in_milliseconds(read) == golden.value


@every_case
def test_freki_reads_what_apache_reads_with_the_contract_in_force(golden: Golden) -> None:
    expected = read_by_apache(golden, parse(packaged_contracts().current(golden.record).text))

    assert decoded(golden) == in_milliseconds(expected)


@every_case
def test_freki_reads_what_apache_writes(golden: Golden) -> None:
    schema = schema_of(golden.record, golden.version)
    written = written_by_apache(read_by_apache(golden, schema), schema)

    read = CODECS[golden.record].decode(golden.data[:FRAME] + written)

    assert read == CODECS[golden.record].decode(golden.data)


@pytest.mark.parametrize("golden", LATEST, ids=name_of)
def test_freki_writes_the_bytes_of_the_contract_in_force(golden: Golden) -> None:
    codec = CODECS[golden.record]

    assert codec.encode(codec.decode(golden.data)) == golden.data


@pytest.mark.parametrize("golden", PROMISED, ids=name_of)
def test_earlier_versions_read_later_bytes_where_that_is_promised(golden: Golden) -> None:
    writer = parse_schema(golden.contract.schema, named_schemas={})
    for earlier in packaged_contracts().versions(golden.record)[: golden.version]:
        # Not with Apache's package: its reader does not know defaults of enums.
        reader = parse_schema(earlier.schema, named_schemas={})

        assert schemaless_reader(BytesIO(golden.data[FRAME:]), writer, reader)


@given(contract=st.sampled_from([one.contract for one in GOLDEN]), data=st.data())
def test_apache_reads_any_value_that_fastavro_wrote(contract: Contract, data: st.DataObject) -> None:
    value = data.draw(values_of(contract.schema))

    read = DatumReader(parse(contract.text)).read(BinaryDecoder(BytesIO(write(contract.schema, value)[FRAME:])))

    assert in_milliseconds(read) == value


def test_golden_values_hold_what_is_easily_lost() -> None:
    texts = json.dumps([one.value for one in GOLDEN], default=repr, ensure_ascii=False)

    assert all(edge in texts for edge in ("null", "[]", "{}", "Grüße", "\U0001f989", str(2**63 - 1), str(-(2**63))))
