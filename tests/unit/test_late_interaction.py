import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from freki.operators.late_interaction import LEVELS, max_similarities, relevance, token_codes
from freki.schemas.arrays import Floats

DIM = 6
numbers = st.floats(-4, 4, width=32)


def rows(least: int = 0) -> st.SearchStrategy[Floats]:
    return st.integers(least, 5).flatmap(lambda count: arrays(np.float32, (count, DIM), elements=numbers))


def rounded(text: Floats) -> Floats:
    """Round each number to the nearest level."""
    found: Floats = LEVELS[np.abs(text[..., None] - LEVELS).argmin(axis=-1)]
    return found


@given(texts=st.lists(rows(), max_size=6), query=rows(1))
def test_similarities_are_those_of_the_rounded_vectors(texts: list[Floats], query: Floats) -> None:
    found = max_similarities(query, token_codes(texts))

    for similarity, text in zip(found, texts, strict=True):
        if len(text):
            # A number half-way between two levels may go to either.
            assert similarity == pytest.approx((query @ rounded(text).T).max(axis=1).sum(), abs=0.01 * DIM * len(query))
        else:
            assert np.isnan(similarity)


@given(texts=st.lists(rows(), max_size=6))
def test_codes_are_printable_and_hold_half_a_character_a_number(texts: list[Floats]) -> None:
    codes = token_codes(texts)

    assert [len(code) for code in codes] == [len(text) * DIM // 2 for text in texts]
    assert all(code.isascii() and code.isprintable() for code in codes if code)


@given(texts=st.lists(rows(1), min_size=1, max_size=6), query=rows(1), data=st.data())
def test_a_score_does_not_depend_on_the_other_texts(texts: list[Floats], query: Floats, data: st.DataObject) -> None:
    codes = token_codes(texts)
    order = data.draw(st.permutations(range(len(codes))))

    shuffled = max_similarities(query, [codes[place] for place in order])

    assert (shuffled == max_similarities(query, codes)[list(order)]).all()


@given(text=rows(1), further=rows(1), query=rows(1))
def test_a_longer_text_is_at_least_as_similar(text: Floats, further: Floats, query: Floats) -> None:
    short, long = max_similarities(query, token_codes([text, np.concatenate([text, further])]))

    assert long >= short - 1e-4


def test_rounding_keeps_the_order_of_texts_that_differ_clearly() -> None:
    rng = np.random.default_rng(1)
    query = rng.standard_normal((8, 64)).astype(np.float32)
    # Each text repeats a smaller share of the query.
    texts = [
        np.concatenate([query[:shared], rng.standard_normal((30, 64)).astype(np.float32)]) for shared in (8, 6, 4, 2, 0)
    ]

    found = max_similarities(query, token_codes(texts))

    assert list(np.argsort(-found)) == [0, 1, 2, 3, 4]


def test_no_texts_have_no_codes_and_no_similarities() -> None:
    assert token_codes([]) == []
    assert max_similarities(np.ones((2, DIM), np.float32), []).shape == (0,)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        token_codes([np.ones((2, 5), np.float32)])
    with pytest.raises(ValueError, match="whole tokens"):
        max_similarities(np.ones((2, DIM), np.float32), ["****"])
    with pytest.raises(ValueError, match="each candidate"):
        relevance(np.ones(2, np.float32), fused=[1.0], cosines=[1.0, 1.0], lexical=[0.0, 0.0])


@given(
    first=st.tuples(*[st.floats(0, 1, width=32)] * 4),
    more=st.tuples(*[st.floats(0, 1, width=32)] * 4),
)
def test_more_of_any_evidence_never_lowers_the_probability(first: tuple[float, ...], more: tuple[float, ...]) -> None:
    best = tuple(map(max, first, more))
    similarities, fused, cosines, lexical = zip(first, best, strict=True)

    low, high = relevance(np.array(similarities, np.float32), fused=fused, cosines=cosines, lexical=lexical)

    assert 0 <= low <= high <= 1


def test_a_text_without_token_vectors_gets_the_usual_similarity() -> None:
    similarities = np.array([0.9, np.nan, 0.5, 0.7], np.float32)

    found = relevance(similarities, fused=[0.5] * 4, cosines=[0.8] * 4, lexical=[0.0] * 4)

    assert found[1] == pytest.approx(found[3])
    assert found[0] > found[1] > found[2]
