"""Convert between records and their protobuf messages, by the names of fields."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_type_hints

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from freki.schemas.avro.hints import branches_of, is_record, item_of
from freki.schemas.proto.derive import value_name

M = TypeVar("M", bound=Message)


class UnknownValueError(ValueError):
    """A value that is no member of its enum."""


def fill(message: M, record: Any) -> M:  # noqa: ANN401 - a record of any type
    """Set the fields of a message to those of a record, and return it; None leaves a field unset."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(record, field.name, None)
        if value is not None:
            _set(message, field, value)
    return message


def _set(message: Message, field: Any, value: Any) -> None:  # noqa: ANN401 - a descriptor, and a value of any type
    if isinstance(value, Mapping):
        getattr(message, field.name).update(value)
    elif isinstance(value, tuple):
        target = getattr(message, field.name)
        if field.message_type is not None and not field.is_repeated:
            target.SetInParent()
            target, field = target.values, field.message_type.fields_by_name["values"]
        for each in value:
            if field.message_type is not None:
                fill(target.add(), each)
            else:
                target.append(_scalar(field.enum_type, each))
    elif field.message_type is not None:
        target = getattr(message, field.name)
        target.SetInParent()
        fill(target, value)
    else:
        setattr(message, field.name, _scalar(field.enum_type, value))


def _scalar(enum: EnumDescriptor | None, value: Any) -> Any:  # noqa: ANN401 - a value of any type
    return value if enum is None else enum.values_by_name[value_name(enum.name, value.name)].number


def values_of(message: Message, record: type) -> dict[str, Any]:
    """Return the fields of a record that a message sets, by name, and those that have no default.

    Raises UnknownValueError, which names the field, for a value of an enum that is missing, or that this release does
    not know.
    """
    return dict(_given(message, record))


def _given(message: Message, record: type, within: str = "") -> Iterator[tuple[str, Any]]:
    described = message.DESCRIPTOR
    for name, (kind, is_required, may_be_none) in _fields_of(record).items():
        if name in described.oneofs_by_name:
            if (chosen := message.WhichOneof(name)) is not None:
                yield name, getattr(message, chosen)
            continue
        field = described.fields_by_name.get(name)
        if field is not None and _is_set(message, field, is_required=is_required):
            yield name, _value(getattr(message, name), field, kind, f"{within}{name}")
        elif is_required and may_be_none:
            yield name, None


def _is_set(message: Message, field: Any, *, is_required: bool) -> bool:  # noqa: ANN401 - a descriptor
    if field.has_presence:
        return bool(message.HasField(field.name))
    return is_required or bool(getattr(message, field.name))


def _value(value: Any, field: Any, kind: Any, path: str) -> Any:  # noqa: ANN401 - a value of any type
    if isinstance(value, Mapping):
        return dict(value)
    if (item := item_of(kind)) is None:
        return _one(value, field.enum_type, kind, path)
    if not field.is_repeated:
        value, field = value.values, field.message_type.fields_by_name["values"]
    return tuple(_one(each, field.enum_type, item, f"{path}.{at}") for at, each in enumerate(value))


def _one(value: Any, enum: EnumDescriptor | None, kind: Any, path: str) -> Any:  # noqa: ANN401 - a value of any type
    if is_record(kind):
        return kind(**dict(_given(value, kind, f"{path}.")))
    if enum is None:
        return value
    known = {value_name(enum.name, member.name): member for member in kind}
    named = enum.values_by_number.get(value)
    if named is None or named.name not in known:
        members = ", ".join(member.name for member in kind)
        raise UnknownValueError(f"{path}: {value} is no {enum.name}; there are: {members}")
    return known[named.name]


@cache
def _fields_of(record: type) -> Mapping[str, tuple[Any, bool, bool]]:
    """Return the type of each field, whether it has no default, and whether it may be None."""
    hints = get_type_hints(record)
    found = {}
    for field in fields(record):
        branches = branches_of(hints[field.name])
        kinds = [kind for kind in branches if kind is not NoneType]
        is_required = field.default is MISSING and field.default_factory is MISSING
        found[field.name] = (kinds[0], is_required, NoneType in branches)
    return found
