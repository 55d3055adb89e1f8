import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.fuse import Hit, reciprocal_rank_fusion, weighted_fusion
from freki.schemas import ChunkId

A, B, C, D = (ChunkId(letter) for letter in "abcd")

scores = st.integers(-50, 50).map(lambda tenths: tenths / 10)
hits = st.builds(Hit, st.sampled_from([A, B, C, D]), scores)
ranking = st.lists(hits, max_size=4, unique_by=lambda hit: hit.chunk_id)
rankings = st.lists(ranking, max_size=4)


def test_reciprocal_ranks_add_up() -> None:
    dense = [Hit(A, 0.9), Hit(B, 0.8), Hit(C, 0.1)]
    lexical = [Hit(C, 12.0), Hit(A, 3.0)]

    fused = reciprocal_rank_fusion([dense, lexical], k=60)

    assert [hit.chunk_id for hit in fused] == [A, C, B]
    assert fused[0].score == pytest.approx(1 / 61 + 1 / 62)
    assert fused[1].score == pytest.approx(1 / 63 + 1 / 61)
    assert fused[2].score == pytest.approx(1 / 62)


def test_weighted_scores_are_means_of_normalised_ones() -> None:
    dense = [Hit(A, 0.9), Hit(B, 0.7), Hit(C, 0.5)]
    lexical = [Hit(C, 12.0), Hit(A, 3.0)]

    fused = weighted_fusion([dense, lexical], weights=[0.6, 0.4])

    assert [hit.chunk_id for hit in fused] == [A, C, B]
    assert [hit.score for hit in fused] == pytest.approx([0.6 * 1 + 0.4 * 0, 0.6 * 0 + 0.4 * 1, 0.6 * 0.5])


def test_weights_are_shares() -> None:
    dense, lexical = [Hit(A, 2.0), Hit(B, 1.0)], [Hit(B, 2.0), Hit(A, 1.0)]

    assert weighted_fusion([dense, lexical], weights=[6, 2]) == weighted_fusion([dense, lexical], weights=[0.75, 0.25])


def test_a_ranking_of_equals_says_that_each_was_found() -> None:
    assert weighted_fusion([[Hit(A, 3.0), Hit(B, 3.0)], [Hit(B, 1.0)]], weights=[0.5, 0.5]) == [
        Hit(B, 1.0),
        Hit(A, 0.5),
    ]


def test_an_empty_ranking_keeps_its_weight() -> None:
    assert weighted_fusion([[Hit(A, 3.0)], []], weights=[0.6, 0.4]) == [Hit(A, 0.6)]


def test_ties_fall_to_the_smaller_id() -> None:
    fused = reciprocal_rank_fusion([[Hit(B, 1.0)], [Hit(A, 1.0)]])

    assert [hit.chunk_id for hit in fused] == [A, B]


def test_a_chunk_counts_once_a_ranking() -> None:
    twice = [Hit(A, 3.0), Hit(B, 2.0), Hit(A, 1.0), Hit(C, 0.5)]
    once = [Hit(A, 3.0), Hit(B, 2.0), Hit(C, 0.5)]

    assert reciprocal_rank_fusion([twice]) == reciprocal_rank_fusion([once])
    assert weighted_fusion([twice], weights=[1.0]) == weighted_fusion([once], weights=[1.0])


def test_nothing_found_is_an_empty_list() -> None:
    assert reciprocal_rank_fusion([]) == reciprocal_rank_fusion([[]]) == []
    assert weighted_fusion([], weights=[]) == weighted_fusion([[]], weights=[1.0]) == []


@pytest.mark.parametrize(
    ("weights", "score"),
    [([1.0, 1.0], 1.0), ([-1.0], 1.0), ([0.0], 1.0), ([math.nan], 1.0), ([1.0], math.nan), ([1.0], math.inf)],
)
def test_numbers_without_sense_are_refused(weights: list[float], score: float) -> None:
    with pytest.raises(ValueError, match=r"weight|finite"):
        weighted_fusion([[Hit(A, score), Hit(B, 0.0)]], weights=weights)


def test_a_negative_k_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be at least 0"):
        reciprocal_rank_fusion([], k=-1)


@given(rankings=rankings, data=st.data())
def test_the_order_of_retrievers_does_not_matter(rankings: list[list[Hit]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rankings))))
    weights = [1.0 + place for place in range(len(rankings))]
    shuffled = [rankings[place] for place in order]

    assert reciprocal_rank_fusion(shuffled) == reciprocal_rank_fusion(rankings)
    assert weighted_fusion(shuffled, weights=[weights[place] for place in order]) == weighted_fusion(
        rankings, weights=weights
    )


@given(rankings=rankings)
def test_each_chunk_that_was_found_stands_there_once_best_first(rankings: list[list[Hit]]) -> None:
    for fused in (reciprocal_rank_fusion(rankings), weighted_fusion(rankings, weights=[1.0] * len(rankings))):
        assert sorted(hit.chunk_id for hit in fused) == sorted(
            {hit.chunk_id for ranking in rankings for hit in ranking}
        )
        assert fused == sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))


@given(ranking=ranking, factor=st.integers(1, 8), shift=st.integers(-8, 8))
def test_the_scale_of_a_retriever_does_not_matter(ranking: list[Hit], factor: int, shift: int) -> None:
    scaled = [Hit(hit.chunk_id, hit.score * factor + shift) for hit in ranking]
    other = [Hit(A, 1.0), Hit(D, 0.0)]

    for one, two in zip(
        sorted(weighted_fusion([ranking, other], weights=[0.6, 0.4])),
        sorted(weighted_fusion([scaled, other], weights=[0.6, 0.4])),
        strict=True,
    ):
        assert one.chunk_id == two.chunk_id
        assert one.score == pytest.approx(two.score)


@given(rankings=rankings)
def test_weighted_scores_lie_between_0_and_1(rankings: list[list[Hit]]) -> None:
    fused = weighted_fusion(rankings, weights=[1.0] * len(rankings))

    assert all(0 <= hit.score <= 1 + 1e-12 for hit in fused)
