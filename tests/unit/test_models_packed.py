import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from freki.infra.models.e5s1 import BLOCK, BertShape
from freki.infra.models.packed import pack_blocks, pack_rows, read_packed
from freki.schemas.arrays import Floats

numbers = st.floats(-8, 8, width=32)
matrices = arrays(np.float32, (3, 2 * BLOCK), elements=numbers)


def unpacked(pairs: NDArray[np.uint8], scales: Floats) -> Floats:
    """Read 4-bit integers back, as GatherBlockQuantized does."""
    low, high = (pairs & 15).astype(np.int8), (pairs >> 4).astype(np.int8)
    steps = np.stack([low, high], axis=-1).reshape(len(pairs), -1)
    signed = np.where(steps > 7, steps - 16, steps).astype(np.float32)
    wide: Floats = signed * np.repeat(scales, BLOCK, axis=1)
    return wide


@given(matrix=matrices)
def test_eight_bits_are_off_by_half_a_step_at_most(matrix: Floats) -> None:
    steps, scale = pack_rows(matrix)

    wide = scale.astype(np.float32)[:, None]
    assert np.abs(steps * wide - matrix) == pytest.approx(0, abs=float(wide.max()) * 0.6 + 1e-3)


@given(matrix=matrices)
def test_four_bits_are_off_by_a_step_at_most(matrix: Floats) -> None:
    pairs, scale = pack_blocks(matrix)

    wide = np.repeat(np.abs(scale.astype(np.float32)), BLOCK, axis=1)
    assert (np.abs(unpacked(pairs, scale.astype(np.float32)) - matrix) <= wide * 1.02 + 1e-3).all()


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shape = BertShape(hidden=64, layers=1, heads=2, feed_forward=128, vocabulary=5, positions=8, epsilon=1e-12)
    matrix, words = rng.normal(size=(128, 64)).astype(np.float32), rng.normal(size=(5, 64)).astype(np.float32)
    steps, scale = pack_rows(matrix)
    pairs, scales = pack_blocks(words)
    bias = rng.normal(size=128).astype(np.float32)
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)], 0))
    tensors: dict[str, Any] = {
        "l0.fi.w.int8": steps,
        "l0.fi.w.scale": scale,
        "l0.fi.b": bias,
        "emb.word.int4": pairs,
        "emb.word.scale": scales,
        "shape": np.frombuffer(json.dumps(asdict(shape)).encode(), np.uint8),
        "tokenizer": np.frombuffer(tokenizer.to_str().encode(), np.uint8),
    }
    np.savez(tmp_path / "packed.npz", **tensors)

    packed, read = read_packed(tmp_path / "packed.npz")

    assert packed.shape == shape
    assert packed.matrix("l0.fi.w", columns=64) == pytest.approx(matrix, abs=0.03)
    assert packed.vector("l0.fi.b") == pytest.approx(bias)
    assert unpacked(*packed.int4("emb.word", columns=64)) == pytest.approx(words, abs=0.5)
    assert read.to_str() == tokenizer.to_str()
