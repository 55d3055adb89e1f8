"""Random conditions of the filter language, as trees and as texts, and random rows that they may meet."""

from hypothesis import strategies as st

from freki.schemas import ATTRIBUTE_PREFIX, ChunkKind
from freki.schemas.attribute_values import TimeSpan, time_of
from freki.schemas.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Negation

KEYS = ("year", "day", 'odd "key" ä')
TEXTS = ("", "a", "ab", "abc", "b", "%_", "o'clock", '"quoted"', "Entwurf 2", "ä", "😀", "and")
NUMBERS = ("0", "-1", "2023", "2024", "2024.0", "2024.5", "007", "+3", "1e3", "1.234,5")
DAYS = ("2026-01-01", "31.12.2025", "2026-01-01T00:00", "2026-01-01T23:59:59", "2025-12-31T23:30+01:00", "2026-02-30")
VALUES = (*TEXTS, *NUMBERS, *DAYS)
"""Values of attributes: some are numbers or times, and some nearly."""
_RANGES = (Comparator.LESS, Comparator.AT_MOST, Comparator.GREATER, Comparator.AT_LEAST)

_numbers = st.sampled_from([-1.0, 0.0, 3.0, 7.0, 2023.0, 2024.0, 2024.5])
_times = st.sampled_from([span for text in DAYS if (span := time_of(text)) is not None])
_keys = st.sampled_from([f"{ATTRIBUTE_PREFIX}{key}" for key in KEYS])
_columns = st.sampled_from(["document_id", "name", "media_type", "language"])


def _comparisons() -> st.SearchStrategy[Condition]:
    def of(
        fields: st.SearchStrategy[str], comparators: tuple[Comparator, ...], values: st.SearchStrategy[object]
    ) -> st.SearchStrategy[Condition]:
        return st.builds(Comparison, field=fields, comparator=st.sampled_from(comparators), value=values)

    texts = st.sampled_from(TEXTS)
    return st.one_of(
        of(st.one_of(_keys, _columns), (Comparator.EQUAL,), texts),
        # Encrypted names have no beginning.
        of(st.one_of(_keys, _columns.filter(lambda field: field != "name")), (Comparator.STARTS_WITH,), texts),
        of(st.just("kind"), (Comparator.EQUAL,), st.sampled_from([kind.value for kind in ChunkKind])),
        of(_keys, (Comparator.EQUAL, *_RANGES), st.one_of(_numbers, _times)),
        of(_keys, (Comparator.EXISTS,), st.none()),
    )


conditions: st.SearchStrategy[Condition] = st.recursive(
    _comparisons(),
    lambda inner: st.one_of(
        st.builds(Negation, of=inner),
        st.builds(AllOf, of=st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(AnyOf, of=st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)
attributes = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)


def written(condition: Condition) -> str:
    """Write a condition in the filter language, with all parentheses."""
    match condition:
        case Negation():
            return f"NOT ({written(condition.of)})"
        case AllOf():
            return " AND ".join(f"({written(each)})" for each in condition.of)
        case AnyOf():
            return " or ".join(f"({written(each)})" for each in condition.of)
        case Comparison(value=None):
            return f"{_field(condition.field)} EXISTS"
        case Comparison():
            return f"{_field(condition.field)} {condition.comparator} {_value(condition.value)}"


def _field(field: str) -> str:
    key = field.removeprefix(ATTRIBUTE_PREFIX)
    return field if key == field else f'attribute."{key.replace(chr(34), chr(34) * 2)}"'


def _value(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, TimeSpan):
        return next(text for text in DAYS if time_of(text) == value)
    return f"{value:g}"
