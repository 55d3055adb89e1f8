"""Attacks of bench/inversion find what is there to be found, and nothing where nothing is."""

import numpy as np
import pytest

from bench.inversion import attacks

RNG = np.random.default_rng(7)


def unit(rows: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled


BAGS = [frozenset(RNG.choice([f"t{n}" for n in range(40)], size=5, replace=False)) for _ in range(400)]
MAP = RNG.normal(size=(40, 64))
VECTORS = unit(np.stack([sum(MAP[int(term[1:])] for term in bag) for bag in BAGS]))


def test_a_vector_of_words_is_read_by_a_linear_map_and_noise_is_not() -> None:
    known, hidden = slice(0, 300), slice(300, 400)
    options = {"vocabulary": 40, "most": 5}
    found = attacks.by_linear_map(VECTORS[hidden], BAGS[hidden], VECTORS[known], BAGS[known], **options)
    assert found.precision > 0.9
    noise = unit(RNG.normal(size=(400, 64)))
    missed = attacks.by_linear_map(noise[hidden], BAGS[hidden], noise[known], BAGS[known], **options)
    assert missed.precision < 0.3


def test_a_guess_is_ranked_among_all_texts() -> None:
    assert attacks.rank_one(VECTORS, VECTORS, range(400)) == 1.0
    assert attacks.rank_one(unit(RNG.normal(size=(400, 64))), VECTORS, range(400)) < 0.05


def test_terms_are_named_by_neighbours_and_by_frequency() -> None:
    found = attacks.by_neighbour(VECTORS, BAGS, VECTORS, BAGS, most=5)
    assert (found.precision, found.recall) == (1.0, 1.0)
    common = attacks.by_frequency(BAGS, BAGS, most=5)
    assert common.precision == pytest.approx(common.recall)
    assert common.precision < 0.3


def test_equal_states_are_equal_tokens() -> None:
    states = RNG.normal(size=(50, 8)).astype(np.float32)
    tokens = np.arange(50)
    assert attacks.by_token_states(attacks.quantised(states), tokens, attacks.quantised(states), tokens).all()
    assert not attacks.by_token_states(states, tokens, states, tokens + 1).any()


def test_frequencies_and_known_rows_name_terms() -> None:
    bags = [frozenset({"a", "b"}), frozenset({"a"}), frozenset({"a", "b", "c"})]
    assert attacks.by_rank_of_frequency(bags, bags, most=3) == 1.0
    assert attacks.by_rank_of_frequency(bags, [frozenset({"c", "b"}), frozenset({"c"})], most=2) == 0.5
    every, _ = attacks.by_known_rows(bags, share=0.34)
    assert every == 3 / 4
