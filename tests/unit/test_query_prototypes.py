from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from freki.operators.analyse_query import example_wordings, fit_prototypes, type_by_prototypes
from freki.schemas import QueryType

TYPES = tuple(QueryType)
DIM = 16


def near(query_type: QueryType, *, seed: int, count: int = 1) -> NDArray[np.float32]:
    """Vectors that lie near to all others, as those of e5 do, and a little nearer to those of their type."""
    common = np.ones(DIM) * 5
    axis = np.eye(DIM)[TYPES.index(query_type)]
    noise = np.random.default_rng(seed).normal(scale=0.1, size=(count, DIM))
    vectors = common + axis + noise
    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.mark.parametrize("query_type", TYPES)
def test_a_question_has_the_type_of_the_examples_that_it_is_near_to(query_type: QueryType) -> None:
    vectors = np.vstack([near(each, seed=place, count=5) for place, each in enumerate(TYPES)])
    prototypes = fit_prototypes(vectors, [each for each in TYPES for _ in range(5)], ridge=0.1)

    (question,) = near(query_type, seed=99)

    assert type_by_prototypes(question, prototypes) is query_type


def test_what_is_near_to_no_type_is_a_fact() -> None:
    vectors = np.vstack([near(each, seed=place, count=5) for place, each in enumerate(TYPES)])
    prototypes = fit_prototypes(vectors, [each for each in TYPES for _ in range(5)])

    assert type_by_prototypes(prototypes.centre, prototypes) is QueryType.FACTUAL


def test_directions_are_those_of_ridge_regression() -> None:
    """Against the textbook's primal form, which is solved another way."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(30, DIM)).astype(np.float32)
    types = [TYPES[place % len(TYPES)] for place in range(30)]

    prototypes = fit_prototypes(vectors, types, ridge=0.5)

    centred = vectors.astype(float) - vectors.astype(float).mean(axis=0)
    targets = np.array([[1.0 if each is kind else -0.2 for kind in TYPES] for each in types])
    scale = np.square(centred).sum() / len(centred)
    directions = np.linalg.solve(centred.T @ centred + 0.5 * scale * np.eye(DIM), centred.T @ targets)
    np.testing.assert_allclose(prototypes.directions, directions, atol=1e-5)


@pytest.mark.parametrize(("vectors", "types"), [(0, 0), (2, 1)])
def test_vectors_without_a_type_are_refused(vectors: int, types: int) -> None:
    with pytest.raises(ValueError, match="type"):
        fit_prototypes(np.ones((vectors, 3), dtype=np.float32), [QueryType.FACTUAL] * types)


@given(count=st.integers(1, 8), value=st.floats(-1, 1, width=32))
def test_examples_that_are_all_the_same_tell_nothing(count: int, value: float) -> None:
    vectors = np.full((count, DIM), value, dtype=np.float32)

    prototypes = fit_prototypes(vectors, [QueryType.TEMPORAL] * count)

    assert type_by_prototypes(vectors[0], prototypes) is QueryType.FACTUAL


def test_there_are_examples_of_every_type_each_once() -> None:
    examples = example_wordings()

    counts = Counter(example.query_type for example in examples)
    assert set(counts) == set(TYPES)
    assert min(counts.values()) >= 50
    assert len({example.text for example in examples}) == len(examples)
