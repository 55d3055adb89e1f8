"""Compatibility of the versions of a record, by the checker of Apache Avro.

It implements the specification ("Schema Resolution") with two gaps (avro 1.12.2): it accepts any value as default, and
any logical type for any other. The parser of fastavro rejects such defaults; logical types are compared here.
"""

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import product
from typing import Any, NamedTuple

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
    lookup_writer_field,
)
from avro.name import Names
from avro.schema import RecordSchema, Schema, make_avsc_object
from fastavro import parse_schema
from fastavro.schema import SchemaParseException

from freki.schemas.avro.contracts import COMPATIBILITY, Compatibility, Contract, frozen_contracts
from freki.schemas.avro.frozen import altered_files


class RecordCheck(NamedTuple):
    """Result of the check of one record."""

    record: str
    versions: int
    compatibility: Compatibility
    problems: list[str]


def check_frozen(directory: Traversable | None = None) -> list[str]:
    """Return the altered frozen files, by default of this installation."""
    return altered_files((directory or files(__package__)) / "versions")


def check_records(directory: Traversable | None = None) -> list[RecordCheck]:
    """Check all pairs of versions of every record, and that the current contract is the last version."""
    directory = directory or files(__package__)
    checks = []
    for record, compatibility in COMPATIBILITY.items():
        frozen = frozen_contracts(directory, record.__name__)
        current = Contract((directory / f"{record.__name__}.avsc").read_text(encoding="utf-8"))
        problems = broken_promises(frozen, compatibility)
        if not frozen or current.differs_from(frozen[-1]):
            problems.append("the contract in force is not the last version: run `make schemas`")
        checks.append(RecordCheck(record.__name__, len(frozen), compatibility, problems))
    return checks


def broken_promises(versions: Sequence[Contract], compatibility: Compatibility) -> list[str]:
    """Return a message for each pair of incompatible versions, with the reason.

    Versions are numbered from 1.
    """
    numbered = list(enumerate(versions, start=1))
    return [
        f"version {reader} cannot read what version {writer} wrote: {reason}"
        for (writer, written), (reader, read) in product(numbered, repeat=2)
        if reader >= writer or compatibility is Compatibility.FULL_TRANSITIVE
        for reason in unreadable(written.text, read.text)
    ]


def unreadable(writer: str, reader: str) -> list[str]:
    """Return the reasons why a reader cannot read all data of a writer. Both are schemas as JSON."""
    try:
        parse_schema(json.loads(reader), named_schemas={})
    except SchemaParseException as error:
        return [str(error)]
    written, read = _parsed(writer), _parsed(reader)
    result = _compared(written.root, read.root)
    if _compatible(result):
        return list(_changed_logical_types(json.loads(writer), json.loads(reader)))
    return list(_reasons(written.named, read.named)) or sorted(result.messages)


class _Parsed(NamedTuple):
    root: Schema
    named: dict[str, Schema]
    """Records and enums by their full name."""


def _parsed(schema: str) -> _Parsed:
    names = Names()
    return _Parsed(make_avsc_object(json.loads(schema), names), dict(names.names))


def _compared(written: Schema, read: Schema) -> SchemaCompatibilityResult:
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call] # untyped in avro
    return checker.get_compatibility(reader=read, writer=written)


def _compatible(result: SchemaCompatibilityResult) -> bool:
    return result.compatibility is SchemaCompatibilityType.compatible


def _reasons(written: dict[str, Schema], read: dict[str, Schema]) -> Iterator[str]:
    """Yield the reasons by field: for errors inside a union, the result for the whole has neither place nor reason."""
    for name, reader in read.items():
        writer = written.get(name)
        if not (isinstance(reader, RecordSchema) and isinstance(writer, RecordSchema)):
            continue
        for field in reader.fields:
            place = f"{reader.name}.{field.name}"
            counterpart = lookup_writer_field(writer, field)
            if counterpart is None:
                if not field.has_default:
                    yield f"{place} is missing and has no default"
                continue
            result = _compared(counterpart.type, field.type)
            if not _compatible(result):
                kinds = ", ".join(sorted({kind.value for kind in result.incompatibilities}))
                yield f"{place}: {kinds}: {', '.join(sorted(result.messages))}"


def _changed_logical_types(written: Any, read: Any) -> Iterator[str]:  # noqa: ANN401 - any schema
    before, after = dict(_logical_types(written, "")), dict(_logical_types(read, ""))
    for place, logical in before.items():
        if after.get(place, logical) != logical:
            yield f"{place}: logical type {logical} is not {after[place]}"


def _logical_types(schema: Any, place: str) -> Iterator[tuple[str, str | None]]:  # noqa: ANN401 - any part of a schema
    """Yield the path and logical type, or None, of each primitive."""
    match schema:
        case list():
            for branch in schema:
                yield from _logical_types(branch, place)
        case {"type": "record", "name": name, "fields": fields}:
            for field in fields:
                yield from _logical_types(field["type"], f"{name}.{field['name']}")
        case {"items": inner} | {"values": inner}:
            yield from _logical_types(inner, f"{place}[]")
        case dict():
            yield f"{place} as {schema['type']}", schema.get("logicalType")
        case _:
            yield f"{place} as {schema}", None
