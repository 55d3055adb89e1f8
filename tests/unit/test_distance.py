from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from freki.operators.distance import in_metric, least_in
from freki.schemas import Metric

_numbers = st.integers(-50, 50)
_vectors = st.lists(st.tuples(_numbers, _numbers, _numbers).filter(any), min_size=2, max_size=12)


def _unit(vectors: list[tuple[int, int, int]]) -> NDArray[np.float64]:
    rows = np.array(vectors, np.float64)
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


@given(vectors=_vectors)
def test_of_vectors_of_length_1_every_metric_gives_the_same_ranking(vectors: list[tuple[int, int, int]]) -> None:
    query, *others = _unit(vectors)
    cosines = [float(each @ query) for each in others]
    measured = {
        Metric.COSINE: [float(each @ query / np.linalg.norm(each) / np.linalg.norm(query)) for each in others],
        Metric.DOT: cosines,
        Metric.EUCLIDEAN: [-float(np.linalg.norm(each - query)) for each in others],
    }

    for metric, scores in measured.items():
        assert [in_metric(cosine, metric) for cosine in cosines] == pytest.approx(scores, abs=1e-6)
        # No pair is the other way round; nearly equal ones may be either way, by rounding.
        best_first = sorted(range(len(others)), key=lambda place: -cosines[place])
        in_order = [scores[place] for place in best_first]
        assert all(first >= second - 1e-6 for first, second in pairwise(in_order))


@given(cosine=st.floats(-1, 1), metric=st.sampled_from(Metric))
def test_no_score_is_below_that_of_opposite_vectors(cosine: float, metric: Metric) -> None:
    assert in_metric(cosine, metric) >= least_in(metric)
    assert least_in(metric) == (-2.0 if metric is Metric.EUCLIDEAN else -1.0)
