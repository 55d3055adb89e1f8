"""Hypothesis strategies: any value of any record, built from the types of its fields."""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from freki.schemas import Timestamp

T = TypeVar("T")

_END_OF_2099 = 4_102_444_800_000

_PRIMITIVES: dict[Any, st.SearchStrategy[Any]] = {
    type(None): st.none(),
    bool: st.booleans(),
    int: st.integers(min_value=-(2**63), max_value=2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    Timestamp: st.integers(min_value=0, max_value=_END_OF_2099),
}


def records(record: type[T]) -> st.SearchStrategy[T]:
    """Give any record of a class that its types allow, whatever the contract of its fields says in words."""
    hints = get_type_hints(record)
    return st.builds(record, **{field.name: _values(hints[field.name]) for field in fields(record)})  # type: ignore[arg-type] # a record


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    if hasattr(hint, "__supertype__"):
        return _values(hint.__supertype__)
    return _composite(hint, get_origin(hint), get_args(hint))


def _composite(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin in (Union, UnionType):
        return st.one_of([_values(branch) for branch in arguments])
    if origin is tuple:
        return st.lists(_values(arguments[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(_PRIMITIVES[str], _values(arguments[1]), max_size=3)
    return st.sampled_from(hint) if issubclass(hint, StrEnum) else records(hint)
