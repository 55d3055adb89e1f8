"""Embeds texts with an ONNX model."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from freki.infra.calls import Calls
from freki.infra.models.packing import pack
from freki.infra.models.progress import Progress, unseen
from freki.infra.models.registry import ModelKind
from freki.infra.models.session import Floats, Model, Runner
from freki.infra.settings import ModelSettings


class OnnxEmbedder:
    """The embedder that the settings name; opening it makes the model if it is not in the cache.

    With the default model a text has the same vector whatever its batch (within 1e-6). Each batch waits its turn, so
    that a question is not stuck behind a whole document. One is enough for a process.
    """

    def __init__(self, settings: ModelSettings, progress: Progress = unseen, *, calls: Calls | None = None) -> None:
        self._calls = calls or Calls()
        self._budget = settings.batch_tokens
        self._runner = Runner(settings, settings.embedder, ModelKind.EMBEDDER, progress)

    async def __aenter__(self) -> Self:
        await self._runner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.__aexit__(kind, error, trace)

    @property
    def model(self) -> Model:
        """The open model."""
        return self._runner.model

    @property
    def fingerprint(self) -> str:
        """Name and revision of the model, which also tell its precision."""
        return self.model.fingerprint

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.model.dim

    async def embed_passages(self, texts: Sequence[str]) -> Floats:
        """Embed what is searched, (texts, dim)."""
        return await self._embed(self.model.manifest.passage_prefix, texts)

    async def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed what is asked, (texts, dim)."""
        return await self._embed(self.model.manifest.query_prefix, texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens as the model sees them, without special ones."""
        return self.model.count(texts)

    async def _embed(self, prefix: str, texts: Sequence[str]) -> Floats:
        started = time.perf_counter()
        encodings = await self._runner.call(self.model.encode, [prefix + text for text in texts])
        vectors = np.empty((len(texts), self.dim), np.float32)
        for batch in pack([len(encoding) for encoding in encodings], budget=self._budget):
            vectors[batch] = await self._runner.call(self.model.vectors, [encodings[index] for index in batch])
        tokens, seconds = sum(map(len, encodings)), time.perf_counter() - started
        self._calls.computed("embeddings", self.model.manifest.name, tokens=tokens, seconds=seconds)
        return vectors
