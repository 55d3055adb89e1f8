"""An embedder without a model, for tests: texts that share words have similar vectors."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Self

import numpy as np

from freki.schemas import ChunkKind
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings

_WORD = re.compile(r"\w+")
TOKEN_DIM = 16
"""Dimension of token vectors and of distilled vectors."""
# Rows of length 1 get variance 1 per dimension.
_SCALE = np.float32(np.sqrt(TOKEN_DIM))


class FakeEmbedder:
    """A hashed bag of words, with the interface and guarantees of `OnnxEmbedder`."""

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.fingerprint = f"fake@{dim}"
        self.unrelated = -1.0

    def of(self, kind: ChunkKind) -> Self:  # noqa: ARG002 - one for all
        """Return this embedder."""
        return self

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        """Embed passages; headings: the beginning of each text that is its heading."""
        fields = [[text, heading] if heading else [text] for text, heading in zip_longest(texts, headings)]
        tokens = [_SCALE * words_of(text) for text in texts]
        in_headings = [len(_WORD.findall(heading or "")) for _, heading in zip_longest(texts, headings)]
        distilled = [_SCALE * bags_of(own, TOKEN_DIM) for own in fields]
        return Embeddings(bags_of(texts, self.dim), tokens, distilled, headings=in_headings)

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> Embeddings:
        """Embed spans; their vectors are mixed with those of their windows."""
        placed = [
            (window, window[start:end]) for window, within in zip(windows, spans, strict=True) for start, end in within
        ]
        rows = [2 * bags_of([span], self.dim) + bags_of([window], self.dim) for window, span in placed]
        mixed = np.vstack(rows) if rows else np.empty((0, self.dim), np.float32)
        unit: Floats = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        tokens = [_SCALE * words_of(span) for _, span in placed]
        distilled = [_SCALE * bags_of([span], TOKEN_DIM) for _, span in placed]
        return Embeddings(unit, tokens, distilled, headings=[0] * len(placed))

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries; all words weigh the same."""
        tokens = [words_of(text) / _SCALE for text in texts]
        weights = [np.full(len(rows), 1 / max(1, len(rows)), np.float32) for rows in tokens]
        distilled = [bags_of([text], TOKEN_DIM) for text in texts]
        return Embeddings(bags_of(texts, self.dim), tokens, distilled, weights=weights)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of words of each text."""
        return [len(_WORD.findall(text)) for text in texts]


def bags_of(texts: Sequence[str], dim: int) -> Floats:
    """Return hashed bags of words of length 1, (texts, dim)."""
    vectors = np.zeros((len(texts), dim), np.float32)
    for row, text in enumerate(texts):
        # A component common to all texts, so that no vector is 0 and no two are opposite.
        vectors[row, 0] = 1
        for word, count in Counter(_WORD.findall(text.lower())).items():
            vectors[row, int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) % dim] += count
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def words_of(text: str) -> Floats:
    """Return one row of length 1 per word, (words, TOKEN_DIM); equal words have equal rows."""
    words = _WORD.findall(text.lower())
    rows = np.zeros((len(words), TOKEN_DIM), np.float32)
    for row, word in enumerate(words):
        digest = hashlib.blake2b(word.encode(), digest_size=TOKEN_DIM).digest()
        rows[row] = np.where(np.frombuffer(digest, np.uint8) % 2, 1, -1) / np.sqrt(TOKEN_DIM)
    return rows
