"""Search scopes as Milvus filter expressions: the one place where tenant and access rights become a filter.

Texts are escaped (`schemas.escaping`) as in the columns: without quotes, backslashes and control characters no value
can end its literal, whichever grammar parses it.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Literal, NamedTuple

from freki.schemas import ATTRIBUTE_PREFIX, EVERYONE, FILTER_FIELDS, Filter, FilterOperator
from freki.schemas.attribute_values import TimeSpan
from freki.schemas.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Negation, fields_of
from freki.schemas.errors import Rejected
from freki.schemas.escaping import escaped, escaped_key
from freki.schemas.index import Exclusions, Scope
from freki.schemas.stored_attributes import IS_NUMBER, IS_TEXT, IS_TIME, NUMBER, TIME, TYPE

_SEVERAL = frozenset({FilterOperator.IN, FilterOperator.NOT_IN})
# Never part of an escaped text, and sorts after all characters that are.
_AFTER_ALL = "\uffff"
_LEAF_LEVELS = 2
"""Most levels of `and` and `or` within the expression of one comparison."""


class _Part(NamedTuple):
    text: str
    levels: int = _LEAF_LEVELS
    """Levels of `and` and `or` in it, at most."""


def scope_expression(scope: Scope) -> str:
    """Return the condition for rows of the tenant and levels, readable by the principals, that meet all filters.

    Without levels no row matches, and none of a document that is left out. A missing attribute differs from every
    value. Equal scopes give equal expressions, independent of the order of principals and levels. Raises Rejected for
    a filter that breaks its contract.
    """
    return _joined(
        "and",
        [
            _Part(f"tenant == {literal(scope.tenant)}"),
            _Part(_readable_by(scope.principals)),
            # An empty list is a syntax error; no level is negative.
            _Part(f"level in {(not scope.left_out.everything and sorted(set(scope.levels))) or [-1]}"),
            *_without(scope.left_out),
            *(_Part(_condition(condition)) for condition in scope.filters),
            *([] if scope.where is None else [_expression(scope.where, negated=False)]),
        ],
    ).text


def _joined(word: Literal["and", "or"], parts: Iterable[_Part]) -> _Part:
    """Join parts by a word, with as few levels as possible.

    Milvus reads `a and b and c` as `(a and b) and c`, and cannot read some 50 levels: its plans are Protocol Buffers,
    whose messages may be 100 deep, and each level takes two.
    """
    # The order decides between equal levels, so that equal parts give equal expressions.
    order = count()
    heap = [(part.levels, next(order), part.text) for part in parts]
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, _, first), (levels, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (levels + 1, next(order), f"({first} {word} {second})"))
    [(levels, _, text)] = heap
    return _Part(text, levels)


def _readable_by(principals: Iterable[str]) -> str:
    """Return the condition for rows that everyone may read, or one of these principals."""
    named = set(principals) - {EVERYONE}
    return f"(public == true or array_contains_any(principals, {listed(named)}))" if named else "public == true"


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
    _key(condition.field)
    if not condition.values or (len(condition.values) > 1 and condition.operator not in _SEVERAL):
        raise Rejected(f"{condition.operator} on {condition.field!r} with {len(condition.values)} values")


def _without(left_out: Exclusions) -> Iterator[_Part]:
    if left_out.roots:
        yield _Part(f"root_id not in {listed(left_out.roots)}")
    # Many people object by one attribute: a list is compared much faster than each of its values.
    alone: defaultdict[str, list[str]] = defaultdict(list)
    for group in left_out.attributes:
        others = [(_column(ATTRIBUTE_PREFIX + key), value) for key, value in group]
        if len(others) == 1:
            [(column, value)] = others
            alone[column].append(value)
        else:
            yield _joined("or", [_Part(f"{column} != {literal(value)}") for column, value in others])
    for column, values in alone.items():
        yield _Part(f"{column} not in {listed(values)}")


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


def _expression(condition: Condition, *, negated: bool) -> _Part:
    """Return a condition of the filter language, or its negation.

    Milvus Lite knows neither `not` nor `exists`, and versions of the server differ in what `not` makes of a missing
    key. So negations are moved to the comparisons, and the type of an attribute says whether there is one: `!=` and
    `not in` hold for a key that is missing.
    """
    match condition:
        case Comparison():
            return _Part(_comparison(condition, negated=negated))
        case Negation():
            return _expression(condition.of, negated=not negated)
        case AnyOf() if column := _listed_column(condition):
            values = [str(each.value) for each in condition.of if isinstance(each, Comparison)]
            return _Part(f"{column} {'not in' if negated else 'in'} {listed(values)}")
        case AllOf() | AnyOf():
            word: Literal["and", "or"] = "and" if isinstance(condition, AllOf) is not negated else "or"
            return _joined(word, [_expression(each, negated=negated) for each in condition.of])


def _listed_column(condition: AnyOf) -> str | None:
    """Return the column that is compared with several texts, so that they are one list; None for another condition."""
    if not all(
        isinstance(each, Comparison) and each.comparator is Comparator.EQUAL and isinstance(each.value, str)
        for each in condition.of
    ):
        return None
    fields = set(fields_of(condition))
    return _column(fields.pop()) if len(fields) == 1 else None


def _comparison(comparison: Comparison, *, negated: bool) -> str:
    field, comparator, value = comparison.field, comparison.comparator, comparison.value
    if _key(field) is None and not isinstance(value, str):
        raise Rejected(f"{comparator} does not compare {field!r} with {value!r}: it is a text")
    match value:
        case None:
            return f"{_column(field, TYPE)} {'not in' if negated else 'in'} {listed((IS_NUMBER, IS_TEXT, IS_TIME))}"
        case str() if comparator is Comparator.EQUAL:
            return f"{_column(field)} {'!=' if negated else '=='} {literal(value)}"
        case str():
            return _begins_not(field, value) if negated else f"({_begins(_column(field), value)})"
        case TimeSpan():
            return _ranged(comparison, TIME, IS_TIME, (value.start, value.end), negated=negated)
        case _:
            return _ranged(comparison, NUMBER, IS_NUMBER, (value, None), negated=negated)


def _ranged(comparison: Comparison, copy: str, is_type: str, span: tuple[float, float | None], *, negated: bool) -> str:
    """Compare the copy of an attribute as a number or a time; span: half-open, or a value alone if it has no end."""
    column, (low, end) = _column(comparison.field, copy), span
    before, since = f"{column} < {low!r}", f"{column} >= {low!r}"
    until, after = (
        (f"{column} <= {low!r}", f"{column} > {low!r}")
        if end is None
        else (f"{column} < {end!r}", f"{column} >= {end!r}")
    )
    holds, fails = {
        Comparator.LESS: (before, since),
        Comparator.AT_LEAST: (since, before),
        Comparator.AT_MOST: (until, after),
        Comparator.GREATER: (after, until),
        Comparator.EQUAL: (f"({since} and {until})", f"{before} or {after}"),
    }[comparison.comparator]
    return f"({fails} or {_column(comparison.field, TYPE)} != {literal(is_type)})" if negated else holds


def _begins(column: str, prefix: str) -> str:
    # Not LIKE: versions differ in how they escape its wildcards.
    return f"{column} >= {literal(prefix)} and {column} < {_end_of(prefix)}"


def _begins_not(field: str, prefix: str) -> str:
    column = _column(field)
    missing = [] if field in FILTER_FIELDS else [_comparison(_exists(field), negated=True)]
    return f"({' or '.join([f'{column} < {literal(prefix)}', f'{column} >= {_end_of(prefix)}', *missing])})"


def _end_of(prefix: str) -> str:
    return f'"{escaped(prefix)}{_AFTER_ALL}"'


def _exists(field: str) -> Comparison:
    return Comparison(field=field, comparator=Comparator.EXISTS, value=None)


def _column(field: str, copy: str = "") -> str:
    """Return the column or key of a field; copy: of an attribute, as a number, a time or a type."""
    key = _key(field)
    return field if key is None else f'attributes["{copy}{escaped_key(key)}"]'


def _key(field: str) -> str | None:
    """Return the key of an attribute, or None for another field. Raises Rejected for what is no field."""
    if field in FILTER_FIELDS:
        return None
    key = field.removeprefix(ATTRIBUTE_PREFIX)
    if key == field or not key:
        fields = f"{', '.join(sorted(FILTER_FIELDS))}, {ATTRIBUTE_PREFIX}KEY"
        raise Rejected(f"{field[:80]!r} cannot be filtered on: use {fields}")
    return key
