import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.limit_each import limit_each

groups = st.lists(st.sampled_from("abc"), max_size=12)


def test_the_first_of_each_group_stay() -> None:
    assert limit_each("aabacb", most=1) == [0, 2, 4]
    assert limit_each("aabacb", most=2) == [0, 1, 2, 4, 5]


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="most"):
        limit_each([], most=-1)


@given(groups=groups)
def test_0_leaves_out_nothing(groups: list[str]) -> None:
    assert limit_each(groups, most=0) == list(range(len(groups)))


@given(groups=groups, most=st.integers(1, 4))
def test_no_group_has_more_and_none_loses_without_need(groups: list[str], most: int) -> None:
    places = limit_each(groups, most=most)
    stayed = [groups[place] for place in places]

    assert places == sorted(set(places))
    assert all(stayed.count(group) == min(most, groups.count(group)) for group in set(groups))
    assert limit_each(stayed, most=most) == list(range(len(stayed)))
