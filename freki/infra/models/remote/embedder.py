"""The embedder behind an address."""

import asyncio
import time
from collections.abc import Sequence
from typing import Self

import numpy as np

from freki.infra.models.cache import remote_fingerprint
from freki.infra.models.remote.service import EmbeddingService, unit
from freki.infra.models.tokens import CountTokens, open_token_counter
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkKind
from freki.schemas.embeddings import NO_NUMBERS, NO_ROWS, Embeddings
from freki.schemas.errors import Misconfigured

_BLANK = "."
"""Stands for a text without visible characters, which services refuse."""


class RemoteEmbedder:
    """The embedding service of the settings, with the interface and guarantees of `OnnxEmbedder`.

    Opening it asks for one vector, which checks address, key and dimension. It has no token vectors, so that late
    interaction does not rerank, and none of parts of a text.
    """

    def __init__(self, settings: ModelSettings, *, calls: Calls | None = None) -> None:
        self._models = settings
        self._remote = settings.remote
        self._calls = calls or Calls()
        self._service = EmbeddingService(settings.remote)
        self.dim = settings.remote.dim or 0
        self.fingerprint = remote_fingerprint(settings.remote)
        self.unrelated = -1.0

    async def __aenter__(self) -> Self:
        self._count: CountTokens = await open_token_counter(self._models)
        await self._service.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._service.__aexit__(*error)

    def of(self, kind: ChunkKind) -> Self:  # noqa: ARG002 - one for all
        """Return this embedder: it embeds all kinds."""
        return self

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:  # noqa: ARG002
        """Embed passages; headings do not matter without token vectors."""
        return await self._embed([self._remote.passage_prefix + text for text in texts], is_query=False)

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries."""
        return await self._embed([self._remote.query_prefix + text for text in texts], is_query=True)

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> Embeddings:  # noqa: ARG002
        """Raise Misconfigured: services give no states of tokens."""
        raise Misconfigured("FREKI_MODELS__LATE_WINDOW_TOKENS needs a model in this process: set it to 0")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens by the tokenizer of the settings, without special ones."""
        return self._count(texts)

    async def _embed(self, texts: Sequence[str], *, is_query: bool) -> Embeddings:
        vectors = np.empty((len(texts), self.dim), np.float32)

        async def fill(start: int) -> None:
            batch = [text if text.strip() else _BLANK for text in texts[start : start + self._service.most_texts]]
            started = time.perf_counter()
            answer = await self._service.ask(batch, is_query=is_query)
            vectors[start : start + len(batch)] = unit(answer.rows)
            tokens = sum(self._count(batch)) if answer.tokens is None else answer.tokens
            self._calls.computed("embeddings", self.fingerprint, tokens=tokens, seconds=time.perf_counter() - started)
            self._calls.charged(self.fingerprint, tokens * self._remote.price_per_million / 1_000_000)

        try:
            async with asyncio.TaskGroup() as calls:
                for start in range(0, len(texts), self._service.most_texts):
                    calls.create_task(fill(start))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        count = len(texts)
        return Embeddings(vectors, [NO_ROWS] * count, [NO_ROWS] * count, [0] * count, [NO_NUMBERS] * count)
