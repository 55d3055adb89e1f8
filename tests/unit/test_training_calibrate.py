import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.training.calibrate import platt


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.3, -2.0), (4.0, 1.0)])
def test_the_probabilities_that_made_the_labels_are_found_again(slope: float, shift: float) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, 20_000).astype(np.float32)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(slope * logits + shift)))

    found = platt(logits, right)

    assert found == pytest.approx((slope, shift), rel=0.1, abs=0.1)


@given(seed=st.integers(0, 99), size=st.integers(4, 60))
def test_the_mean_probability_is_about_the_share_of_the_right_ones(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    right = np.arange(size) < rng.integers(1, size)
    logits = (rng.normal(size=size) + 3 * right).astype(np.float32)
    try:
        slope, shift = platt(logits, right)
    except ValueError:
        return

    said = 1 / (1 + np.exp(-(slope * logits + shift)))

    # Platt's labels are a little less than certain.
    assert said.mean() == pytest.approx(right.mean(), abs=1.5 / size)


def test_labels_that_a_logit_parts_do_not_make_the_slope_endless() -> None:
    slope, shift = platt(np.array([-1, -2, 1, 2], np.float32), np.array([False, False, True, True]))

    assert 0 < slope < 10
    assert abs(shift) < 10


@pytest.mark.parametrize("right", [[True, True], [False, False]])
def test_labels_of_one_kind_are_refused(right: list[bool]) -> None:
    with pytest.raises(ValueError, match="some wrong"):
        platt(np.array([0, 1], np.float32), np.array(right))


def test_logits_that_tell_the_wrong_way_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing was learned"):
        platt(np.array([3, 2, 1, 0], np.float32), np.array([False, False, True, True]))
