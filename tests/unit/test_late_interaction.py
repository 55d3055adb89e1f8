from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from freki.operators.late_interaction import (
    ENGLISH,
    LEVELS,
    OTHERS,
    SearchScores,
    Similarities,
    Weights,
    match_codes,
    relevance,
    similarities,
)
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings, QueryEmbedding

DIM, DISTILLED = 6, 8
NO_ROWS = np.empty((0, 0), np.float32)
numbers = st.floats(-4, 4, width=32)


def rows(dim: int = DIM, least: int = 0, most: int = 5) -> st.SearchStrategy[Floats]:
    return st.integers(least, most).flatmap(lambda count: arrays(np.float32, (count, dim), elements=numbers))


fields = rows(DISTILLED, most=2)
queries = st.builds(
    lambda tokens, distilled: asked(tokens)._replace(distilled=distilled),
    rows(least=1),
    arrays(np.float32, (DISTILLED,), elements=numbers),
)


def passages(tokens: Sequence[Floats], distilled: Sequence[Floats] | None = None) -> Embeddings:
    vectors = np.ones((len(tokens), 1), np.float32)
    return Embeddings(vectors, tokens, [NO_ROWS] * len(tokens) if distilled is None else distilled)


def asked(tokens: Floats) -> QueryEmbedding:
    weights = np.full(len(tokens), 1 / len(tokens), np.float32)
    return QueryEmbedding(np.ones(1, np.float32), tokens, weights, np.empty(0, np.float32))


def rounded(text: Floats) -> Floats:
    """Round each number to the nearest level."""
    found: Floats = LEVELS[np.abs(text[..., None] - LEVELS).argmin(axis=-1)]
    return found


@given(texts=st.lists(rows(), max_size=6), query=rows(least=1))
def test_similarities_are_those_of_the_rounded_vectors(texts: list[Floats], query: Floats) -> None:
    found = similarities(asked(query), match_codes(passages(texts)))

    for similarity, text in zip(found.tokens, texts, strict=True):
        if len(text):
            # A number half-way between two levels may go to either.
            assert similarity == pytest.approx((query @ rounded(text).T).max(axis=1).mean(), abs=0.01 * DIM)
        else:
            assert np.isnan(similarity)


@given(texts=st.lists(st.tuples(rows(), fields), min_size=1, max_size=6))
def test_codes_are_printable_and_hold_all_vectors(texts: list[tuple[Floats, Floats]]) -> None:
    codes = match_codes(passages(*map(list, zip(*texts, strict=True))))

    for code, (tokens, distilled) in zip(codes, texts, strict=True):
        assert code.isascii()
        assert code == "" or code.isprintable()
        assert len(code.replace("|", "")) == tokens.size // 2 + distilled.size


@given(texts=st.lists(st.tuples(rows(), fields), min_size=1, max_size=6), query=queries, data=st.data())
def test_a_score_does_not_depend_on_the_other_texts(
    texts: list[tuple[Floats, Floats]], query: QueryEmbedding, data: st.DataObject
) -> None:
    codes = match_codes(passages(*map(list, zip(*texts, strict=True))))
    order = data.draw(st.lists(st.sampled_from(range(len(codes))), min_size=1))

    some = similarities(query, [codes[place] for place in order])

    for values, every in zip(some, similarities(query, codes), strict=True):
        assert np.array_equal(values, every[order], equal_nan=True)


@given(text=rows(least=1), further=rows(least=1), query=rows(least=1))
def test_a_longer_text_is_at_least_as_similar(text: Floats, further: Floats, query: Floats) -> None:
    codes = match_codes(passages([text, np.concatenate([text, further])]))

    short, long = similarities(asked(query), codes).tokens

    assert long >= short


