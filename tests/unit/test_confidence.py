import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.confidence import confidence_of
from freki.schemas import Confidence

LEAST = {"least_probability": 0.1, "least_similarity": 0.3}
ORDER = [Confidence.NONE, Confidence.LOW, Confidence.HIGH]


@pytest.mark.parametrize(
    ("probability", "similarity", "expected"),
    [
        (0.9, 0.1, Confidence.HIGH),
        (0.0, 0.6, Confidence.HIGH),
        (0.2, 0.1, Confidence.LOW),
        (0.0, 0.4, Confidence.LOW),
        (0.09, 0.29, Confidence.NONE),
        (None, 0.2, Confidence.NONE),
        (None, 0.3, Confidence.LOW),
    ],
)
def test_one_good_sign_is_enough_and_nothing_fits_without_any(
    probability: float | None, similarity: float, expected: Confidence
) -> None:
    assert confidence_of(probability, similarity, **LEAST) is expected


@given(probability=st.floats(0, 1), similarity=st.floats(-2, 2), more=st.floats(0, 1), nearer=st.floats(0, 2))
def test_better_hits_are_never_trusted_less(probability: float, similarity: float, more: float, nearer: float) -> None:
    before = confidence_of(probability, similarity, **LEAST)
    after = confidence_of(min(1.0, probability + more), similarity + nearer, **LEAST)

    assert ORDER.index(after) >= ORDER.index(before)
