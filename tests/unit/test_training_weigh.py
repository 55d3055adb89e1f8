from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models.e5s1 import read_e5s1, unigram_tokenizer
from freki.infra.models.manifest import TOKENIZER
from freki.infra.models.tokenizer import open_tokenizer
from freki.training.rarity import rarity_of
from freki.training.weigh import CandidateList, weigh
from tests.unit.tiny_models import PIECES, TinyE5S1

seeds = st.integers(0, 999)


def lists_of(weights: tuple[float, ...], *, count: int, seed: int, noise: float = 0.3) -> list[CandidateList]:
    """Make candidates of which the one with the largest sum, give or take, is right."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        features = rng.random((10, len(weights))).astype(np.float32)
        sums = features @ np.array(weights) + rng.normal(0, noise, 10)
        found.append(CandidateList(features, np.arange(10) == sums.argmax()))
    return found


def test_weights_that_made_the_answers_are_found_again() -> None:
    assert weigh(lists_of((1, 0.5, 3), count=1000, seed=0)) == pytest.approx((1, 0.5, 3), rel=0.2)


def test_what_speaks_against_an_answer_is_left_out_of_the_sum() -> None:
    first, second, third = weigh(lists_of((1, -2, 2), count=300, seed=0))

    assert first == 1
    assert second == pytest.approx(0, abs=1e-6)
    assert third > 1


@given(seed=seeds)
def test_the_scale_of_a_feature_only_scales_its_weight(seed: int) -> None:
    lists = lists_of((1, 2), count=60, seed=seed)
    scaled = [CandidateList(each.features * np.array([1, 10], np.float32), each.right) for each in lists]

    (_, plain), (_, tenth) = weigh(lists), weigh(scaled)

    assert tenth == pytest.approx(plain / 10, rel=0.05, abs=1e-3)


def test_questions_without_an_answer_count_for_nothing() -> None:
    lists = lists_of((1, 2), count=100, seed=0)
    hopeless = [CandidateList(each.features, np.zeros(10, np.bool_)) for each in lists_of((1, 9), count=100, seed=1)]

    assert weigh([*lists, *hopeless]) == pytest.approx(weigh(lists), rel=0.01)
    with pytest.raises(ValueError, match="no question has its answer"):
        weigh(hopeless)


def test_a_list_with_a_larger_share_counts_more() -> None:
    one, other = lists_of((1, 4), count=150, seed=0), lists_of((1, 0), count=150, seed=1)

    (_, fewer), (_, more) = (weigh([*(each._replace(share=share) for each in one), *other]) for share in (0.1, 10.0))

    assert fewer < 1 < more


def test_a_rare_piece_weighs_more_than_a_common_one(tmp_path: Path) -> None:
    unigram_tokenizer(read_e5s1(TinyE5S1().write(tmp_path / "weights.bin")).pieces).save(str(tmp_path / TOKENIZER))
    tokenizer = open_tokenizer(tmp_path / TOKENIZER)

    weights = rarity_of(tokenizer, ["a b", "a c", "a d", "a a"])

    pieces = [PIECES.index(piece) for piece in ("a", "b", "z")]
    assert len(weights) == tokenizer.get_vocab_size()
    # As Lucene has it: ln(1 + (texts - with + 0.5) / (with + 0.5)).
    assert weights[pieces] == pytest.approx(
        [np.log(1 + 0.5 / 4.5), np.log(1 + 3.5 / 1.5), np.log(1 + 4.5 / 0.5)], rel=1e-5
    )
