"""What Apache's package says of changes, and that fastavro reads what can be read by that."""

import json
import re
from io import BytesIO
from typing import Any

import pytest
from avro.errors import SchemaResolutionException
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse
from fastavro import parse_schema, schemaless_reader

from freki.schemas import ContextQuery, ContextResult, IndexOutcome
from freki.schemas.avro import packaged_contracts
from freki.schemas.avro.compatibility import unreadable
from tests.avro_values import edge_of, write

FRAME = 10
TIME = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def enum(*symbols: str, **more: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Colour", "symbols": list(symbols), **more}


def stamp(*names: str) -> dict[str, Any]:
    return {"type": "record", "name": "Stamp", "fields": [{"name": name, "type": "long"} for name in names]}


def letter(kind: Any, **more: Any) -> dict[str, Any]:
    """Give a record with one field."""
    fields = [{"name": "body", "type": kind, **more}]
    return {"type": "record", "name": "Letter", "namespace": "freki", "fields": fields}


def compared(writer: Any, reader: Any) -> list[str]:
    return unreadable(json.dumps(writer), json.dumps(reader))


def current(record: type) -> dict[str, Any]:
    """Give the contract in force, to be changed."""
    return json.loads(packaged_contracts().current(record.__name__).text)  # type: ignore[no-any-return]


def enum_in(schema: Any, name: str) -> dict[str, Any]:
    """Find an enum where it is described."""
    if isinstance(schema, dict) and schema.get("name") == name and "symbols" in schema:
        return schema
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return next((found for part in parts if (found := enum_in(part, name))), {})


def with_symbol(record: type, name: str) -> dict[str, Any]:
    changed = current(record)
    enum_in(changed, name)["symbols"].append("LATER")
    return changed


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (letter("long"), letter("double")),
        (letter("string"), letter(["null", "string"])),
        (letter("string"), letter(["null", "string", "bytes"])),
        (letter(["null", "string"]), letter(["bytes", "string", "null"])),
        (letter(enum("A", "B")), letter(enum("B", "A", "C"))),
        (letter(enum("A", "B")), letter(enum("A", default="A"))),
        (letter(["null", enum("A", "B")]), letter(["null", enum("A", default="A")])),
        (letter({"type": "array", "items": stamp("a", "b")}), letter({"type": "array", "items": stamp("b")})),
        (letter(TIME), letter(TIME)),
        (letter("int"), letter(TIME)),
        (letter("long"), letter("long") | {"doc": "Now with a doc."}),
    ],
)
def test_a_compatible_change_is_readable_for_apache_and_for_fastavro(writer: Any, reader: Any) -> None:
    assert compared(writer, reader) == []
    for place in range(3):
        data = BytesIO(write(writer, edge_of(writer, place))[FRAME:])
        schemaless_reader(data, parse_schema(writer, named_schemas={}), parse_schema(reader, named_schemas={}))


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (letter("double"), letter("long"), "Letter.body: type_mismatch: reader type: long not compatible with"),
        (letter(["null", "string"]), letter("string"), "Letter.body: type_mismatch: .* writer type: null"),
        (letter(["null", "long"]), letter(["null", "string"]), "Letter.body: missing_union_branch: .*LONG"),
        (letter(enum("A", "B")), letter(enum("A")), r"Letter.body: missing_enum_symbols: \{'B'\}"),
        (letter(enum("A")), letter(enum("A") | {"name": "Hue"}), "Letter.body: name_mismatch: .*Colour"),
        (letter(["null", stamp("a")]), letter(["null", stamp("a", "b")]), "Stamp.b is missing and has no default"),
        (letter("long"), letter("long") | {"name": "Note"}, "expected: freki.Letter"),
    ],
)
def test_an_incompatible_change_is_named_with_its_field(writer: Any, reader: Any, reason: str) -> None:
    (*_, last) = compared(writer, reader)

    assert re.match(reason, last)


@pytest.mark.parametrize(("writer", "reader"), [(TIME, MICROS), (TIME, "long"), ("long", TIME)])
def test_a_change_of_what_a_number_means_is_incompatible_although_apache_lets_it_pass(writer: Any, reader: Any) -> None:
    optional = compared(letter(["null", writer]), letter(["null", reader]))
    listed = compared(letter({"type": "array", "items": writer}), letter({"type": "array", "items": reader}))

    assert [reason.split(":")[0] for reason in (*optional, *listed)] == ["Letter.body as long", "Letter.body[] as long"]


def test_a_default_that_does_not_fit_is_refused_although_apache_lets_it_pass() -> None:
    written = {"type": "record", "name": "Letter", "namespace": "freki", "fields": []}

    assert compared(written, letter("string", default="")) == []
    assert compared(written, letter("string", default=5)) == ["Default value <5> must match schema type: string"]


@pytest.mark.parametrize("name", ["ResultStatus", "NoticeKind", "ChunkKind", "QueryType", "TypedBy", "ExactKind"])
def test_a_new_symbol_in_a_result_is_readable_for_those_who_do_not_know_it(name: str) -> None:
    assert compared(with_symbol(ContextResult, name), current(ContextResult)) == []


@pytest.mark.parametrize(("record", "name"), [(IndexOutcome, "OutcomeStatus"), (ContextResult, "Widening")])
def test_a_new_symbol_of_an_enum_without_a_default_is_not(record: type, name: str) -> None:
    assert any("LATER" in reason for reason in compared(with_symbol(record, name), current(record)))


def test_a_new_command_in_a_query_reads_earlier_queries_and_is_refused_by_earlier_readers() -> None:
    assert compared(current(ContextQuery), with_symbol(ContextQuery, "RequestKind")) == []
    assert compared(with_symbol(ContextQuery, "RequestKind"), current(ContextQuery))


@pytest.mark.xfail(raises=SchemaResolutionException, reason="avro 1.12.2 reads no defaults of enums")
def test_apaches_own_reader_reads_unknown_symbols_as_its_checker_says() -> None:
    writer, reader = letter(enum("A", "B")), letter(enum("A", default="A"))
    data = BinaryDecoder(BytesIO(write(writer, {"body": "B"})[FRAME:]))

    assert DatumReader(parse(json.dumps(writer)), parse(json.dumps(reader))).read(data) == {"body": "A"}
