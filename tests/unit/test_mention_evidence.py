"""Evidence of what candidates mention: laws that hold for any of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from freki.operators.mention_evidence import mention_evidence

mentioned = of_numpy.arrays(
    np.bool_, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.booleans(), fill=st.nothing()
)


@given(mentioned=mentioned)
def test_whoever_mentions_more_has_no_less_evidence_and_nothing_counts_against_a_text(mentioned: np.ndarray) -> None:
    evidence = mention_evidence(mentioned)

    assert (evidence >= 0).all()
    for one in range(mentioned.shape[1]):
        for other in range(mentioned.shape[1]):
            if (mentioned[:, one] >= mentioned[:, other]).all():
                assert evidence[one] >= evidence[other] - 1e-9


@given(mentioned=mentioned)
def test_each_name_counts_for_itself(mentioned: np.ndarray) -> None:
    apart = [mention_evidence(mentioned[[name]]) for name in range(len(mentioned))]

    assert mention_evidence(mentioned) == pytest.approx(sum(apart))


@given(mentioned=mentioned, order=st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(mentioned: np.ndarray, order: object) -> None:
    places = list(range(mentioned.shape[1]))
    order.shuffle(places)  # type: ignore[attr-defined]

    assert mention_evidence(mentioned[:, places]) == pytest.approx(mention_evidence(mentioned)[places])


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 4.2), (10, 2.15), (20, 1.37), (51, 0), (100, 0)])
def test_a_name_counts_the_more_the_fewer_mention_it(count: int, expected: float) -> None:
    evidence = mention_evidence(np.arange(100)[None] < count)

    assert evidence.max(initial=0) == pytest.approx(expected, abs=0.02)
    assert not evidence[count:].any()
