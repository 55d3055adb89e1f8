"""Laws of how a cost grows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pipeline.fit import Law, fit, fitted

SIZES = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000]
numbers = st.floats(-1_000, 1_000)


@given(a=numbers, b=numbers)
def test_a_line_is_found_again(a: float, b: float) -> None:
    found = fitted(Law.LINEAR, SIZES, [a + b * size for size in SIZES])

    assert found.a == pytest.approx(a, abs=1e-6 + 1e-6 * abs(b) * max(SIZES))
    assert found.b == pytest.approx(b, abs=1e-6)


@given(a=numbers, b=numbers)
def test_a_logarithm_is_found_again(a: float, b: float) -> None:
    found = fitted(Law.LOGARITHMIC, SIZES, [a + b * math.log(size) for size in SIZES])

    assert found.a == pytest.approx(a, abs=1e-6)
    assert found.b == pytest.approx(b, abs=1e-6)


@given(a=numbers, b=st.floats(0.01, 100))
def test_the_law_that_the_values_follow_wins(a: float, b: float) -> None:
    line = fit(SIZES, [a + b * size for size in SIZES])
    logarithm = fit(SIZES, [a + b * math.log(size) for size in SIZES])

    assert line.law is Law.LINEAR
    assert logarithm.law is Law.LOGARITHMIC


@given(values=st.lists(numbers, min_size=len(SIZES), max_size=len(SIZES)))
def test_what_was_found_lies_within_its_interval(values: list[float]) -> None:
    found = fit(SIZES, values)

    assert found.a_within[0] <= found.a <= found.a_within[1]
    assert found.b_within[0] <= found.b <= found.b_within[1]


def test_slope_and_interval_are_those_of_a_textbook() -> None:
    # Least squares by hand: x 1..5, y 2, 4, 5, 4, 5; slope 0.6, its error sqrt(0.8 / 10), t(3) = 3.182.
    found = fitted(Law.LINEAR, [1, 2, 3, 4, 5], [2, 4, 5, 4, 5])

    assert (found.a, found.b) == pytest.approx((2.2, 0.6))
    assert found.b_within == pytest.approx((0.6 - 3.182 * math.sqrt(0.08), 0.6 + 3.182 * math.sqrt(0.08)))


def test_two_sizes_fit_everything_and_so_tell_nothing() -> None:
    with pytest.raises(ValueError, match="3 different sizes"):
        fit([1, 1, 2], [1, 2, 3])


def test_a_value_for_each_size_is_needed() -> None:
    with pytest.raises(ValueError, match="3 sizes, but 2 values"):
        fit([1, 2, 3], [1, 2])
