"""Vectors that are kept from one start to the next."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from freki.infra.models import FakeEmbedder, embed_once
from freki.schemas.embeddings import Embeddings

TEXTS = ("Wer haftet?", "Nenne alle Gebühren")


class Counting(FakeEmbedder):
    """Counts its calls."""

    calls = 0

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        self.calls += 1
        return await super().embed_queries(texts)


def kept(directory: Path) -> Path:
    (file,) = directory.iterdir()
    return file


async def test_texts_are_embedded_once_for_all_processes(tmp_path: Path) -> None:
    first, second = Counting(), Counting()

    vectors = await embed_once(first, TEXTS, tmp_path / "models")
    again = await embed_once(second, TEXTS, tmp_path / "models")

    np.testing.assert_array_equal(again, vectors)
    np.testing.assert_array_equal(vectors, (await FakeEmbedder().embed_queries(TEXTS)).vectors)
    assert (first.calls, second.calls) == (1, 0)
    assert kept(tmp_path / "models").suffix == ".npy"


async def test_other_texts_and_other_models_have_vectors_of_their_own(tmp_path: Path) -> None:
    embedder, other = Counting(), Counting(dim=16)
    await embed_once(embedder, TEXTS, tmp_path)

    assert (await embed_once(embedder, TEXTS[::-1], tmp_path)).shape == (2, embedder.dim)
    assert (await embed_once(other, TEXTS, tmp_path)).shape == (2, 16)
    assert (embedder.calls, other.calls) == (2, 1)


@pytest.mark.parametrize("damaged", [b"", b"\x93NUMPY\x01\x00", b"no array", b"PK\x03\x04"])
async def test_a_damaged_file_is_written_anew(tmp_path: Path, damaged: bytes) -> None:
    embedder = Counting()
    vectors = await embed_once(embedder, TEXTS, tmp_path)
    kept(tmp_path).write_bytes(damaged)

    for _ in range(2):
        np.testing.assert_array_equal(await embed_once(embedder, TEXTS, tmp_path), vectors)
    assert embedder.calls == 2


@pytest.mark.parametrize(
    "other",
    [
        np.ones((1, 8), np.float32),
        np.ones(2, np.float32),
        np.ones((2, 8), np.float64),
        np.full((2, 8), np.nan, np.float32),
        np.array([[None], [1]], dtype=object),
    ],
)
async def test_a_file_that_holds_something_else_is_written_anew(tmp_path: Path, other: np.ndarray) -> None:
    embedder = Counting()
    vectors = await embed_once(embedder, TEXTS, tmp_path)
    np.save(kept(tmp_path), other)

    np.testing.assert_array_equal(await embed_once(embedder, TEXTS, tmp_path), vectors)


async def test_a_directory_that_cannot_be_written_hinders_nobody(tmp_path: Path) -> None:
    embedder, nowhere = Counting(), tmp_path / "file"
    nowhere.write_text("in the way")

    for _ in range(2):
        assert len(await embed_once(embedder, TEXTS, nowhere)) == 2
    assert embedder.calls == 2
