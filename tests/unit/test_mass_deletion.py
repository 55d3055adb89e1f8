import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.mass_deletion import MIN_DELETIONS, is_mass_deletion

NUMBERS = st.integers(0, 1_000)


@pytest.mark.parametrize(
    ("deletions", "known", "held"),
    [(9, 9, False), (10, 10, True), (10, 19, True), (10, 20, False), (11, 20, True), (500, 1000, False)],
)
def test_most_documents_are_held_back_if_they_are_more_than_a_few(deletions: int, known: int, *, held: bool) -> None:
    assert is_mass_deletion(deletions, known) is held


@given(NUMBERS, NUMBERS, NUMBERS)
def test_more_deletions_of_fewer_documents_are_no_less_a_mass_deletion(deletions: int, kept: int, more: int) -> None:
    if is_mass_deletion(deletions, deletions + kept):
        assert is_mass_deletion(deletions + more, deletions + more + kept)
        assert is_mass_deletion(deletions, max(deletions, deletions + kept - more))


@given(NUMBERS, NUMBERS)
def test_what_stays_is_at_least_half_unless_little_goes(deletions: int, kept: int) -> None:
    is_held = is_mass_deletion(deletions, deletions + kept)

    assert is_held == (deletions >= MIN_DELETIONS and kept < deletions)
