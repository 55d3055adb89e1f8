"""Derive protobuf messages from records. Reads the classes' source, so it runs only to write the contract.

A field keeps its number for ever; that of a field which is gone stays reserved. Units, defaults and rules are those of
the record; what a record calls null is a field that is not set.
"""

import inspect
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import NoneType
from typing import Any, get_type_hints

from freki.schemas.avro.derive import docs_under
from freki.schemas.avro.hints import bare, branches_of, entry_of, is_enum, is_record, item_of
from freki.schemas.names import Timestamp

WIDTH = 116
LONG = frozenset({"version", "age_ms", "cached_ms"})
"""Integers that 32 bits do not hold, besides times."""
_SCALARS = {bool: "bool", int: "int32", float: "double", str: "string", bytes: "bytes"}


@dataclass(frozen=True, slots=True)
class UsedNumbers:
    """Numbers in use."""

    fields: Mapping[str, int] = field(default_factory=dict)
    reserved: Collection[int] = ()


def derive_messages(
    roots: Mapping[str, tuple[type, Collection[str]]],
    taken: Mapping[str, UsedNumbers],
    *,
    optional: Collection[str] = (),
) -> str:
    """Return the messages of records, and of all that they hold.

    roots: record and names of fields that are left out, by the name of the message. taken: numbers by message or enum.
    optional: fields of the roots that may be left out although the records have no default for them.
    """
    return _Writer(taken).write(roots, optional)


class _Writer:
    def __init__(self, taken: Mapping[str, UsedNumbers]) -> None:
        self._taken = taken
        self._written: dict[str, list[str]] = {}
        self._waiting: list[type] = []

    def write(self, roots: Mapping[str, tuple[type, Collection[str]]], optional: Collection[str]) -> str:
        for name, (record, left_out) in roots.items():
            self._written[name] = self._message(name, record, left_out, optional)
        while self._waiting:
            kind = self._waiting.pop(0)
            if kind.__name__ not in self._written:
                write = self._enum if is_enum(kind) else self._message
                self._written[kind.__name__] = write(kind.__name__, kind)
        return "\n".join("\n".join([*lines, ""]) for lines in self._written.values())

    def _message(
        self, name: str, record: type, left_out: Collection[str] = (), optional: Collection[str] = ()
    ) -> list[str]:
        hints, docs = get_type_hints(record), docs_under(record)
        lines = [*_comment(inspect.getdoc(record) or "", ""), f"message {name} {{"]
        kept = [each.name for each in fields(record) if each.name not in left_out]
        numbers = _Numbers(self._taken.get(name, UsedNumbers()))
        for each in kept:
            lines += _comment(docs.get(each, ""))
            lines += self._field(each, hints[each], numbers, is_optional=each in optional)
        return [*lines, *numbers.reserved(), "}"]

    def _field(self, name: str, hint: Any, numbers: "_Numbers", *, is_optional: bool) -> Iterator[str]:  # noqa: ANN401 - a type
        branches = [branch for branch in branches_of(hint) if branch is not NoneType]
        is_optional = is_optional or NoneType in branches_of(hint)
        if set(branches) == {str, bytes}:
            yield f"  oneof {name} {{"
            for one, kind in (("text", "string"), ("file", "bytes")):
                yield f"    {kind} {one} = {numbers.of(one)};"
            yield "  }"
            return
        (kind,) = branches
        if item := item_of(kind):
            if is_optional and is_enum(item):
                # An empty list says something else than none.
                yield f"  {self._list_of(item)} {name} = {numbers.of(name)};"
            else:
                yield f"  repeated {self._type(item, name)} {name} = {numbers.of(name)};"
        elif entry := entry_of(kind):
            yield f"  map<string, {self._type(entry, name)}> {name} = {numbers.of(name)};"
        else:
            optional = "optional " if is_optional and not is_record(kind) else ""
            yield f"  {optional}{self._type(kind, name)} {name} = {numbers.of(name)};"

    def _type(self, hint: Any, name: str) -> str:  # noqa: ANN401 - a type
        if hint is Timestamp or (bare(hint) is int and name in LONG):
            return "int64"
        if bare(hint) in _SCALARS:
            return _SCALARS[bare(hint)]
        self._waiting.append(hint)
        return str(hint.__name__)

    def _list_of(self, item: type) -> str:
        name = f"{item.__name__}List"
        self._written[name] = [f"message {name} {{", f"  repeated {self._type(item, '')} values = 1;", "}"]
        return name

    def _enum(self, name: str, kind: type[StrEnum]) -> list[str]:
        docs, numbers = docs_under(kind), _Numbers(self._taken.get(name, UsedNumbers()))
        lines = [*_comment(inspect.getdoc(kind) or "", ""), f"enum {name} {{"]
        lines.append(f"  {value_name(name, 'UNSPECIFIED')} = 0;")
        for member in kind:
            value = value_name(name, member.name)
            lines += [*_comment(docs.get(member.name, "")), f"  {value} = {numbers.of(value)};"]
        return [*lines, *numbers.reserved(), "}"]


class _Numbers:
    """Gives each field the number that it has, or the next one that nobody had."""

    def __init__(self, taken: UsedNumbers) -> None:
        self._taken = taken
        self._used: set[str] = set()
        self._last = max([0, *taken.fields.values(), *taken.reserved])

    def of(self, name: str) -> int:
        self._used.add(name)
        if name in self._taken.fields:
            return self._taken.fields[name]
        self._last += 1
        return self._last

    def reserved(self) -> list[str]:
        gone = {number for name, number in self._taken.fields.items() if name not in self._used and number}
        numbers: Sequence[int] = sorted({*self._taken.reserved, *gone})
        return [f"  reserved {', '.join(map(str, numbers))};"] if numbers else []


def value_name(enum: str, member: str) -> str:
    """Return the name of a value of an enum: they are unique within a package, so the enum's name precedes it."""
    return f"{re.sub('(?<=[a-z])(?=[A-Z])', '_', enum).upper()}_{member}"


def _comment(text: str, indent: str = "  ") -> list[str]:
    lines = textwrap.wrap(" ".join(text.split()), WIDTH - len(indent) - 3)
    return [f"{indent}// {line}" for line in lines]
