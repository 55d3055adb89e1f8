import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.metrics import SERIES
from deploy.promql import groupings, selectors, series


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("up", {"up"}),
        ('sum by (le, stage) (rate(a_bucket{stage="x", le!~"1(\\\\.0)?"}[$__rate_interval]))', {"a_bucket"}),
        ("1 - freki:late:ratio1h > 14.4 * 0.01 and deriv(freki:lag[10m]) > 0", {"freki:late:ratio1h", "freki:lag"}),
        ("a unless on (job) a offset 10m or vector(0)", {"a"}),
        ('absent(up{job="freki"} == 1)', {"up"}),
    ],
)
def test_the_series_of_an_expression_are_found_and_nothing_else(expression: str, names: set[str]) -> None:
    assert series(expression) == names


@given(name=st.sampled_from(sorted(SERIES)), window=st.sampled_from(["5m", "$__rate_interval"]))
def test_a_series_is_found_whatever_stands_around_it(name: str, window: str) -> None:
    label = next(iter(SERIES[name] | {"job"}))

    expression = f'topk(3, sum by ({label}) (rate({name}{{{label}="and {{x}}"}}[{window}]))) or vector(0)'

    assert series(expression) == {name}
    assert list(selectors(expression)) == [(name, {label})]
    assert groupings(expression) == {label}
