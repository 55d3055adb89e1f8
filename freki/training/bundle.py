"""Packing of a BERT sentence encoder for bundling with Freki."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from freki.infra.models.e5s1 import BertShape
from freki.infra.models.manifest import TOKENIZER
from freki.infra.models.packed import pack_blocks, pack_rows
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured

_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True)

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    layer_norm_eps: float


def bundle(directory: Path, file: Path) -> None:
    """Pack `model.safetensors`, `config.json` and `tokenizer.json` into an archive for `read_packed`.

    Reproducible. Raises Misconfigured for missing or invalid files.
    """
    from safetensors.numpy import load_file  # noqa: PLC0415 - in the extra `train`

    try:
        config = _Config.model_validate_json((directory / "config.json").read_bytes())
        tensors = {
            name.removeprefix("bert."): value for name, value in load_file(directory / "model.safetensors").items()
        }
        packed = dict(packed_of(tensors, layers=config.num_hidden_layers))
        tokenizer = (directory / TOKENIZER).read_bytes()
    except (OSError, KeyError, ValidationError) as error:
        raise Misconfigured(f"{directory} holds no sentence encoder of BERT's kind: {error}") from error
    shape = json.dumps(asdict(_shape_of(config))).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        np.savez_compressed(
            opened,
            allow_pickle=False,
            **packed,
            shape=np.frombuffer(shape, np.uint8),
            tokenizer=np.frombuffer(tokenizer, np.uint8),
        )


def packed_of(tensors: Mapping[str, Floats], *, layers: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield tensors with the names of the E5S1 format: word embeddings in 4 bits, matrices in 8, others as floats.

    tensors: by the names of the transformers library. Raises KeyError for a missing one.
    """
    yield from _scaled("emb.word", "int4", *pack_blocks(tensors["embeddings.word_embeddings.weight"]))
    yield "emb.pos", tensors["embeddings.position_embeddings.weight"].astype(np.float16)
    yield "emb.type", tensors["embeddings.token_type_embeddings.weight"].astype(np.float16)
    yield "emb.ln.w", tensors["embeddings.LayerNorm.weight"]
    yield "emb.ln.b", tensors["embeddings.LayerNorm.bias"]
    for layer in range(layers):
        for part, source in _PARTS.items():
            name, prefix = f"l{layer}.{part}", f"encoder.layer.{layer}.{source}"
            weight = tensors[f"{prefix}.weight"]
            yield f"{name}.b", tensors[f"{prefix}.bias"]
            if weight.ndim == 1:
                yield f"{name}.w", weight
            else:
                yield from _scaled(f"{name}.w", "int8", *pack_rows(weight))


def _scaled(
    name: str, kind: str, values: NDArray[Any], scale: NDArray[np.float16]
) -> Iterator[tuple[str, NDArray[Any]]]:
    yield f"{name}.{kind}", values
    yield f"{name}.scale", scale


def _shape_of(config: _Config) -> BertShape:
    return BertShape(
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        feed_forward=config.intermediate_size,
        vocabulary=config.vocab_size,
        positions=config.max_position_embeddings,
        epsilon=config.layer_norm_eps,
    )
