import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from freki.infra.models.packed import read_packed
from freki.schemas.errors import Misconfigured
from freki.training.bundle import bundle, packed_of
from tests.unit.tiny_models import word_tokenizer

HIDDEN, WIDE, LAYERS, VOCABULARY = 64, 128, 2, 104
Tensors = dict[str, NDArray[np.float32]]


def tensors() -> Tensors:
    """Make weights as the transformers library names them."""
    rng = np.random.default_rng(0)
    found: Tensors = {}

    def add(name: str, *shape: int) -> None:
        found[name] = rng.normal(0, 0.1, shape).astype(np.float32)

    for name, rows in (("word", VOCABULARY), ("position", 32), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings.weight", rows, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        for name, rows, columns in (
            *((f"attention.self.{part}", HIDDEN, HIDDEN) for part in ("query", "key", "value")),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", WIDE, HIDDEN),
            ("output.dense", HIDDEN, WIDE),
        ):
            add(f"{prefix}.{name}.weight", rows, columns)
            add(f"{prefix}.{name}.bias", rows)
    for name in (
        "embeddings",
        *(f"encoder.layer.{n}.{part}output" for n in range(LAYERS) for part in ("attention.", "")),
    ):
        add(f"{name}.LayerNorm.weight", HIDDEN)
        add(f"{name}.LayerNorm.bias", HIDDEN)
    return found


def write(directory: Path, given: Tensors) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    config = {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": WIDE,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 32,
        "layer_norm_eps": 1e-12,
    }
    (directory / "config.json").write_text(json.dumps(config))
    word_tokenizer().save(str(directory / "tokenizer.json"))
    safetensors.save_file(given, directory / "model.safetensors")


def test_every_tensor_is_packed_once() -> None:
    names = [name for name, _ in packed_of(tensors(), layers=LAYERS)]

    assert len(set(names)) == len(names)
    assert sum(name.endswith(".int8") for name in names) == 6 * LAYERS
    assert [name for name in names if name.endswith(".int4")] == ["emb.word.int4"]


def test_a_missing_tensor_is_named() -> None:
    given = tensors()
    del given["encoder.layer.1.output.dense.bias"]

    with pytest.raises(KeyError, match=r"layer\.1\.output\.dense\.bias"):
        list(packed_of(given, layers=LAYERS))


def test_what_was_packed_is_read_back_nearly_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, tensors())

    bundle(tmp_path, tmp_path / "packed.npz")

    packed, tokenizer = read_packed(tmp_path / "packed.npz")
    given = tensors()
    matrix = given["encoder.layer.1.intermediate.dense.weight"]
    assert packed.shape.layers == LAYERS
    assert packed.matrix("l1.fi.w", columns=HIDDEN) == pytest.approx(matrix, abs=float(np.abs(matrix).max()) / 120)
    assert packed.vector("l0.aln.b") == pytest.approx(given["encoder.layer.0.attention.output.LayerNorm.bias"])
    assert packed.vector("emb.pos") == pytest.approx(given["embeddings.position_embeddings.weight"].ravel(), abs=1e-3)
    assert tokenizer.encode("w1 w2").ids[:4] == word_tokenizer().encode("w1 w2").ids[:4]


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    write(tmp_path, tensors())

    for name in ("one.npz", "two.npz"):
        bundle(tmp_path, tmp_path / name)

    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")

    with pytest.raises(Misconfigured, match="holds no sentence encoder"):
        bundle(tmp_path, tmp_path / "packed.npz")
