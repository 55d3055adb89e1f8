"""Query options in one line: `alpha=0.4,fusion=rrf`."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from enum import StrEnum
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import validate_query
from freki.schemas import ContextQuery, QueryId, TenantId, Timestamp
from freki.schemas.names import record
from freki.schemas.query_options import QUERY_OPTIONS

_OTHER_FIELDS = frozenset({"kind", "levels", "language", "target_model"})
"""Fields of ContextQuery that a configuration may set although they are not query options."""
NONE = "none"
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@record
class Configuration:
    """Query options of a run; all others are as set for the retrieve stage."""

    text: str
    """Original text; empty: no override."""
    overrides: Mapping[str, object]
    """Values by field of ContextQuery."""

    def applied(self, query: ContextQuery) -> ContextQuery:
        """Return the query with these options."""
        return replace(query, **self.overrides)  # type: ignore[arg-type] # converted by the types of the fields


def parse_configuration(text: str) -> Configuration:
    """Parse `name=value` pairs separated by commas; lists are joined by `+`, such as `1+2`, or `none` if empty.

    Raises InvalidQuery, naming what is allowed, for an unknown or repeated name or an invalid value.
    """
    overrides: dict[str, object] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not sign or name not in _options():
            raise InvalidQuery(f"{pair!r}: write name=value with a name of {', '.join(_options())}")
        if name in overrides:
            raise InvalidQuery(f"{name} is given twice in {text!r}")
        try:
            overrides[name] = _options()[name](value)
        except ValueError as error:
            raise InvalidQuery(f"{name}={value}: {error}") from error
    configuration = Configuration(
        text=", ".join(f"{name}={format_value(overrides[name])}" for name in overrides), overrides=overrides
    )
    probe = ContextQuery(query_id=QueryId("probe"), tenant=TenantId("probe"), text="probe", asked_at=Timestamp(0))
    validate_query(configuration.applied(probe))
    return configuration


def _options() -> dict[str, Callable[[str], object]]:
    """Return the query fields that a configuration may set, with parsers of their values."""
    hints = get_type_hints(ContextQuery)
    allowed = _OTHER_FIELDS | {option.name for option in QUERY_OPTIONS.values() if option.in_query}
    return {field.name: _reader(hints[field.name]) for field in fields(ContextQuery) if field.name in allowed}


def _reader(hint: Any) -> Callable[[str], object]:  # noqa: ANN401 - a type
    (given,) = [each for each in get_args(hint) if each is not type(None)] or [hint]
    if get_origin(given) is tuple:
        item = get_args(given)[0]
        return partial(_choices, item) if issubclass(item, StrEnum) else _levels
    if issubclass(given, StrEnum):
        return partial(_choice, given)
    readers: dict[type, Callable[[str], object]] = {bool: _truth, int: _whole, float: _number, str: str}
    return readers[given]


def _whole(value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise ValueError("give a whole number") from error


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise ValueError("give a number") from error


def _levels(value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split("+"))
    except ValueError as error:
        raise ValueError("give numbers joined by +, such as 1+2") from error


def _truth(value: str) -> bool:
    if value.lower() not in _TRUTHS:
        raise ValueError(f"give one of {', '.join(_TRUTHS)}")
    return _TRUTHS[value.lower()]


def _choice(kind: type[StrEnum], value: str) -> StrEnum:
    if value.upper() not in set(kind):
        raise ValueError(f"give one of {', '.join(each.lower() for each in kind)}")
    return kind(value.upper())


def _choices(kind: type[StrEnum], value: str) -> tuple[StrEnum, ...]:
    named = "" if value.lower() == NONE else value
    return tuple(_choice(kind, part) for part in filter(None, named.split("+")))


def format_value(value: object) -> str:
    """Format a value as in a configuration."""
    return ("+".join(map(str, value)) or NONE if isinstance(value, tuple) else str(value)).lower()
