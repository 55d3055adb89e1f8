"""Inspection of type hints, in the forms that records use."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin


def bare(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return the base type of an id or a time; any other type unchanged."""
    return getattr(hint, "__supertype__", hint)


def branches_of(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type
    """Return the types that a value may have: one, unless it is a union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def is_record(hint: Any) -> TypeGuard[type]:  # noqa: ANN401 - a type
    """Return whether values are records themselves."""
    return isinstance(hint, type) and is_dataclass(hint)


def is_enum(hint: Any) -> TypeGuard[type[StrEnum]]:  # noqa: ANN401 - a type
    """Return whether values are members of an enum."""
    return isinstance(hint, type) and issubclass(hint, StrEnum)


def item_of(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return X for `tuple[X, ...]`, else None."""
    return get_args(hint)[0] if get_origin(hint) is tuple and get_args(hint)[1:] == (...,) else None


def entry_of(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return X for `Mapping[str, X]`, else None."""
    return get_args(hint)[1] if get_origin(hint) is Mapping and get_args(hint)[0] is str else None
