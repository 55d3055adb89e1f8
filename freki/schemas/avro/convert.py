"""Conversion of records to the plain values of fastavro and back. Types are inspected once per class."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter, index
from types import NoneType
from typing import Any, get_type_hints

from freki.schemas.avro.hints import bare, branches_of, is_enum, is_record, item_of

Convert = Callable[[Any], Any]


class UnfitError(ValueError):
    """A field holds what its type does not allow; the message names it, without its value."""


@cache
def to_plain(record: type) -> Convert:
    """Return the function that turns a record into nested dicts.

    Enums and tuples are unchanged: fastavro writes them as their value and as arrays. The function raises UnfitError.
    """
    names = tuple(field.name for field in fields(record))
    # With a single name attrgetter returns no tuple; zip drops the surplus.
    values = attrgetter(*names, names[0])
    nested = _nested(record, _value_to_plain)
    hints = get_type_hints(record)

    def convert(value: object) -> dict[str, Any]:
        plain = dict(zip(names, values(value), strict=False))
        for name, inner in nested:
            try:
                plain[name] = inner(plain[name])
            except (TypeError, AttributeError) as error:
                raise UnfitError(f"freki.{record.__name__}.{name} must be {_described(hints[name])}") from error
        return plain

    return convert


@cache
def from_plain(record: type) -> Convert:
    """Return the function that turns what fastavro read into a record; it may change its argument."""
    nested = _nested(record, _value_from_plain)

    def convert(plain: dict[str, Any]) -> object:
        for name, inner in nested:
            plain[name] = inner(plain[name])
        return record(**plain)

    return convert


def _nested(record: type, converter: Callable[[Any], Convert | None]) -> list[tuple[str, Convert]]:
    hints = get_type_hints(record)
    converters = ((field.name, converter(hints[field.name])) for field in fields(record))
    return [(name, convert) for name, convert in converters if convert is not None]


def _value_to_plain(hint: Any) -> Convert | None:  # noqa: ANN401 - a type
    """None: the value is plain as it is."""
    hint, optional = _without_null(hint)
    if is_record(hint):
        return _but_none(to_plain(hint), optional=optional)
    if hint is int and not optional:
        # Fastavro would cut a float off; where null is allowed too, it looks at the type.
        return index
    if (item := item_of(hint)) and (convert := _value_to_plain(item)):
        return _but_none(_each(convert, list), optional=optional)
    return None


def _value_from_plain(hint: Any) -> Convert | None:  # noqa: ANN401 - a type
    """None: the value is right as it was read."""
    hint, optional = _without_null(hint)
    if is_record(hint):
        return _but_none(from_plain(hint), optional=optional)
    if is_enum(hint):
        return _but_none({member.value: member for member in hint}.__getitem__, optional=optional)
    if item := item_of(hint):
        convert = _value_from_plain(item)
        return _but_none(_each(convert, tuple) if convert else tuple, optional=optional)
    return None


def _each(convert: Convert, collect: Callable[[Any], Any]) -> Convert:
    return lambda values: collect([convert(value) for value in values])


def _but_none(convert: Convert, *, optional: bool) -> Convert:
    return (lambda value: None if value is None else convert(value)) if optional else convert


def _without_null(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type
    """Take `X | None` apart; a union of several types, such as text or bytes, is plain whichever it holds."""
    branches = [branch for branch in branches_of(hint) if branch is not NoneType]
    return bare(branches[0]) if len(branches) == 1 else hint, len(branches) < len(branches_of(hint))


def _described(hint: Any) -> str:  # noqa: ANN401 - a type
    hint, _ = _without_null(hint)
    item = item_of(hint)
    return f"a list of {bare(item).__name__}" if item else str(bare(hint).__name__)
