"""Avro's rules of schema resolution as a check, and values for any schema. Apart from Freki's own reading of them."""

from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer
from hypothesis import strategies as st

from freki.schemas.avro.contracts import fingerprint_of

_PROMOTIONS = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}

_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "long": st.integers(min_value=-(2**63), max_value=2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}


def unreadable(writer: Any, reader: Any) -> list[str]:
    """Say what a reader cannot read of all that the writer may write; nothing means compatible."""
    return _problems(_expanded(writer, {}), _expanded(reader, {}), writer["name"])


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    """Give any plain value of a schema."""
    return _values(_expanded(schema, {}))


def write(schema: dict[str, Any], value: Any) -> bytes:
    """Write a plain value in Avro single-object encoding."""
    buffer = BytesIO(b"\xc3\x01" + fingerprint_of(schema))
    buffer.seek(0, 2)
    schemaless_writer(buffer, parse_schema(schema, named_schemas={}), value)
    return buffer.getvalue()


def _expanded(schema: Any, named: dict[str, Any]) -> Any:
    """Put the definition of a named type wherever its name stands."""
    match schema:
        case str():
            return named.get(schema, schema)
        case list():
            return [_expanded(branch, named) for branch in schema]
        case {"type": "record"}:
            fields = [field | {"type": _expanded(field["type"], named)} for field in schema["fields"]]
            named[schema["name"]] = schema | {"fields": fields}
            return named[schema["name"]]
        case {"type": "enum"}:
            named[schema["name"]] = schema
            return schema
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return {"type": schema["type"], "of": _expanded(inner, named)}
        case _:
            return schema["type"]


def _problems(writer: Any, reader: Any, place: str) -> list[str]:
    if isinstance(writer, list):
        return [problem for branch in writer for problem in _problems(branch, reader, place)]
    if isinstance(reader, list):
        fits = any(not _problems(writer, branch, place) for branch in reader)
        return [] if fits else [f"{place}: no branch for {_kind(writer)}"]
    return _mismatches(writer, reader, place)


def _mismatches(writer: Any, reader: Any, place: str) -> list[str]:
    match _kind(writer), _kind(reader):
        case "record", "record":
            return _record_problems(writer, reader, place)
        case "enum", "enum":
            unknown = [] if "default" in reader else [s for s in writer["symbols"] if s not in reader["symbols"]]
            return [f"{place}: unknown symbol {symbol}" for symbol in unknown]
        case ("array", "array") | ("map", "map"):
            return _problems(writer["of"], reader["of"], f"{place}[]")
        case written, read if written == read or (written, read) in _PROMOTIONS:
            return []
        case written, read:
            return [f"{place}: {written} is not {read}"]


def _record_problems(writer: Any, reader: Any, place: str) -> list[str]:
    written = {field["name"]: field["type"] for field in writer["fields"]}
    problems = [] if writer["name"] == reader["name"] else [f"{place}: {writer['name']} is not {reader['name']}"]
    for field in reader["fields"]:
        inside = f"{place}.{field['name']}"
        if field["name"] in written:
            problems += _problems(written[field["name"]], field["type"], inside)
        elif "default" not in field:
            problems.append(f"{inside}: missing and without a default")
    return problems


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema["type"])


def _values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of([_values(branch) for branch in schema])
    match _kind(schema):
        case "record":
            return st.fixed_dictionaries({field["name"]: _values(field["type"]) for field in schema["fields"]})
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "array":
            return st.lists(_values(schema["of"]), max_size=3)
        case "map":
            return st.dictionaries(_PRIMITIVES["string"], _values(schema["of"]), max_size=3)
        case primitive:
            return _PRIMITIVES[primitive]
