"""Values for any Avro schema, and their bytes. Apart from Freki's own reading of schemas."""

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any, TypeVar

from avro.schema import ArraySchema, EnumSchema, MapSchema, RecordSchema, Schema, UnionSchema, parse
from fastavro import parse_schema, schemaless_writer
from hypothesis import strategies as st

from freki.schemas.avro.contracts import fingerprint_of

T = TypeVar("T")

_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "long": st.integers(min_value=-(2**63), max_value=2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}

_ANY_TIME = st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999)
"""Milliseconds of the years 1 to 9999, which Python's datetimes hold."""

_EDGES: dict[str, Sequence[Any]] = {
    "null": (None,),
    "boolean": (False, True),
    "int": (0, -(2**31), 2**31 - 1),
    "long": (0, -(2**63), 2**63 - 1),
    "double": (0.0, -0.1, 1.7976931348623157e308),
    "string": ("", "Grüße aus Gießen: „Maß“, ẞ, 12 €", "§ 535 Abs. 1 BGB\n\t\x00 e\u0301 \U0001f989"),
    "bytes": (b"", b"\xff\x00\xc3\x01", bytes(range(32))),
}
_TIMES = (0, 1_700_000_000_123, 253_402_300_799_999)
"""Milliseconds; the last one is the end of the year 9999."""


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Give any plain value of a schema; times are integers."""
    return _values(parse(json.dumps(schema)))


def edge_of(schema: dict[str, Any], place: int) -> Any:
    """Give the least value of a schema (0), one in between (1), or the largest (2); times are integers.

    Least are nulls, empty collections, zeros and first symbols; largest are last branches and symbols, and 2**63 - 1.
    """
    return _edge(parse(json.dumps(schema)), place)


def write(schema: dict[str, Any], value: Any) -> bytes:
    """Write a plain value in Avro single-object encoding, by fastavro."""
    buffer = BytesIO(b"\xc3\x01" + fingerprint_of(schema))
    buffer.seek(0, 2)
    schemaless_writer(buffer, parse_schema(schema, named_schemas={}), value)
    return buffer.getvalue()


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    match schema:
        case UnionSchema():
            return st.one_of([_values(branch) for branch in schema.schemas])
        case RecordSchema():
            return st.fixed_dictionaries({field.name: _values(field.type) for field in schema.fields})
        case EnumSchema():
            return st.sampled_from(list(schema.symbols))
        case ArraySchema():
            return st.lists(_values(schema.items), max_size=3)
        case MapSchema():
            return st.dictionaries(_PRIMITIVES["string"], _values(schema.values), max_size=3)
        case _:
            return _ANY_TIME if hasattr(schema, "logical_type") else _PRIMITIVES[schema.type]


def _edge(schema: Schema, place: int) -> Any:
    match schema:
        case UnionSchema():
            return _edge(_at(schema.schemas, place), place)
        case RecordSchema():
            return {field.name: _edge(field.type, place) for field in schema.fields}
        case EnumSchema():
            return _at(schema.symbols, place)
        case ArraySchema():
            return [_edge(schema.items, inner) for inner in range(place, 0, -1)]
        case MapSchema():
            return {_at(_EDGES["string"], inner): _edge(schema.values, inner) for inner in range(place, 0, -1)}
        case _:
            return _at(_TIMES if hasattr(schema, "logical_type") else _EDGES[schema.type], place)


def _at(choices: Sequence[T], place: int) -> T:
    """Give the first, one in between, or the last."""
    return choices[(0, min(1, len(choices) - 1), -1)[place]]
