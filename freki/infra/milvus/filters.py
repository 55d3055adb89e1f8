"""What a search may see, as an expression of Milvus: the one place where tenant and access become a filter.

Texts stand in it armoured (`escape.armoured`), as in the columns: no quote, backslash or control character is left to
escape, so that no value can end its literal, whichever grammar reads it.
"""

from collections.abc import Iterable

from freki.infra.milvus.escape import armoured, armoured_key
from freki.schemas import ATTRIBUTE_PREFIX, EVERYONE, FILTER_FIELDS, Filter, FilterOperator
from freki.schemas.errors import Rejected
from freki.schemas.index import Scope

_SEVERAL = frozenset({FilterOperator.IN, FilterOperator.NOT_IN})
# No armoured text holds it, and it sorts after all that they hold.
_AFTER_ALL = "\uffff"


def scope_expression(scope: Scope) -> str:
    """Allow the rows of the tenant, of these levels, for these principals or everyone, that meet all filters.

    Nothing is allowed without a level. An attribute that is missing differs from every value. Equal scopes give
    equal expressions, whatever the order of principals and levels. Raises Rejected for a filter that breaks its
    contract.
    """
    return " and ".join(
        [
            f"tenant == {literal(scope.tenant)}",
            f"array_contains_any(principals, {listed({EVERYONE, *scope.principals})})",
            # An empty list is a syntax error; no level is negative.
            f"level in {sorted(set(scope.levels)) or [-1]}",
            *(_condition(condition) for condition in scope.filters),
        ]
    )


def literal(text: str) -> str:
    """Quote a text."""
    return f'"{armoured(text)}"'


def listed(texts: Iterable[str]) -> str:
    """Quote texts, in an order that does not depend on theirs."""
    return f"[{', '.join(literal(text) for text in sorted(set(texts)))}]"


def check_filter(condition: Filter) -> None:
    """Raise Rejected if the filter names no filterable field or has not as many values as its operator wants."""
    key = condition.field.removeprefix(ATTRIBUTE_PREFIX)
    if condition.field not in FILTER_FIELDS and (key == condition.field or not key):
        fields = f"{', '.join(sorted(FILTER_FIELDS))}, {ATTRIBUTE_PREFIX}KEY"
        raise Rejected(f"{condition.field[:80]!r} cannot be filtered on: use {fields}")
    if not condition.values or (len(condition.values) > 1 and condition.operator not in _SEVERAL):
        raise Rejected(f"{condition.operator} on {condition.field!r} with {len(condition.values)} values")


def _condition(condition: Filter) -> str:
    check_filter(condition)
    column, value = _column(condition.field), condition.values[0]
    match condition.operator:
        case FilterOperator.EQ:
            return f"{column} == {literal(value)}"
        case FilterOperator.NE:
            return f"{column} != {literal(value)}"
        case FilterOperator.IN:
            return f"{column} in {listed(condition.values)}"
        case FilterOperator.NOT_IN:
            return f"{column} not in {listed(condition.values)}"
        case FilterOperator.PREFIX:
            # Not LIKE, whose wildcards each version escapes in its own way.
            return f'{column} >= {literal(value)} and {column} < "{armoured(value)}{_AFTER_ALL}"'


def _column(field: str) -> str:
    if field in FILTER_FIELDS:
        return field
    return f'attributes["{armoured_key(field.removeprefix(ATTRIBUTE_PREFIX))}"]'
