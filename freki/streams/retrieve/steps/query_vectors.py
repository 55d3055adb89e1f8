"""Embed the texts of queries."""

from collections.abc import Sequence

import numpy as np

from freki.schemas import ContextQuery
from freki.schemas.arrays import Floats
from freki.streams.ports import Cache, Embedder
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.query_log import timed


class QueryVectors:
    """Embeds each text once for the same principals, as long as the cache keeps it."""

    def __init__(self, embedder: Embedder, vectors: Cache[Floats] | None) -> None:
        self._embedder = embedder
        self._vectors = vectors

    async def __call__(self, texts: Sequence[str], queries: Sequence[ContextQuery]) -> Floats:
        """Embed texts, each of the query at its place; (texts, dim)."""
        if self._vectors is None:
            return await self._embedder.embed_queries(texts)
        keys = [
            (self._embedder.fingerprint, query.tenant, principals_of(query), text)
            for text, query in zip(texts, queries, strict=True)
        ]
        known = {place: vector for place, key in enumerate(keys) if (vector := self._vectors.get(key)) is not None}
        unknown = [place for place in range(len(texts)) if place not in known]
        if unknown:
            made = await self._embedder.embed_queries([texts[place] for place in unknown])
            for place, vector in zip(unknown, made, strict=True):
                # A copy of the row: a view would keep the whole matrix in memory.
                known[place] = vector.copy()
                self._vectors.keep(keys[place], known[place], size=vector.nbytes)
        return np.array([known[place] for place in range(len(texts))], np.float32).reshape(-1, self._embedder.dim)


class EmbedQueries:
    """The step that embeds texts of several queries in one call."""

    def __init__(self, embed: QueryVectors, attempts: Attempts) -> None:
        self._embed = embed
        self._attempts = attempts

    async def __call__(self, queries: Sequence[ParsedQuery], texts: Sequence[Sequence[str]]) -> list[list[Floats]]:
        """Embed the texts of each query; return a vector for each text, or none for any if embedding failed."""
        asked = [(query, own) for query, own in zip(queries, texts, strict=True) if own]
        if not asked:
            return [[] for _ in queries]
        flat = [text for _, own in asked for text in own]
        owners = [query.query for query, own in asked for _ in own]
        with timed([query.log for query, _ in asked], "embed", lambda place: len(asked[place][1])):
            vectors = await self._attempts([query for query, _ in asked], "embed", self._embed(flat, owners))
        left = iter(() if vectors is None else vectors)
        return [[vector for _, vector in zip(own, left, strict=False)] for own in texts]


def principals_of(query: ContextQuery) -> tuple[str, ...]:
    """Return the principals of a query in a canonical form."""
    return tuple(sorted(set(query.principals)))
