import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.fuse import (
    Hit,
    Scale,
    arctangent,
    from_distance,
    from_floor,
    min_max,
    reciprocal_rank_fusion,
    saturation,
    standardised_fusion,
    unit,
    weighted_fusion,
)
from freki.schemas import ChunkId

A, B, C, D = (ChunkId(letter) for letter in "abcd")

scores = st.integers(-50, 50).map(lambda tenths: tenths / 10)
hits = st.builds(Hit, st.sampled_from([A, B, C, D]), scores)
ranking = st.lists(hits, max_size=4, unique_by=lambda hit: hit.chunk_id)
rankings = st.lists(ranking, max_size=4)
SCALES = (min_max, from_floor(-1.0), unit, arctangent)
scales = st.sampled_from(SCALES)


def test_reciprocal_ranks_add_up() -> None:
    dense = [Hit(A, 0.9), Hit(B, 0.8), Hit(C, 0.1)]
    lexical = [Hit(C, 12.0), Hit(A, 3.0)]

    fused = reciprocal_rank_fusion([dense, lexical], k=60)

    assert [hit.chunk_id for hit in fused] == [A, C, B]
    assert fused[0].score == pytest.approx(1 / 61 + 1 / 62)
    assert fused[1].score == pytest.approx(1 / 63 + 1 / 61)
    assert fused[2].score == pytest.approx(1 / 62)


@given(first=st.floats(0, 1e6), second=st.floats(0, 1e6), pivot=st.floats(0.1, 1e4))
def test_saturation_rises_from_0_towards_1_and_is_half_at_the_pivot(first: float, second: float, pivot: float) -> None:
    low, high = sorted([saturation(first, pivot=pivot), saturation(second, pivot=pivot)])

    assert 0 <= low <= high <= 1
    assert (first <= second) is (saturation(first, pivot=pivot) <= saturation(second, pivot=pivot)) or low == high
    assert saturation(pivot, pivot=pivot) == pytest.approx(0.5)
    assert saturation(-first, pivot=pivot) == 0


@pytest.mark.parametrize("pivot", [0.0, -1.0, math.nan])
def test_a_pivot_that_is_not_above_0_is_refused(pivot: float) -> None:
    with pytest.raises(ValueError, match="pivot must be above 0"):
        saturation(1.0, pivot=pivot)


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
    for fusion in (weighted_fusion, standardised_fusion):
        assert fusion(shuffled, weights=[weights[place] for place in order]) == fusion(rankings, weights=weights)


@given(rankings=rankings)
def test_each_chunk_that_was_found_stands_there_once_best_first(rankings: list[list[Hit]]) -> None:
    weights = [1.0] * len(rankings)
    for fused in (
        reciprocal_rank_fusion(rankings),
        weighted_fusion(rankings, weights=weights),
        standardised_fusion(rankings, weights=weights),
    ):
        assert sorted(hit.chunk_id for hit in fused) == sorted(
            {hit.chunk_id for ranking in rankings for hit in ranking}
        )
        assert fused == sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))


@given(ranking=ranking, factor=st.integers(1, 8), shift=st.integers(-8, 8))
def test_the_scale_of_a_retriever_does_not_matter(ranking: list[Hit], factor: int, shift: int) -> None:
    scaled = [Hit(hit.chunk_id, hit.score * factor + shift) for hit in ranking]
    other = [Hit(A, 1.0), Hit(D, 0.0)]

    for fusion in (weighted_fusion, standardised_fusion):
        for one, two in zip(
            sorted(fusion([ranking, other], weights=[0.6, 0.4])),
            sorted(fusion([scaled, other], weights=[0.6, 0.4])),
            strict=True,
        ):
            assert one.chunk_id == two.chunk_id
            assert one.score == pytest.approx(two.score, abs=1e-9)


@given(rankings=rankings)
def test_weighted_scores_lie_between_0_and_1(rankings: list[list[Hit]]) -> None:
    for fusion in (weighted_fusion, standardised_fusion):
        fused = fusion(rankings, weights=[1.0] * len(rankings))

        assert all(0 <= hit.score <= 1 + 1e-12 for hit in fused)


@pytest.mark.parametrize(
    ("scale", "scaled"),
    [
        (min_max, [1.0, 0.5, 0.0]),
        (from_floor(0.0), [1.0, 0.75, 0.5]),
        (from_floor(-8.0), [1.0, 14 / 16, 12 / 16]),
        (unit, [1.0, 1.0, 1.0]),
        (lambda scores: from_distance([score / -8 for score in scores]), [0.5, 0.625, 0.75]),
        (arctangent, [2 / math.pi * math.atan(value) for value in (0.8, 0.6, 0.4)]),
    ],
    ids=["min-max", "from 0", "from -8", "as they are", "distance", "arctangent"],
)
def test_scales_by_hand(scale: Scale, scaled: Sequence[float]) -> None:
    assert scale([8.0, 6.0, 4.0]) == pytest.approx(scaled)


