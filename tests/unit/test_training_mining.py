import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from freki.training.cache import ArrayCache, hash_of
from freki.training.encoders import BLOCK, Encoder, passages
from freki.training.mining import HybridSearch, Lexical

words = st.lists(st.sampled_from(["haus", "hund", "baum", "see", "tor"]), max_size=8).map(" ".join)


@given(documents=st.lists(words, min_size=1, max_size=6), question=words)
def test_bm25_is_what_its_formula_says(documents: list[str], question: str) -> None:
    (scores,) = Lexical(documents).scores([question])

    split = [document.split() for document in documents]
    mean = max(1.0, sum(map(len, split)) / len(split))
    for terms, score in zip(split, scores, strict=True):
        expected = 0.0
        for term, asked in Counter(question.split()).items():
            present = sum(term in each for each in split)
            count = terms.count(term)
            norm = 1.2 * (1 - 0.75 + 0.75 * len(terms) / mean)
            expected += (
                asked * math.log(1 + (len(split) - present + 0.5) / (present + 0.5)) * count * 2.2 / (count + norm)
            )
        assert score == pytest.approx(expected, abs=1e-4)


@given(
    documents=st.lists(words, min_size=1, max_size=12), questions=st.lists(words, max_size=4), seed=st.integers(0, 9)
)
def test_candidates_come_best_first_with_what_search_said(
    documents: list[str], questions: list[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(len(documents) + len(questions), 4)).astype(np.float32)
    asked = vectors[len(documents) :]

    found = HybridSearch(documents, vectors[: len(documents)], language="de").find(
        questions, asked, width=5, advance=lambda _: None
    )

    width = min(5, len(documents))
    assert found.places.shape == (len(questions), width)
    assert all(len(set(row)) == width for row in found.places.tolist())
    assert (np.diff(found.fused, axis=1) <= 0).all()
    assert found.cosines == pytest.approx(
        np.take_along_axis(asked @ vectors[: len(documents)].T, found.places, axis=1), abs=1e-5
    )
    assert ((found.lexical >= 0) & (found.lexical <= 1)).all()


def test_without_a_word_in_common_the_vectors_decide() -> None:
    vectors = np.eye(3, dtype=np.float32)

    found = HybridSearch(["haus", "hund", "baum"], vectors, language="de").find(
        ["xyz"], vectors[1:2], width=2, advance=lambda _: None
    )

    assert found.places[0, 0] == 1


def test_texts_are_embedded_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        calls.append(len(texts))
        return np.array([[len(text), 1] for text in texts], np.float32)

    encoder = Encoder(fingerprint="tiny@1", embed=embed, passage_prefix="p: ")
    texts = ["x" * (n % 7) for n in range(BLOCK + 10)]

    first = passages(texts, encoder, ArrayCache(tmp_path), lambda _: None)
    second = passages(texts, encoder, ArrayCache(tmp_path), lambda _: None)

    assert calls == [BLOCK, 10]
    assert (first == second).all()
    assert first[:, 0].tolist() == [3 + n % 7 for n in range(BLOCK + 10)]


def test_an_interrupted_embedding_goes_on_where_it_was(tmp_path: Path) -> None:
    calls: list[int] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return np.zeros((len(texts), 2), np.float32)

    encoder = Encoder(fingerprint="tiny@1", embed=embed)
    texts = [str(n) for n in range(BLOCK + 10)]
    with pytest.raises(KeyboardInterrupt):
        passages(texts, encoder, ArrayCache(tmp_path), lambda _: None)

    found = passages(texts, encoder, ArrayCache(tmp_path), lambda _: None)

    assert calls == [BLOCK, 10, 10]
    assert found.shape == (BLOCK + 10, 2)


@given(first=st.lists(st.text(), max_size=5), second=st.lists(st.text(), max_size=5))
def test_other_texts_have_another_hash(first: list[str], second: list[str]) -> None:
    assert (hash_of(first) == hash_of(second)) == (first == second)
