import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from freki.operators.centre_queries import LEAST_QUERIES, SHARE, centre_queries, query_centres

DIM = 8


def units(count: int, seed: int, *, axis: float = 0.0) -> NDArray[np.float32]:
    """Return vectors of length 1 in a cone; axis: how narrow it is."""
    drawn = np.random.default_rng(seed).normal(size=(count, DIM))
    drawn[:, 0] += axis
    found: NDArray[np.float32] = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return found


def test_a_text_that_is_near_to_every_query_is_not_the_nearest() -> None:
    queries = units(200, 1, axis=6.0)
    centre = queries.mean(axis=0)
    # One text is the axis of the cone, the other has what the first query has beside it, and less of it.
    meant = queries[0] - 0.6 * centre
    texts = np.stack([centre, meant])
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)

    sought = centre_queries(queries[:1], [centre])

    assert np.argmax(queries[0] @ texts.T) == 0
    assert np.argmax(sought.vectors[0] @ texts.T) == 1


@given(st.integers(0, 1000), st.integers(1, 5))
def test_without_a_centre_a_query_stays_as_it_is(seed: int, count: int) -> None:
    queries = units(count, seed)

    sought = centre_queries(queries, [None] * count)

    assert np.array_equal(sought.vectors, queries)
    assert [sought.score(place, 0.25) for place in range(count)] == pytest.approx([0.25] * count)


@given(st.integers(0, 1000))
def test_the_mean_query_keeps_its_products_with_texts_that_have_as_much_of_the_centre(seed: int) -> None:
    queries = units(50, seed, axis=3.0)
    centre = queries.mean(axis=0)

    sought = centre_queries(queries, [centre] * len(queries))

    # Each is a text here: as a whole they have as much of the centre as it has of itself.
    cosines = sought.vectors @ queries.T
    scores = [sought.score(place, each) for place, row in enumerate(cosines) for each in row]
    assert np.mean(scores) == pytest.approx((queries @ queries.T).mean(), abs=1e-2)


@given(st.integers(0, 1000))
def test_what_is_searched_for_has_length_1_and_no_score_is_above_it(seed: int) -> None:
    queries = units(20, seed, axis=3.0)

    sought = centre_queries(queries, [queries.mean(axis=0)] * len(queries))

    assert np.allclose(np.linalg.norm(sought.vectors, axis=1), 1)
    assert all(sought.score(place, 1.0) <= 1.0 for place in range(len(queries)))


@given(st.integers(0, 1000))
def test_texts_are_ordered_as_by_all_but_a_share_of_the_centre(seed: int) -> None:
    queries, texts = units(20, seed, axis=2.0), units(30, seed + 1, axis=2.0)
    centre = queries.mean(axis=0)

    sought = centre_queries(queries[:1], [centre])

    expected = queries[0] @ texts.T - SHARE * (centre @ texts.T)
    assert np.array_equal(np.argsort(expected), np.argsort(sought.vectors[0] @ texts.T))


def test_each_language_has_a_centre_that_enough_queries_have() -> None:
    vectors = units(2 * LEAST_QUERIES + 3, 1)
    languages = ["de"] * LEAST_QUERIES + ["en"] * LEAST_QUERIES + ["und"] * 3

    centres = query_centres(vectors, languages)

    assert centres.keys() == {"de", "en"}
    assert np.allclose(centres["en"], vectors[LEAST_QUERIES : 2 * LEAST_QUERIES].mean(axis=0))
