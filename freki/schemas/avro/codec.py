"""Encoding and decoding of records.

Two frames around the Avro binary are supported. Without a registry: Avro single-object encoding, C3 01 and 8 bytes of
fingerprint (Avro specification, "Single object encoding"). With one: Confluent wire format, 00 and 4 bytes of id, big
endian. Both are read.
"""

import json
from collections.abc import Callable
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException
from fastavro.validation import ValidationError, validate

from freki.schemas.avro.contracts import Contract, Contracts, fingerprint_of, packaged_contracts, without_key
from freki.schemas.avro.convert import UnfitError, from_plain, to_plain
from freki.schemas.avro.foreign import TOO_DEEP, UnsafeSchemaError, refuse_unsafe
from freki.schemas.avro.resolve import resolve

T = TypeVar("T")

_SINGLE_OBJECT = b"\xc3\x01"
_FINGERPRINT_END = 10
_CONFLUENT = b"\x00"
_ID_END = 5
_LARGEST_ID = 2**31 - 1
"""Maximum id of a registry: a signed 32-bit integer."""


class UndecodableError(ValueError):
    """The bytes are not a known record; the message contains their kind and the fix."""


class DamagedError(UndecodableError):
    """The bytes are damaged; no reader can decode them."""


class UnknownSchemaIdError(UndecodableError):
    """The schema of this id is not in memory: fetch it from the registry, then decode again."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(
            f"schema id {schema_id} is not in the schema registry, or was not read from it: "
            "FREKI_REGISTRY__URL must name the registry that its producer uses, with all its schemas"
        )
        self.schema_id = schema_id


class UnencodableError(ValueError):
    """The value violates its Avro contract; the message names the field."""


def schema_id_of(data: bytes) -> int | None:
    """Return the schema id of a frame; None where it has none."""
    framed = data.startswith(_CONFLUENT) and len(data) >= _ID_END
    schema_id = int.from_bytes(data[len(_CONFLUENT) : _ID_END], "big")
    return schema_id if framed and schema_id <= _LARGEST_ID else None


class SchemaLookup(Protocol):
    """Lookup of registered schemas in memory, which the owner fills beforehand."""

    def id_of(self, record: str) -> int:
        """Return the id of the current contract of a record."""

    def schema_of(self, schema_id: int) -> str | None:
        """Return the schema of an id as JSON; None where it is not in memory."""


class Codec(Generic[T]):
    """Encodes and decodes one class of records. Pure and deterministic."""

    def __init__(
        self, record: type[T], *, contracts: Contracts | None = None, registry: SchemaLookup | None = None
    ) -> None:
        self._contracts = contracts or packaged_contracts()
        self._registry = registry
        self._record = record.__name__
        self._current = self._contracts.current(self._record).fingerprint
        self._schema = _parsed(self._contracts.current(self._record))
        kind: type = record  # mypy takes a `type[T]` for unhashable
        self._to_plain: Callable[[T], dict[str, Any]] = to_plain(kind)
        self._from_plain: Callable[[dict[str, Any]], T] = from_plain(kind)
        self._resolve = resolve(kind)
        self._writers = {
            version.fingerprint: _Writer(_parsed(version), current=version.fingerprint == self._current)
            for version in self._contracts.versions(self._record)
        }
        self._writers_by_id: dict[int, _Writer] = {}

    def encode(self, value: T) -> bytes:
        """Return the framed bytes. Raises UnencodableError where a field violates the contract."""
        try:
            plain = self._to_plain(value)
        except (UnfitError, AttributeError) as error:
            # The latter of a value of another class.
            raise UnencodableError(f"{self._record}: {error}") from error
        buffer = BytesIO()
        buffer.write(self._header)
        try:
            # Tuples are arrays, also in unions, and not pairs of type name and value as in fastavro.
            schemaless_writer(buffer, self._schema, plain, disable_tuple_notation=True)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            raise UnencodableError(f"{self._record}: {_broken_field(plain, self._schema)}") from error
        return buffer.getvalue()

    def decode(self, data: bytes) -> T:
        """Return the record of framed bytes, written with any known version.

        Raises UndecodableError; UnknownSchemaIdError where fetching that id from the registry may help.
        """
        writer, start = self._writer_of(data)
        stream = BytesIO(data)
        stream.seek(start)
        try:
            plain: Any = schemaless_reader(stream, writer.schema, None)
        except (EOFError, IndexError, ValueError, OverflowError) as error:
            raise DamagedError(f"{self._record}: cut short or damaged near byte {stream.tell()}") from error
        if surplus := len(data) - stream.tell():
            raise DamagedError(f"{self._record}: {surplus} bytes follow the record")
        try:
            return self._from_plain(plain if writer.current else self._resolve(plain))
        except ValueError as error:
            raise UndecodableError(f"written with a contract that does not fit this one: {error}") from error

    @cached_property
    def _header(self) -> bytes:
        if self._registry is None:
            return _SINGLE_OBJECT + self._current
        return _CONFLUENT + self._registry.id_of(self._record).to_bytes(4, "big")

    def _writer_of(self, data: bytes) -> "tuple[_Writer, int]":
        """Return the schema of the frame, and the offset of the record."""
        if data.startswith(_SINGLE_OBJECT) and len(data) >= _FINGERPRINT_END:
            return self._writer_by_fingerprint(data[len(_SINGLE_OBJECT) : _FINGERPRINT_END]), _FINGERPRINT_END
        if (schema_id := schema_id_of(data)) is not None:
            return self._writer_by_id(schema_id), _ID_END
        raise DamagedError(
            f"{len(data)} bytes that start with {data[:4].hex(' ') or 'nothing'}: neither Avro single-object encoding "
            f"(c3 01) nor Confluent wire format (00); records of this topic are {self._record}"
        )

    def _writer_by_fingerprint(self, fingerprint: bytes) -> "_Writer":
        writer = self._writers.get(fingerprint)
        if writer is not None:
            return writer
        other = self._contracts.written_with(fingerprint)
        if other is not None:
            raise UndecodableError(f"this is a {other.record}, but records of this topic are {self._record}")
        known = ", ".join(sorted(known.hex() for known in self._writers))
        raise UndecodableError(
            f"fingerprint {fingerprint.hex()} is no version of {self._record} that this Freki knows ({known}): "
            "upgrade it before its producers, or let them write one of these contracts (`freki schemas export`)"
        )

    def _writer_by_id(self, schema_id: int) -> "_Writer":
        if schema_id not in self._writers_by_id:
            self._writers_by_id[schema_id] = self._registered_writer(schema_id)
        return self._writers_by_id[schema_id]

    def _registered_writer(self, schema_id: int) -> "_Writer":
        if self._registry is None:
            raise UndecodableError(
                f"written with schema id {schema_id} of a schema registry, and none is set: set FREKI_REGISTRY__URL"
            )
        text = self._registry.schema_of(schema_id)
        if text is None:
            raise UnknownSchemaIdError(schema_id)
        schema, parsed = registered_schema(schema_id, text)
        name = parsed["name"].rpartition(".")[2]
        if name != self._record:
            raise UndecodableError(
                f"this is a {name} (schema id {schema_id}), but records of this topic are {self._record}"
            )
        return _Writer(parsed, current=fingerprint_of(schema) == self._current)


def registered_schema(schema_id: int, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a registered schema of a record, original and prepared for fastavro.

    Raises UndecodableError where it is not the schema of a record, or not safe for reading.
    """
    try:
        schema = json.loads(text)
        parsed = parsed_schema(schema)
        refuse_unsafe(parsed)
        _ = parsed["name"]
    except (UnsafeSchemaError, RecursionError) as error:
        reason = TOO_DEEP if isinstance(error, RecursionError) else error
        raise UndecodableError(f"schema id {schema_id} of the registry is not safe to read with: {reason}") from error
    except (SchemaParseException, ValueError, TypeError, KeyError) as error:
        raise UndecodableError(f"schema id {schema_id} of the registry is no Avro schema of a record") from error
    return schema, parsed


class _Writer(NamedTuple):
    """A schema that bytes were written with."""

    schema: dict[str, Any]
    current: bool
    """Whether it is the current contract, which needs no resolution."""


@lru_cache(maxsize=256)
def _parsed(contract: Contract) -> dict[str, Any]:
    """Return the schema of a contract prepared for fastavro, which every codec shares: nobody changes it."""
    return parsed_schema(contract.schema)


def parsed_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema prepared for fastavro, without logical types, so that times stay integers."""
    parsed: Any = parse_schema(without_key(schema, "logicalType"), named_schemas={})
    return dict(parsed)


def _broken_field(plain: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the name of the invalid field, without its value, which may be a confidential document."""
    try:
        validate(plain, schema, disable_tuple_notation=True)  # type: ignore[call-arg] # missing in the stub
    except ValidationError as error:
        # One for each type that the field may have.
        field = error.errors[0].field
        kinds = dict.fromkeys(str(each.schema) for each in error.errors if each.field == field)
        return f"{field} must be {' or '.join(kinds)}"
    return "a text has half of a character (a lone surrogate), as text cut within an emoji has"
