"""Safety of foreign schemas for reading.

fastavro follows the writer's schema wherever it leads: a few kilobytes written with a schema that holds itself end the
process (it runs out of stack), and a few bytes can claim a trillion items that take no bytes each. So every value must
take at least one byte, and no type may hold itself: then reading takes no longer than the bytes are many.
"""

from typing import Any

_MAX_DEPTH = 64
TOO_DEEP = f"it is nested deeper than {_MAX_DEPTH} levels"
"""Also the reason where Python runs out of stack before the depth is counted, which depends on its version."""
_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})


class UnsafeSchemaError(ValueError):
    """The schema would let a few bytes exhaust the reader; the message names the place."""


def refuse_unsafe(schema: Any) -> None:  # noqa: ANN401 - any part of a schema
    """Raise UnsafeSchemaError where bytes written with a parsed schema could take more than their share."""
    _check(schema, ())


def _check(schema: Any, around: tuple[str, ...]) -> None:  # noqa: ANN401 - any part of a schema
    """`around`: the names of the parts that this one stands in; empty for those without a name."""
    if len(around) > _MAX_DEPTH:
        raise UnsafeSchemaError(TOO_DEEP)
    match schema:
        case list():
            for branch in schema:
                if branch != "null":
                    _check(branch, (*around, ""))
        case {"type": "record", "name": name, "fields": [*fields]} if fields:
            for field in fields:
                _check(field["type"], (*around, name))
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _check(inner, (*around, ""))
        case str():
            _check_name(schema, around)
        case _:
            _check_plain(schema)


def _check_name(name: str, around: tuple[str, ...]) -> None:
    if name == "null":
        raise UnsafeSchemaError("null may only be a branch of a union")
    if name in around:
        raise UnsafeSchemaError(f"{name} holds itself")


def _check_plain(schema: dict[str, Any]) -> None:
    if str(schema["type"]) not in _PLAIN or schema.get("size") == 0:
        raise UnsafeSchemaError(f"values of {schema.get('name', schema['type'])} may take no bytes")
