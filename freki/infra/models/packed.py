"""Encoders bundled with Freki: NumPy archives of 8-bit matrices, 4-bit word embeddings and the tokenizer.

A matrix `x.w` is stored as `x.w.int8` (outputs, inputs) and `x.w.scale` (outputs,); word embeddings as `emb.word.int4`
(rows, columns / 2), two a byte, the low half first, and `emb.word.scale` (rows, columns / 32); others unchanged.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from freki.infra.models.e5s1 import BLOCK, BertShape
from freki.schemas.arrays import Floats

_LEAST_SCALE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedModel:
    """An open archive."""

    shape: BertShape
    tensors: Mapping[str, NDArray[np.generic]]

    def vector(self, name: str) -> Floats:
        """Read a float32 tensor, flat."""
        return self.tensors[name].astype(np.float32).reshape(-1)

    def matrix(self, name: str, *, columns: int) -> Floats:
        """Read an 8-bit tensor as (outputs, columns) of float32."""
        scale = self.tensors[f"{name}.scale"].astype(np.float32)
        matrix: Floats = self.tensors[f"{name}.int8"].astype(np.float32) * scale[:, None]
        return matrix.reshape(-1, columns)

    def int4(self, name: str, *, columns: int) -> tuple[NDArray[np.uint8], Floats]:
        """Read a tensor as 4-bit integers, (rows, columns / 2), and their scales, (rows, columns / 32)."""
        packed = self.tensors[f"{name}.int4"].astype(np.uint8)
        return packed.reshape(-1, columns // 2), self.tensors[f"{name}.scale"].astype(np.float32)


def read_packed(file: Path) -> tuple[PackedModel, Tokenizer]:
    """Open an archive."""
    with np.load(file, allow_pickle=False) as archive:
        tensors = {name: archive[name] for name in archive.files}
    described = json.loads(tensors.pop("shape").tobytes())
    tokenizer = Tokenizer.from_buffer(tensors.pop("tokenizer").tobytes())
    return PackedModel(shape=BertShape(**described), tensors=tensors), tokenizer


def pack_rows(matrix: Floats) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Round (rows, columns) to 8 bits with a scale for each row: (rows, columns) and (rows,)."""
    scale = _not_zero(np.abs(matrix).max(axis=1) / 127)
    return np.clip(np.rint(matrix / scale.astype(np.float32)[:, None]), -127, 127).astype(np.int8), scale


def pack_blocks(matrix: Floats) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Round (rows, columns) to 4 bits with a scale for each block: (rows, columns / 2) and (rows, columns / BLOCK)."""
    rows, columns = matrix.shape
    blocks = matrix.reshape(rows, columns // BLOCK, BLOCK)
    # The value of largest magnitude becomes -8, the longer end of the range.
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], axis=2)
    scale = _not_zero(extreme / -8)
    steps = np.clip(np.rint(blocks / scale.astype(np.float32)), -8, 7).astype(np.int8).reshape(rows, columns)
    low, high = steps[:, 0::2] & 15, steps[:, 1::2] & 15
    return (low | high << 4).astype(np.uint8), scale[..., 0]


def _not_zero(scale: NDArray[np.floating]) -> NDArray[np.float16]:
    """Return scales in 16 bits, raised to the smallest one that is precise enough as a divisor."""
    return np.where(np.abs(scale) < _LEAST_SCALE, _LEAST_SCALE, scale).astype(np.float16)
