"""Attributes fit the columns of the store if, and only if, they are counted to."""

import json

from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.stored_attributes import attributes_bytes, attributes_column, attributes_of

texts = st.text(st.characters(codec="utf-8"))
values = texts | st.from_regex(r"[+-]?[0-9]{1,15}(\.[0-9]{1,3})?", fullmatch=True) | st.dates().map(str)
attributes = st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), values, max_size=5)


def stored_bytes(column: object) -> int:
    return len(json.dumps(column, ensure_ascii=False).encode())


@given(attributes)
def test_they_come_back(given: dict[str, str]) -> None:
    assert attributes_of(attributes_column(given)) == given


@given(attributes)
def test_both_columns_are_counted_and_each_attribute_counts_for_itself(given: dict[str, str]) -> None:
    size = attributes_bytes(given)

    assert size == max(stored_bytes(given), stored_bytes(attributes_column(given)))
    assert size <= max(2, sum(attributes_bytes({key: value}) for key, value in given.items()))
