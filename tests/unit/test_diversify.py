import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from freki.operators.diversify import maximal_marginal_relevance

Floats = NDArray[np.float64]


def unit(*rows: list[float]) -> Floats:
    vectors: Floats = np.array(rows)
    unit_rows: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit_rows


@st.composite
def candidates(draw: st.DrawFn) -> tuple[Floats, Floats]:
    count = draw(st.integers(0, 8))
    # Distinct relevance and vectors in general position: no ties.
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vectors = random.normal(size=(count, 4))
    return random.permutation(count) + random.random(count) / 2, vectors / np.linalg.norm(
        vectors, axis=1, keepdims=True
    )


def plain(relevance: Floats, vectors: Floats, limit: int, trade_off: float) -> list[int]:
    """The formula as the paper prints it, without a thought for speed."""
    spread = float(np.ptp(relevance)) or 1.0
    scaled = [(float(value) - float(relevance.min())) / spread for value in relevance]
    chosen: list[int] = []
    left = list(range(len(scaled)))
    while left and len(chosen) < limit:
        gains = {
            place: trade_off * scaled[place]
            - (1 - trade_off) * max((float(vectors[place] @ vectors[other]) for other in chosen), default=0.0)
            for place in left
        }
        best = max(left, key=lambda place: (gains[place], scaled[place])) if chosen else int(np.argmax(relevance))
        chosen.append(best)
        left.remove(best)
    return chosen


def test_a_copy_of_the_best_comes_after_something_else() -> None:
    relevance = np.array([1.0, 0.99, 0.6, 0.0])
    vectors = unit([1, 0, 0], [1, 0.01, 0], [0, 1, 0], [0, 0, 1])

    assert maximal_marginal_relevance(relevance, vectors, limit=2) == [0, 2]


def test_likeness_below_the_least_is_no_difference() -> None:
    relevance = np.array([1.0, 0.9, 0.8])
    vectors = unit([1, 0, 0], [0.7, 0.5, 0], [0, 0, 1])

    assert maximal_marginal_relevance(relevance, vectors, limit=2) == [0, 2]
    assert maximal_marginal_relevance(relevance, vectors, limit=2, least_likeness=0.9) == [0, 1]


def test_equal_candidates_come_in_their_order() -> None:
    assert maximal_marginal_relevance(np.ones(3), unit([1, 0], [1, 0], [1, 0]), limit=3) == [0, 1, 2]


@given(given_=candidates(), limit=st.integers(0, 10), trade_off=st.floats(0.05, 1))
def test_it_agrees_with_the_formula_of_the_paper(given_: tuple[Floats, Floats], limit: int, trade_off: float) -> None:
    relevance, vectors = given_

    assert maximal_marginal_relevance(relevance, vectors, limit=limit, trade_off=trade_off) == (
        plain(relevance, vectors, limit, trade_off) if len(relevance) else []
    )


@given(given_=candidates(), limit=st.integers(0, 10), trade_off=st.floats(0, 1))
def test_it_chooses_a_subset_that_starts_with_the_best(
    given_: tuple[Floats, Floats], limit: int, trade_off: float
) -> None:
    relevance, vectors = given_

    chosen = maximal_marginal_relevance(relevance, vectors, limit=limit, trade_off=trade_off)

    assert len(chosen) == len(set(chosen)) == min(limit, len(relevance))
    assert set(chosen) <= set(range(len(relevance)))
    assert chosen[:1] == [int(np.argmax(relevance))][: len(chosen)] if len(relevance) else not chosen


@given(given_=candidates())
def test_relevance_alone_keeps_its_order(given_: tuple[Floats, Floats]) -> None:
    relevance, vectors = given_

    chosen = maximal_marginal_relevance(relevance, vectors, limit=len(relevance), trade_off=1.0)

    assert chosen == sorted(range(len(relevance)), key=lambda place: -relevance[place])


@given(given_=candidates(), data=st.data(), trade_off=st.floats(0.05, 1))
def test_the_order_of_candidates_does_not_matter(
    given_: tuple[Floats, Floats], data: st.DataObject, trade_off: float
) -> None:
    relevance, vectors = given_
    order = data.draw(st.permutations(range(len(relevance))))

    shuffled = maximal_marginal_relevance(relevance[order], vectors[order], limit=5, trade_off=trade_off)

    assert [order[place] for place in shuffled] == maximal_marginal_relevance(
        relevance, vectors, limit=5, trade_off=trade_off
    )


@given(given_=candidates(), factor=st.floats(0.1, 10), shift=st.floats(-5, 5))
def test_the_scale_of_relevance_does_not_matter(given_: tuple[Floats, Floats], factor: float, shift: float) -> None:
    relevance, vectors = given_

    assert maximal_marginal_relevance(relevance * factor + shift, vectors, limit=5) == maximal_marginal_relevance(
        relevance, vectors, limit=5
    )


@pytest.mark.parametrize(
    ("relevance", "vectors", "limit", "trade_off"),
    [
        (np.ones(2), np.ones((3, 2)), 1, 0.5),
        (np.ones(2), np.ones(2), 1, 0.5),
        (np.ones(2), np.ones((2, 2)), -1, 0.5),
        (np.ones(2), np.ones((2, 2)), 1, 1.5),
    ],
)
def test_what_does_not_fit_is_refused(relevance: Floats, vectors: Floats, limit: int, trade_off: float) -> None:
    with pytest.raises(ValueError, match=r"do not fit|must be"):
        maximal_marginal_relevance(relevance, vectors, limit=limit, trade_off=trade_off)