def test_z_scores_are_those_of_numpy_as_a_share_of_the_best_that_there_can_be() -> None:
    dense, lexical = np.array([9.0, 7.5, 7.0, 2.0]), np.array([30.0, 5.0, 4.0])
    names = [[A, B, C, D], [B, C, D]]

    fused = standardised_fusion(
        [
            [Hit(*each) for each in zip(names[0], dense, strict=True)],
            [Hit(*each) for each in zip(names[1], lexical, strict=True)],
        ],
        weights=[0.6, 0.4],
    )

    by_dense, by_terms = ((each - each.mean()) / each.std() for each in (dense, lexical))
    worst = 0.6 * by_dense.min() + 0.4 * by_terms.min()
    best = 0.6 * by_dense.max() + 0.4 * by_terms.max()
    sums = {A: 0.6 * by_dense[0] + 0.4 * by_terms.min()}
    sums |= {name: 0.6 * by_dense[place] + 0.4 * by_terms[place - 1] for place, name in enumerate([B, C, D], start=1)}
    assert {hit.chunk_id: hit.score for hit in fused} == pytest.approx(
        {name: (value - worst) / (best - worst) for name, value in sums.items()}
    )


def test_what_stands_out_counts_for_more_than_the_best_of_near_equals() -> None:
    # given vectors that tell all apart a little, and terms that only one chunk in the middle has
    names = [ChunkId(f"{place:02}") for place in range(31)]
    near = [Hit(name, 0.90 - place / 1000) for place, name in enumerate(names)]
    far = [Hit(names[15], 30.0), *(Hit(name, 1.0 + place / 1000) for place, name in enumerate(names) if place != 15)]

    assert weighted_fusion([near, far], weights=[0.7, 0.3])[0].chunk_id == names[0]
    assert standardised_fusion([near, far], weights=[0.7, 0.3])[0].chunk_id == names[15]


def test_equal_scores_whose_mean_is_rounded_count_as_equal() -> None:
    # (.1 + .1 + .1) / 3 is .10000000000000002.
    assert {hit.score for hit in standardised_fusion([[Hit(each, 0.1) for each in (A, B, C)]], weights=[1.0])} == {1.0}


def test_an_empty_ranking_keeps_its_weight_among_z_scores() -> None:
    first, second = standardised_fusion([[Hit(A, 3.0), Hit(B, 2.0)], []], weights=[0.6, 0.4])

    assert first.chunk_id == A
    assert first.score == pytest.approx(0.6)
    assert second == Hit(B, 0.0)
    assert standardised_fusion([[], [Hit(A, 3.0)]], weights=[1.0, 0.0]) == [Hit(A, 0.0)]
    assert standardised_fusion([[]], weights=[1.0]) == standardised_fusion([], weights=[]) == []


def test_tmm_by_the_example_of_two_rankings() -> None:
    dense = [Hit(A, 0.9), Hit(B, 0.8)]
    lexical = [Hit(B, 10.0), Hit(C, 5.0)]

    fused = weighted_fusion([dense, lexical], weights=[0.5, 0.5], scales=[from_floor(-1.0), from_floor(0.0)])

    assert [hit.chunk_id for hit in fused] == [B, A, C]
    assert [hit.score for hit in fused] == pytest.approx([0.5 * 1.8 / 1.9 + 0.5, 0.5, 0.25])


@given(values=st.lists(st.integers(-500, 500).map(lambda tenths: tenths / 10), max_size=8), scale=scales)
def test_a_scale_keeps_the_order_within_0_and_1(values: list[float], scale: Scale) -> None:
    scaled = scale(values)

    assert all(0 <= value <= 1 for value in scaled)
    for one, scaled_one in zip(values, scaled, strict=True):
        for other, scaled_other in zip(values, scaled, strict=True):
            assert one < other or scaled_one >= scaled_other


@given(rankings=rankings, scale=scales, data=st.data())
def test_the_order_of_retrievers_does_not_matter_on_any_scale(
    rankings: list[list[Hit]], scale: Scale, data: st.DataObject
) -> None:
    weights = [1.0 + place for place in range(len(rankings))]
    order = data.draw(st.permutations(range(len(rankings))))

    fused = weighted_fusion(rankings, weights=weights, scales=[scale] * len(rankings))

    assert fused == weighted_fusion(
        [rankings[place] for place in order],
        weights=[weights[place] for place in order],
        scales=[scale] * len(rankings),
    )
    assert all(0 <= hit.score <= 1 + 1e-12 for hit in fused)


@given(rankings=st.lists(ranking, min_size=2, max_size=2), scale=scales)
def test_what_is_better_in_every_ranking_is_better_in_the_end(rankings: list[list[Hit]], scale: Scale) -> None:
    fused = {hit.chunk_id: hit.score for hit in weighted_fusion(rankings, weights=[0.6, 0.4], scales=[scale, scale])}
    by_id = [{hit.chunk_id: hit.score for hit in ranking} for ranking in rankings]

    for one, other in product(fused, repeat=2):
        if all(one in scores and scores[one] >= scores.get(other, -math.inf) for scores in by_id):
            assert fused[one] >= fused[other] - 1e-12
