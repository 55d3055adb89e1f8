"""A share of recorded traffic is the same in each run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.evaluate import is_in_share

SHARES = st.floats(0.0, 1.0)


@given(query_id=st.text(), one=SHARES, other=SHARES)
def test_a_larger_share_contains_a_smaller_one_and_the_whole_contains_all(
    query_id: str, one: float, other: float
) -> None:
    smaller, larger = sorted((one, other))

    assert is_in_share(query_id, larger) or not is_in_share(query_id, smaller)
    assert is_in_share(query_id, 1.0)
    assert not is_in_share(query_id, 0.0)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_share_of_many_queries_has_about_so_many(share: float) -> None:
    taken = sum(is_in_share(f"query-{number}", share) for number in range(10_000))

    # Five standard deviations of a binomial distribution.
    assert abs(taken - 10_000 * share) < 5 * (10_000 * share * (1 - share)) ** 0.5


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        is_in_share("q", share)
