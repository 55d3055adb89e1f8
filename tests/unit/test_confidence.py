import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.confidence import confidence_of
from freki.schemas import Confidence

LEAST = {"least_probability": 0.05, "least_similarity": 0.75}
ORDER = [Confidence.NONE, Confidence.LOW, Confidence.HIGH]


@pytest.mark.parametrize(
    ("probability", "similarity", "covered", "is_across", "expected"),
    [
        (0.9, 0.1, 0.0, False, Confidence.HIGH),
        (0.3, 1.2, 0.5, False, Confidence.LOW),
        (0.3, 0.7, 1.0, False, Confidence.HIGH),
        (0.3, 0.7, 2 / 3, False, Confidence.HIGH),
        (0.06, 0.7, 1.0, False, Confidence.LOW),
        (0.04, 0.8, 1.0, False, Confidence.LOW),
        (0.04, 0.7, 1.0, False, Confidence.NONE),
        (0.3, 0.7, 1.0, True, Confidence.LOW),
        (0.3, 0.8, 0.0, True, Confidence.HIGH),
        (None, 0.4, 1.0, False, Confidence.NONE),
    ],
)
def test_a_calibrated_probability_is_believed_and_similarity_alone_is_not(
    probability: float | None, similarity: float, covered: float, expected: Confidence, *, is_across: bool
) -> None:
    found = confidence_of(probability, similarity, covered=covered, is_across=is_across, is_calibrated=True, **LEAST)

    assert found is expected


@pytest.mark.parametrize(
    ("probability", "similarity", "expected"),
    [
        (0.04, 0.7, Confidence.LOW),
        (0.04, 1.0, Confidence.HIGH),
        (0.04, 0.4, Confidence.NONE),
        (0.9, 0.4, Confidence.HIGH),
        (None, 0.4, Confidence.NONE),
        (None, 0.6, Confidence.LOW),
        (None, 1.0, Confidence.HIGH),
    ],
)
def test_without_a_calibrated_probability_a_hit_must_be_as_similar_as_an_answer(
    probability: float | None, similarity: float, expected: Confidence
) -> None:
    found = confidence_of(probability, similarity, covered=1.0, is_across=False, is_calibrated=False, **LEAST)

    assert found is expected


def test_limits_of_zero_and_less_never_say_that_nothing_answers() -> None:
    for is_across in (False, True):
        for least in ({"least_probability": 0.0, "least_similarity": 0.75}, {**LEAST, "least_similarity": -10.0}):
            found = confidence_of(0.0, -1.0, covered=0.0, is_across=is_across, is_calibrated=True, **least)

            assert found is Confidence.LOW


@given(
    probability=st.floats(0, 1),
    similarity=st.floats(-2, 2),
    covered=st.floats(0, 1),
    more=st.tuples(st.floats(0, 1), st.floats(0, 2), st.floats(0, 1)),
    is_across=st.booleans(),
    is_calibrated=st.booleans(),
)
def test_better_hits_are_never_trusted_less(
    probability: float,
    similarity: float,
    covered: float,
    more: tuple[float, float, float],
    *,
    is_across: bool,
    is_calibrated: bool,
) -> None:
    def judge(probability: float, similarity: float, covered: float) -> Confidence:
        return confidence_of(
            probability, similarity, covered=covered, is_across=is_across, is_calibrated=is_calibrated, **LEAST
        )

    before = judge(probability, similarity, covered)
    after = judge(min(1.0, probability + more[0]), similarity + more[1], min(1.0, covered + more[2]))

    assert ORDER.index(after) >= ORDER.index(before)
