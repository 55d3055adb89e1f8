"""Whether a ranking looks weak."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.weak_ranking import looks_weak

scores = st.lists(st.floats(0.01, 1), min_size=1, max_size=20).map(lambda each: sorted(each, reverse=True))


def test_a_best_hit_that_stands_out_is_no_reason_for_doubt() -> None:
    assert not looks_weak([1.0, 0.9, *[0.5] * 20])


def test_ten_that_are_nearly_as_good_as_each_other_are_doubted() -> None:
    assert looks_weak([1.0, *[0.8] * 9, 0.1])


def test_nothing_found_and_little_found_are_weak() -> None:
    assert looks_weak([])
    assert looks_weak([0.7])


@given(ranking=scores, factor=st.floats(0.1, 10))
def test_the_scale_of_scores_does_not_matter(ranking: list[float], factor: float) -> None:
    gap = (ranking[0] - ranking[min(10, len(ranking)) - 1]) / ranking[0]
    if abs(gap - 0.35) > 1e-6:
        assert looks_weak([factor * score for score in ranking]) == looks_weak(ranking)
