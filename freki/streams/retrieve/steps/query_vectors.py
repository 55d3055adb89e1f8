"""The vectors of questions."""

from collections.abc import Sequence

import numpy as np

from freki.schemas import ContextQuery
from freki.schemas.arrays import Floats
from freki.streams.ports import Cache, Embedder


class QueryVectors:
    """Gives questions their vectors, each once for the principals that ask."""

    def __init__(self, embedder: Embedder, vectors: Cache[Floats] | None) -> None:
        self._embedder = embedder
        self._vectors = vectors

    async def __call__(self, texts: Sequence[str], queries: Sequence[ContextQuery]) -> Floats:
        """Embed texts, each of the query at its place; (texts, dim)."""
        if self._vectors is None:
            return await self._embedder.embed_queries(texts)
        keys = [
            (self._embedder.fingerprint, query.tenant, asker_of(query), text)
            for text, query in zip(texts, queries, strict=True)
        ]
        known = {place: vector for place, key in enumerate(keys) if (vector := self._vectors.get(key)) is not None}
        unknown = [place for place in range(len(texts)) if place not in known]
        if unknown:
            made = await self._embedder.embed_queries([texts[place] for place in unknown])
            for place, vector in zip(unknown, made, strict=True):
                # A row of its own, or the whole matrix stays as long as one of its rows.
                known[place] = vector.copy()
                self._vectors.keep(keys[place], known[place], size=vector.nbytes)
        return np.array([known[place] for place in range(len(texts))], np.float32).reshape(-1, self._embedder.dim)


def asker_of(query: ContextQuery) -> tuple[str, ...]:
    """Name who asks, in one way."""
    return tuple(sorted(set(query.principals)))
