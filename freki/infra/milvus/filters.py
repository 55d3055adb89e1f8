"""Search scopes as Milvus filter expressions: the one place where tenant and access rights become a filter.

Texts are escaped (`escape.armoured`) as in the columns: without quotes, backslashes and control characters no value can
end its literal, whichever grammar parses it.
"""

from collections.abc import Iterable, Iterator

from freki.infra.milvus.escape import escaped, escaped_key
from freki.schemas import ATTRIBUTE_PREFIX, EVERYONE, FILTER_FIELDS, Filter, FilterOperator
from freki.schemas.errors import Rejected
from freki.schemas.index import LeftOut, Scope

_SEVERAL = frozenset({FilterOperator.IN, FilterOperator.NOT_IN})
# Never part of an escaped text, and sorts after all characters that are.
_AFTER_ALL = "\uffff"


def scope_expression(scope: Scope) -> str:
    """Return the condition for rows of the tenant and levels, readable by the principals, that meet all filters.

    Without levels no row matches, and none of a document that is left out. A missing attribute differs from every
    value. Equal scopes give equal expressions, independent of the order of principals and levels. Raises Rejected for
    a filter that breaks its contract.
    """
    return " and ".join(
        [
            f"tenant == {literal(scope.tenant)}",
            f"array_contains_any(principals, {listed({EVERYONE, *scope.principals})})",
            # An empty list is a syntax error; no level is negative.
            f"level in {(not scope.left_out.everything and sorted(set(scope.levels))) or [-1]}",
            *_without(scope.left_out),
            *(_condition(condition) for condition in scope.filters),
        ]
    )


def document_expression(tenant: str | None, prefix: str) -> str:
    """Return the condition for roots of a tenant, None for all, and of documents whose id begins with a prefix."""
    conditions = [] if tenant is None else [f"tenant == {literal(tenant)}"]
    if prefix:
        conditions.append(_begins("document_id", prefix))
    return " and ".join(conditions)


def literal(text: str) -> str:
    """Return a text as a string literal."""
    return f'"{escaped(text)}"'


def listed(texts: Iterable[str]) -> str:
    """Return texts as a list literal, sorted and without duplicates."""
    return f"[{', '.join(literal(text) for text in sorted(set(texts)))}]"


def check_filter(condition: Filter) -> None:
    """Raise Rejected if the field cannot be filtered on or the number of values does not suit the operator."""
    key = condition.field.removeprefix(ATTRIBUTE_PREFIX)
    if condition.field not in FILTER_FIELDS and (key == condition.field or not key):
        fields = f"{', '.join(sorted(FILTER_FIELDS))}, {ATTRIBUTE_PREFIX}KEY"
        raise Rejected(f"{condition.field[:80]!r} cannot be filtered on: use {fields}")
    if not condition.values or (len(condition.values) > 1 and condition.operator not in _SEVERAL):
        raise Rejected(f"{condition.operator} on {condition.field!r} with {len(condition.values)} values")


def _without(left_out: LeftOut) -> Iterator[str]:
    if left_out.roots:
        yield f"root_id not in {listed(left_out.roots)}"
    for group in left_out.attributes:
        others = [f"{_column(ATTRIBUTE_PREFIX + key)} != {literal(value)}" for key, value in group]
        yield f"({' or '.join(others)})"


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
            return _begins(column, value)


def _begins(column: str, prefix: str) -> str:
    # Not LIKE: versions differ in how they escape its wildcards.
    return f'{column} >= {literal(prefix)} and {column} < "{escaped(prefix)}{_AFTER_ALL}"'


def _column(field: str) -> str:
    if field in FILTER_FIELDS:
        return field
    return f'attributes["{escaped_key(field.removeprefix(ATTRIBUTE_PREFIX))}"]'
