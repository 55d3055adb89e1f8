"""What conditions of the filter language mean: a model that the fake index evaluates and the store is compared with."""

import re
from datetime import UTC, datetime

from freki.schemas import ATTRIBUTE_PREFIX
from freki.schemas.attribute_values import TimeSpan
from freki.schemas.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Negation
from freki.schemas.index import IndexedChunk


def holds(condition: Condition, row: IndexedChunk) -> bool:
    """Tell whether a row meets a condition."""
    match condition:
        case Negation():
            return not holds(condition.of, row)
        case AllOf():
            return all(holds(each, row) for each in condition.of)
        case AnyOf():
            return any(holds(each, row) for each in condition.of)
        case Comparison():
            text = _text(condition.field, row)
            return text is not None and _compared(condition, text)


def _text(field: str, row: IndexedChunk) -> str | None:
    if field.startswith(ATTRIBUTE_PREFIX):
        return row.attributes.get(field.removeprefix(ATTRIBUTE_PREFIX))
    return str(getattr(row, field))


def _compared(condition: Comparison, text: str) -> bool:
    match condition.value:
        case None:
            return True
        case str() if condition.comparator is Comparator.EQUAL:
            return text == condition.value
        case str():
            return text.startswith(condition.value)
        case TimeSpan():
            said = milliseconds(text)
            return said is not None and _ordered(
                condition.comparator, said, condition.value.start, condition.value.end - 1
            )
        case _:
            number = float(text) if re.fullmatch(r"[+-]?[0-9]{1,15}([.][0-9]{1,15})?", text) else None
            return number is not None and _ordered(condition.comparator, number, condition.value, condition.value)


def _ordered(comparator: Comparator, said: float, first: float, last: float) -> bool:
    """Compare with a value, or with all milliseconds of a span."""
    match comparator:
        case Comparator.LESS:
            return said < first
        case Comparator.AT_MOST:
            return said <= last
        case Comparator.GREATER:
            return said > last
        case Comparator.AT_LEAST:
            return said >= first
        case _:
            return first <= said <= last


def milliseconds(text: str) -> int | None:
    """Read the time that a text says, by other means than the code under test."""
    for form in (
        "%Y-%m-%d",
        "%d.%m.%Y",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%dT%H:%M%z",
        "%Y-%m-%dT%H:%M:%S.%f%z",
    ):
        try:
            said = datetime.strptime(text, form)  # noqa: DTZ007 - not all have a zone
        except ValueError:
            continue
        moment = said if said.tzinfo else said.replace(tzinfo=UTC)
        return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    return None
