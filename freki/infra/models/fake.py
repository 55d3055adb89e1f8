"""An embedder without a model, for tests: texts that share words have similar vectors."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np

from freki.schemas import ChunkKind
from freki.schemas.arrays import Floats

_WORD = re.compile(r"\w+")


class FakeEmbedder:
    """A hashed bag of words, with the interface and guarantees of `OnnxEmbedder`."""

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.fingerprint = f"fake@{dim}"
        self.unrelated = -1.0

    def of(self, kind: ChunkKind) -> Self:  # noqa: ARG002 - one for all
        """Return this embedder."""
        return self

    async def embed_passages(self, texts: Sequence[str]) -> Floats:
        """Embed passages, (texts, dim)."""
        return self._embed(texts)

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> Floats:
        """Embed spans, mixed with the vectors of their windows; (spans, dim)."""
        rows = [
            2 * self._embed([window[start:end]]) + self._embed([window])
            for window, within in zip(windows, spans, strict=True)
            for start, end in within
        ]
        mixed = np.vstack(rows) if rows else np.empty((0, self.dim), np.float32)
        unit: Floats = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        return unit

    async def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed queries, (texts, dim)."""
        return self._embed(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of words of each text."""
        return [len(_WORD.findall(text)) for text in texts]

    def _embed(self, texts: Sequence[str]) -> Floats:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            # A component common to all texts, so that no vector is 0 and no two are opposite.
            vectors[row, 0] = 1
            for word, count in Counter(_WORD.findall(text.lower())).items():
                vectors[row, self._place(word)] += count
        unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _place(self, word: str) -> int:
        return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) % self.dim
