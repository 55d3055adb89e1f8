"""Embed the texts of queries."""

from collections.abc import Sequence

from freki.schemas import ContextQuery
from freki.schemas.embeddings import QueryEmbedding, each_query
from freki.streams.ports import Cache, Embedder
from freki.streams.retrieve.budget.attempts import SHARE, Attempts
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.query_log import timed

STEP = "embed"


class QueryEmbeddings:
    """Embeds each text once for the same principals, as long as the cache keeps it."""

    def __init__(self, embedder: Embedder, embeddings: Cache[QueryEmbedding] | None) -> None:
        self._embedder = embedder
        self._cache = embeddings

    async def __call__(self, texts: Sequence[str], queries: Sequence[ContextQuery]) -> list[QueryEmbedding]:
        """Embed texts, each of the query at its place."""
        if self._cache is None:
            return await self._made(texts)
        keys = [
            (self._embedder.fingerprint, query.tenant, principals_of(query), text)
            for text, query in zip(texts, queries, strict=True)
        ]
        known = {place: found for place, key in enumerate(keys) if (found := self._cache.get(key)) is not None}
        unknown = [place for place in range(len(texts)) if place not in known]
        if unknown:
            made = await self._made([texts[place] for place in unknown])
            for place, embedding in zip(unknown, made, strict=True):
                known[place] = embedding
                self._cache.keep(keys[place], embedding, size=embedding.size)
        return [known[place] for place in range(len(texts))]

    async def _made(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        return each_query(await self._embedder.embed_queries(texts))


class EmbedQueries:
    """The step that embeds texts of several queries in one call."""

    def __init__(self, embed: QueryEmbeddings, attempts: Attempts) -> None:
        self._embed = embed
        self._attempts = attempts

    async def __call__(
        self, queries: Sequence[ParsedQuery], texts: Sequence[Sequence[str]]
    ) -> list[list[QueryEmbedding]]:
        """Embed the texts of each query; return nothing for any text if embedding failed."""
        asked = [(query, own) for query, own in zip(queries, texts, strict=True) if own]
        if not asked:
            return [[] for _ in queries]
        flat = [text for _, own in asked for text in own]
        embedded = [query for query, _ in asked]
        owners = [query.query for query, own in asked for _ in own]
        # Words are searched also without vectors.
        share = SHARE if any(query.analysis.lexical for query in embedded) else 1.0
        with timed([query.log for query in embedded], STEP, lambda place: len(asked[place][1])):
            made = await self._attempts(embedded, STEP, self._embed(flat, owners), share=share)
        left = iter(made or ())
        return [[embedding for _, embedding in zip(own, left, strict=False)] for own in texts]


def principals_of(query: ContextQuery) -> tuple[str, ...]:
    """Return the principals of a query in a canonical form."""
    return tuple(sorted(set(query.principals)))
