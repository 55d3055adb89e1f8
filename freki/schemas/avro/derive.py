"""Derive the Avro schema of a record from its class. Reads the class's source, so it runs only to write contracts."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from itertools import pairwise
from types import NoneType
from typing import Any, get_type_hints

from freki.schemas.avro.hints import bare, branches_of, entry_of, is_enum, is_record, item_of
from freki.schemas.avro.resolve import UNKNOWN_SYMBOLS
from freki.schemas.names import Timestamp

NAMESPACE = "freki"

Schema = str | dict[str, Any] | list[Any]
"""Avro schemas are JSON: a name, an object, or a list for a union."""

_PRIMITIVES = {NoneType: "null", bool: "boolean", int: "long", float: "double", str: "string", bytes: "bytes"}
_NULLABLE = 2  # branches of `X | None`


def derive_schema(record: type) -> dict[str, Any]:
    """Return the Avro schema of a record class: nested types in place, docs from docstrings, defaults from defaults.

    Raises TypeError where a type or a default has no Avro form.
    """
    return {"type": "record", "namespace": NAMESPACE} | _record(record, set())


def _record(record: type, named: set[str]) -> dict[str, Any]:
    """Describe a record; `named` holds the types that stand in the schema already and grows."""
    named.add(record.__name__)
    hints = get_type_hints(record)
    docs = docs_under(record)
    described = [_field(field, hints[field.name], docs.get(field.name), named) for field in fields(record)]
    return {"type": "record", "name": record.__name__, "doc": inspect.getdoc(record) or "", "fields": described}


def _field(field: "Field[Any]", hint: Any, doc: str | None, named: set[str]) -> dict[str, Any]:  # noqa: ANN401 - a type
    described: dict[str, Any] = {"name": field.name, "type": _schema(hint, named)}
    if doc:
        described["doc"] = doc
    if field.default is not MISSING:
        described["default"] = _json(field.default)
    elif field.default_factory is not MISSING:
        described["default"] = _json(field.default_factory())
    if isinstance(described["type"], list) and described.get("default") is not None:
        raise TypeError(f"{field.name}: the default of a union must be None, because Avro wants its type first")
    return described


def _schema(hint: Any, named: set[str]) -> Schema:  # noqa: ANN401 - a type
    branches = branches_of(hint)
    if len(branches) == 1:
        return _branch(hint, named)
    if not _PRIMITIVES.keys() >= set(branches) and (NoneType not in branches or len(branches) != _NULLABLE):
        raise TypeError(f"{hint}: a union may hold primitives, or None and one other type")
    return [_branch(branch, named) for branch in sorted(branches, key=lambda branch: branch is not NoneType)]


def _branch(hint: Any, named: set[str]) -> Schema:  # noqa: ANN401 - a type
    if hint is Timestamp:
        return {"type": "long", "logicalType": "timestamp-millis"}
    if bare(hint) in _PRIMITIVES:
        return _PRIMITIVES[bare(hint)]
    if item := item_of(hint):
        return {"type": "array", "items": _schema(item, named)}
    if entry := entry_of(hint):
        return {"type": "map", "values": _schema(entry, named)}
    return _named(hint, named)


def _named(hint: Any, named: set[str]) -> Schema:  # noqa: ANN401 - a type
    """Describe an enum or a record where it is first met, and name it from then on."""
    if not (is_enum(hint) or is_record(hint)):
        raise TypeError(f"{hint} has no Avro form: use records, enums, tuple[X, ...], Mapping[str, X] and primitives")
    if hint.__name__ in named:
        return hint.__name__
    return _enum(hint, named) if is_enum(hint) else _record(hint, named)


def _enum(enum: type[StrEnum], named: set[str]) -> dict[str, Any]:
    """Describe an enum; Avro has no docs of symbols, so they follow the doc of the enum."""
    named.add(enum.__name__)
    symbols = [f"{symbol}: {doc}" for symbol, doc in docs_under(enum).items()]
    doc = "\n".join([inspect.getdoc(enum) or "", *symbols])
    described = {"type": "enum", "name": enum.__name__, "doc": doc, "symbols": [member.value for member in enum]}
    unknown = UNKNOWN_SYMBOLS.get(enum)
    return described if unknown is None else described | {"default": unknown.value}


def docs_under(owner: type) -> dict[str, str]:
    """Read the strings that stand under the fields or members of a class."""
    module = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    docs = {}
    for statement, below in pairwise(module.body[0].body):  # type: ignore[attr-defined] # it is a class
        match statement, below:
            case (
                (ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)])),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                docs[name] = inspect.cleandoc(doc)
            case _:
                pass
    return docs


def _json(default: object) -> object:
    match default:
        case None | str() | int() | float():
            return default
        case ():
            return []
        case Mapping() if not default:
            return {}
        case _:
            raise TypeError(f"{default!r} cannot be the default of a field: Avro wants it written in JSON")