def test_rounding_keeps_the_order_of_texts_that_differ_clearly() -> None:
    rng = np.random.default_rng(1)
    query = rng.standard_normal((8, 64)).astype(np.float32)
    # Each text repeats a smaller share of the query.
    texts = [
        np.concatenate([query[:shared], rng.standard_normal((30, 64)).astype(np.float32)]) for shared in (8, 6, 4, 2, 0)
    ]

    found = similarities(asked(query), match_codes(passages(texts))).tokens

    assert list(np.argsort(-found)) == [0, 1, 2, 3, 4]


@given(text=rows(least=2), heading=st.integers(1, 2), query=rows(least=1))
def test_the_tokens_of_a_heading_are_looked_for_in_the_query(text: Floats, heading: int, query: Floats) -> None:
    codes = match_codes(passages([text, text])._replace(headings=[heading, 0]))

    found = similarities(asked(query), codes)

    expected = (query @ rounded(text[:heading]).T).max(axis=0).mean()
    assert found.heading_tokens[0] == pytest.approx(expected, abs=0.01 * DIM)
    assert np.isnan(found.heading_tokens[1])
    assert found.tokens[0] == found.tokens[1]


def test_distilled_vectors_are_compared_by_their_cosine() -> None:
    rng = np.random.default_rng(2)
    distilled = [rng.standard_normal((count, 64)).astype(np.float32) for count in (1, 2, 0)]
    query = rng.standard_normal(64).astype(np.float32)
    query /= np.linalg.norm(query)
    tokens = [np.ones((1, DIM), np.float32)] * 3

    codes = match_codes(passages(tokens, distilled))
    found = similarities(asked(tokens[0])._replace(distilled=query), codes)

    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in distilled]
    assert found.text[:2] == pytest.approx([unit[0][0] @ query, unit[1][0] @ query], abs=0.01)
    assert found.heading[1] == pytest.approx(unit[1][1] @ query, abs=0.01)
    assert np.isnan([found.text[2], found.heading[0], found.heading[2]]).all()


def test_no_texts_have_no_codes_and_no_similarities() -> None:
    assert match_codes(passages([])) == []
    assert similarities(asked(np.ones((2, DIM), np.float32)), []).tokens.shape == (0,)


def test_what_does_not_fit_is_refused() -> None:
    ones = np.ones((2, DIM), np.float32)
    with pytest.raises(ValueError, match="even"):
        match_codes(passages([np.ones((2, 5), np.float32)]))
    with pytest.raises(ValueError, match="whole tokens"):
        similarities(asked(ones), ["****"])
    with pytest.raises(ValueError, match="one or two vectors"):
        similarities(asked(ones)._replace(distilled=np.ones(4, np.float32)), ["***|***"])
    with pytest.raises(ValueError, match="each candidate"):
        relevance(Similarities(*np.ones((4, 2))), SearchScores([1.0], [1.0, 1.0], [0.0, 0.0]), weights=OTHERS)


evidence = st.tuples(*[st.floats(0, 1, width=32)] * 7)


@given(first=evidence, more=evidence, weights=st.sampled_from([ENGLISH, OTHERS]))
def test_more_of_any_evidence_never_lowers_the_probability(
    first: tuple[float, ...], more: tuple[float, ...], weights: Weights
) -> None:
    columns = list(zip(first, tuple(map(max, first, more)), strict=True))

    found = Similarities(*(np.array(each, np.float32) for each in columns[:4]))
    low, high = relevance(found, SearchScores(*columns[4:]), weights=weights)

    assert 0 <= low <= high <= 1


def test_a_text_without_token_vectors_gets_the_usual_similarity() -> None:
    tokens = np.array([0.9, np.nan, 0.5, 0.7], np.float32)
    nothing = np.full(4, np.nan, np.float32)

    scores = SearchScores([0.5] * 4, [0.8] * 4, [0.0] * 4)
    found = relevance(Similarities(tokens, nothing, nothing, nothing), scores, weights=OTHERS)

    assert found[1] == pytest.approx(found[3])
    assert found[0] > found[1] > found[2]
