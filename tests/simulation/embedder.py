"""An embedder that takes virtual time by the token."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from freki.infra.models.fake import TOKEN_DIM, FakeEmbedder, bags_of, words_of
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings

DIM = 16
TOKEN_S = 0.002


class SlowEmbedder(FakeEmbedder):
    """The fake, which takes longer for more."""

    def __init__(self, token_s: float = TOKEN_S) -> None:
        super().__init__(DIM)
        self._token_s = token_s

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:  # noqa: ARG002
        return await self._embedded(texts)

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        return await self._embedded(texts)

    async def _embedded(self, texts: Sequence[str]) -> Embeddings:
        await asyncio.sleep(self._token_s * sum(self.count_tokens(texts)))
        vectors = np.array([_vector(text) for text in texts], np.float32).reshape(-1, DIM)
        tokens = [_tokens(text) for text in texts]
        distilled = [_vector(text).reshape(1, TOKEN_DIM) for text in texts]
        weights = [np.full(len(rows), 1 / max(1, len(rows)), np.float32) for rows in tokens]
        return Embeddings(vectors, tokens, distilled, [0] * len(texts), weights)


@lru_cache(maxsize=50_000)
def _vector(text: str) -> Floats:
    vector: Floats = bags_of([text], DIM)[0]
    return vector


@lru_cache(maxsize=50_000)
def _tokens(text: str) -> Floats:
    return words_of(text)
