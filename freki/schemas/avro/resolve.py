"""Read what another version of a contract wrote: plain values in, plain values of the record class out.

Follows the Avro specification, "Schema Resolution", on values instead of schemas: fields match by name, surplus ones
are dropped, missing ones take their default, unknown symbols the default of their enum. fastavro's own resolution is
not used: of the union of string and bytes it takes the first branch that bytes can be promoted to, so that the bytes
of a file come back as text or not at all (fastavro 1.13.1).
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

from freki.schemas.avro.hints import bare, branches_of, entry_of, is_enum, is_record, item_of
from freki.schemas.context_result import NoticeKind, ResultStatus
from freki.schemas.erasure import ErasureStatus
from freki.schemas.names import ChunkKind
from freki.schemas.query_analysis import ExactKind, QueryType, TypedBy

# Enums of commands are missing on purpose: an unknown operation or filter must fail, not be replaced.
UNKNOWN_SYMBOLS: Mapping[type[StrEnum], StrEnum] = {
    ChunkKind: ChunkKind.PROSE,
    ErasureStatus: ErasureStatus.INCOMPLETE,
    ExactKind: ExactKind.IDENTIFIER,
    NoticeKind: NoticeKind.DEGRADED,
    QueryType: QueryType.FACTUAL,
    ResultStatus: ResultStatus.DEGRADED,
    TypedBy: TypedBy.NOTHING,
}
"""Replacement of unknown symbols of later versions, by enum."""

Resolve = Callable[[Any], Any]

_PROMOTIONS: Mapping[type, dict[type, Resolve]] = {
    float: {int: float},
    str: {bytes: bytes.decode},
    bytes: {str: str.encode},
}


class UnresolvableError(ValueError):
    """The value does not fit the record; the message names the field."""


@cache
def resolve(record: type) -> Resolve:
    """Return the function that turns a dict of another version into one of this class."""
    hints = get_type_hints(record)
    readers = [(field, _reader(hints[field.name], f"{record.__name__}.{field.name}")) for field in fields(record)]

    def resolve_fields(plain: dict[str, Any]) -> dict[str, Any]:
        return {
            field.name: read(plain[field.name]) if field.name in plain else _default(record, field)
            for field, read in readers
        }

    return resolve_fields


def _reader(hint: Any, place: str) -> Resolve:  # noqa: ANN401 - a type
    """Return the reader of a type; in unions an exact branch takes precedence over a promotion."""
    branches = [bare(branch) for branch in branches_of(hint)]
    by_type: dict[type, Resolve] = {}
    for branch in branches:
        by_type |= _PROMOTIONS.get(branch, {})
    for branch in branches:
        by_type |= _exact(branch, place)

    def read(value: object) -> object:
        reader = by_type.get(type(value))
        if reader is None:
            raise UnresolvableError(f"{place} cannot be of type {type(value).__name__}")
        return reader(value)

    return read


def _exact(branch: Any, place: str) -> dict[type, Resolve]:  # noqa: ANN401 - a type
    if is_record(branch):
        return {dict: resolve(branch)}
    if is_enum(branch):
        return {str: _symbol(branch, place)}
    if item := item_of(branch):
        read_item = _reader(item, place)
        return {list: lambda values: [read_item(value) for value in values]}
    if entry := entry_of(branch):
        read_entry = _reader(entry, place)
        return {dict: lambda entries: {key: read_entry(value) for key, value in entries.items()}}
    return {branch: lambda value: value}


def _symbol(enum: type[StrEnum], place: str) -> Resolve:
    known = {member.value for member in enum}
    unknown = UNKNOWN_SYMBOLS.get(enum)

    def read(symbol: str) -> str:
        if symbol in known:
            return symbol
        if unknown is None:
            raise UnresolvableError(f"{place} is {symbol}, which this version does not know")
        return unknown.value

    return read


def _default(record: type, field: "Field[Any]") -> Any:  # noqa: ANN401 - a value of the field
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise UnresolvableError(f"{record.__name__}.{field.name} is missing and has no default")
