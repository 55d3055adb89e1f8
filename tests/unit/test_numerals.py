import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.numerals import roman, value_of_roman


@given(st.integers(1, 3999))
def test_a_numeral_has_the_value_that_it_was_made_from(number: int) -> None:
    assert value_of_roman(roman(number)) == value_of_roman(roman(number).upper()) == number


def test_other_signs_have_no_value() -> None:
    with pytest.raises(KeyError):
        value_of_roman("xa")
