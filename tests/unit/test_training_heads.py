from pathlib import Path

import numpy as np
import pytest

from freki.infra.models.bert import LateInteractionHeads
from freki.infra.models.build import read_heads
from freki.training.heads import DistillationTargets, Network, distil, head_of, imitate, token_maps, unit, write_heads


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_token_vectors_of_passages_have_mean_0_and_variance_1() -> None:
    states = random(500, 8) * np.arange(1, 9, dtype=np.float32) + 3

    maps = token_maps(states, 4)

    vectors = states @ maps.passages + maps.shift
    assert vectors.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-3)
    assert vectors.std(axis=0) == pytest.approx(np.ones(4), abs=1e-3)


def test_products_of_token_vectors_order_passage_tokens_like_products_of_states() -> None:
    states = random(200, 6) + 2
    queries = random(10, 6, seed=1)

    maps = token_maps(states, 6)

    products = (queries @ maps.queries) @ (states @ maps.passages + maps.shift).T
    shifts = products - queries @ states.T
    assert shifts == pytest.approx(np.broadcast_to(shifts[:, :1], shifts.shape), abs=1e-2)


def test_a_network_finds_a_map_that_is_not_linear() -> None:
    means = random(2000, 6)
    vectors = unit(np.concatenate([np.abs(means[:, :3]), means[:, 3:]], axis=1))

    network = imitate(means, vectors, units=200, rng=np.random.default_rng(0))

    fresh = random(500, 6, seed=1)
    wanted = unit(np.concatenate([np.abs(fresh[:, :3]), fresh[:, 3:]], axis=1))
    flat = imitate(means, vectors, units=1, rng=np.random.default_rng(0))
    assert (unit(network(fresh)) * wanted).sum(axis=1).mean() > 0.95
    assert (unit(flat(fresh)) * wanted).sum(axis=1).mean() < 0.93


def test_distilled_cosines_are_those_of_the_teacher() -> None:
    means = random(1000, 12)
    vectors = unit(means @ random(12, 5, seed=1))

    passages, queries = distil(
        DistillationTargets(means, vectors),
        DistillationTargets(means[:400], vectors[:400]),
        dim=5,
        units=20,
        rng=np.random.default_rng(0),
    )

    found = unit(queries(means[:50])) @ unit(passages(means)).T
    assert np.corrcoef(found.ravel(), (vectors[:50] @ vectors.T).ravel())[0, 1] > 0.98
    assert np.sqrt(np.mean(passages(means) ** 2)) == pytest.approx(1, abs=1e-3)


def test_written_heads_are_read_by_the_build_of_the_embedder(tmp_path: Path) -> None:
    network = Network(random(12, 3), random(3), random(3, 2), random(12, 2), random(2))
    maps = token_maps(random(100, 4), 2)
    heads = LateInteractionHeads(
        token_layer=1,
        distilled_layers=(1, 2, 3),
        passages=head_of(maps.passages, maps.shift, network),
        queries=head_of(maps.queries, np.zeros(2, np.float32), network),
        weights=np.array([0.5, 2.0], np.float32),
        kept=np.array([False, True]),
    )

    write_heads(tmp_path / "heads.npz", heads)

    read = read_heads(tmp_path / "heads.npz")
    assert (read.token_layer, read.distilled_layers) == (1, (1, 2, 3))
    assert read.kept.tolist() == [False, True]
    assert read.weights.tolist() == [0.5, 2.0]
    for role in ("passages", "queries"):
        for name in ("tokens", "shift", "hidden", "hidden_bias", "out", "skip", "bias"):
            assert getattr(getattr(read, role), name) == pytest.approx(
                getattr(getattr(heads, role), name), rel=1e-2, abs=1e-2
            )
