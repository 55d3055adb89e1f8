import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.blend import blend, evidence

shares = st.integers(0, 20).map(lambda twentieths: twentieths / 20)
candidates = st.lists(st.tuples(shares, shares), max_size=8)


def test_evidence_is_log_odds_without_infinity() -> None:
    assert evidence(np.array([0.5, 0.9])) == pytest.approx([0.0, np.log(9)])
    assert np.isfinite(evidence(np.array([0.0, 1.0]))).all()


def test_search_decides_where_the_reranker_is_not_sure() -> None:
    likely, fused = np.array([0.30, 0.28, 0.01]), np.array([0.2, 0.9, 1.0])

    assert list(np.argsort(-blend(likely, fused, weight=0.0))) == [0, 1, 2]
    assert list(np.argsort(-blend(likely, fused, weight=2.0))) == [1, 0, 2]


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_without_sense_are_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        blend(np.zeros(1), np.zeros(1), weight=weight)


def test_scores_of_other_candidates_are_refused() -> None:
    with pytest.raises(ValueError, match="fit"):
        blend(np.zeros(2), np.zeros(1), weight=1.0)


@given(candidates=candidates, weight=st.integers(0, 10))
def test_what_is_at_least_as_good_in_both_is_at_least_as_good(
    candidates: list[tuple[float, float]], weight: int
) -> None:
    likely, fused = np.array(candidates).reshape(-1, 2).T

    relevance = blend(likely, fused, weight=weight)

    for place, (one, by_search) in enumerate(candidates):
        for other_place, (other, other_by_search) in enumerate(candidates):
            if one >= other and by_search >= other_by_search:
                assert relevance[place] >= relevance[other_place]
