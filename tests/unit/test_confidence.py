import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.confidence import confidence_of
from freki.schemas import Confidence

LEAST = {"least_probability": 0.05, "least_similarity": 0.75}
ORDER = [Confidence.NONE, Confidence.LOW, Confidence.HIGH]


@pytest.mark.parametrize(
    ("probability", "similarity", "is_calibrated", "expected"),
    [
        (0.9, 0.1, True, Confidence.HIGH),
        (0.04, 0.8, True, Confidence.HIGH),
        (0.04, 0.7, True, Confidence.NONE),
        (0.06, 0.7, True, Confidence.HIGH),
        (0.06, 0.4, True, Confidence.LOW),
        (0.04, 0.7, False, Confidence.HIGH),
        (0.04, 0.4, False, Confidence.NONE),
        (0.9, 0.4, False, Confidence.HIGH),
        (None, 0.4, False, Confidence.NONE),
        (None, 0.6, False, Confidence.HIGH),
    ],
)
def test_nothing_answers_only_where_both_signs_say_so(
    probability: float | None, similarity: float, expected: Confidence, *, is_calibrated: bool
) -> None:
    assert confidence_of(probability, similarity, is_calibrated=is_calibrated, **LEAST) is expected


@given(
    probability=st.floats(0, 1),
    similarity=st.floats(-2, 2),
    more=st.floats(0, 1),
    nearer=st.floats(0, 2),
    is_calibrated=st.booleans(),
)
def test_better_hits_are_never_trusted_less(
    probability: float, similarity: float, more: float, nearer: float, *, is_calibrated: bool
) -> None:
    before = confidence_of(probability, similarity, is_calibrated=is_calibrated, **LEAST)
    after = confidence_of(min(1.0, probability + more), similarity + nearer, is_calibrated=is_calibrated, **LEAST)

    assert ORDER.index(after) >= ORDER.index(before)
