"""Conditions on chunks, as trees: what the filter language of docs/queries.md says.

A comparison with an attribute that a document lacks, or whose text is no number or time where one is compared, is
false; a negation of it is true. There is no third value.
"""

from enum import StrEnum

from freki.schemas.attribute_values import TimeSpan
from freki.schemas.names import record

NO_PREFIX = "names are encrypted, and cannot be filtered by their beginning: filter by document_id"
"""Why a store that encrypts names refuses a condition on them."""


class Comparator(StrEnum):
    """How a field is compared with a value."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    STARTS_WITH = "STARTS WITH"
    EXISTS = "EXISTS"
    """The document has the attribute; there is no value."""


@record
class Comparison:
    """A field compared with a value."""

    field: str
    """document_id, name, media_type, language, kind, or attributes.KEY."""
    comparator: Comparator
    value: str | float | TimeSpan | None
    """A number or a time compares attributes that say one; a time by its whole span: a day has all of its hours."""


@record
class Negation:
    """What must not hold."""

    of: "Condition"


@record
class AllOf:
    """What must hold together; at least one."""

    of: "tuple[Condition, ...]"


@record
class AnyOf:
    """Of which one must hold; at least one."""

    of: "tuple[Condition, ...]"


Condition = Comparison | Negation | AllOf | AnyOf


def comparisons_of(condition: Condition) -> list[Comparison]:
    """Return all comparisons that a condition makes, in order."""
    match condition:
        case Comparison():
            return [condition]
        case Negation():
            return comparisons_of(condition.of)
        case AllOf() | AnyOf():
            return [comparison for each in condition.of for comparison in comparisons_of(each)]


def fields_of(condition: Condition) -> list[str]:
    """Return the fields that a condition names, each once, in order."""
    return list(dict.fromkeys(each.field for each in comparisons_of(condition)))
