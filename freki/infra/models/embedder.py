"""Embedder on an ONNX model."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Self

import numpy as np

from freki.infra.models.cache import late_fingerprint
from freki.infra.models.descriptions import ModelKind, Pooling
from freki.infra.models.manifest import ModelManifest
from freki.infra.models.packing import pack
from freki.infra.models.runner import Runner
from freki.infra.models.session import Model
from freki.infra.models.tokenizer import Span, Tokens
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkKind
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import NO_NUMBERS, NO_ROWS, Embeddings
from freki.schemas.errors import Misconfigured

ROOM_TOKENS = 24
"""Tokens of a window reserved for prefix and special tokens, and for windows longer than planned."""


class OnnxEmbedder:
    """The embedder of the settings; opening it makes the model if it is not in the cache.

    With the default model the vector of a text does not depend on its batch (within 1e-6). Batches run side by side,
    one thread each; those of concurrent calls alternate, and queries do not wait for passages. One instance per
    process suffices.
    """

    def __init__(self, settings: ModelSettings, *, calls: Calls | None = None) -> None:
        self._calls = calls or Calls()
        self._budget = settings.batch_tokens
        self._late_tokens = settings.late_window_tokens
        self._runner = Runner(settings, settings.embedder, ModelKind.EMBEDDER, side_by_side=True)

    async def __aenter__(self) -> Self:
        await self._runner.__aenter__()
        if self._late_tokens:
            _check_window(self.model.manifest, self._late_tokens)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.__aexit__(*error)

    @property
    def model(self) -> Model:
        """The open model."""
        return self._runner.model

    @property
    def fingerprint(self) -> str:
        """Name and revision of the model, including its precision."""
        return late_fingerprint(self.model.fingerprint, self._late_tokens)

    @property
    def dim(self) -> int:
        """Dimension of vectors."""
        return self.model.dim

    @property
    def unrelated(self) -> float:
        """Cosine up to which texts count as unrelated: the minimum, since all cosines of one model are meaningful."""
        return -1.0

    def of(self, kind: ChunkKind) -> Self:  # noqa: ARG002 - one for all
        """Return this embedder: it embeds all kinds."""
        return self

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        """Embed passages; headings: the beginning of each text that is its heading."""
        started = time.perf_counter()
        distinct = list(dict.fromkeys(headings))
        # Beside the batches of others, which take a hundred times as long.
        encodings, counted = await asyncio.gather(
            self._runner.call_urgently(
                self.model.encode, [self.model.manifest.passage_prefix + text for text in texts]
            ),
            self._runner.call_urgently(self.model.count, distinct),
        )
        counts = dict(zip(distinct, counted, strict=True))
        of_headings = [counts[heading] for heading in headings] or [0] * len(texts)
        found = _Rows(len(texts), self.dim)

        def fill(batch: Sequence[int]) -> None:
            chosen = [encodings[index] for index in batch]
            found.put(batch, self.model.passages(chosen, [of_headings[index] for index in batch]))

        await self._runner.call_each([partial(fill, batch) for batch in self._packed(encodings)])
        self._count(encodings, started)
        return found.embeddings

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[Span]]) -> Embeddings:
        """Embed spans of windows by the states of their tokens in the window."""
        started = time.perf_counter()
        prefix = self.model.manifest.passage_prefix
        encodings = await self._runner.call_urgently(self.model.encode_placed, [prefix + window for window in windows])
        shifted = [[(start + len(prefix), end + len(prefix)) for start, end in within] for within in spans]
        firsts = list(accumulate(map(len, spans), initial=0))
        found = _Rows(firsts[-1], self.dim)

        def fill(batch: Sequence[int]) -> None:
            rows = [row for index in batch for row in range(firsts[index], firsts[index + 1])]
            chosen = [encodings[index] for index in batch]
            found.put(rows, self.model.within(chosen, [shifted[index] for index in batch]))

        await self._runner.call_each([partial(fill, batch) for batch in self._packed(encodings)])
        self._count(encodings, started)
        return found.embeddings

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries."""
        started = time.perf_counter()
        prefix = self.model.manifest.query_prefix
        encodings = await self._runner.call_urgently(self.model.encode, [prefix + text for text in texts])
        found = _Rows(len(texts), self.dim)

        def fill(batch: Sequence[int]) -> None:
            found.put(batch, self.model.queries([encodings[index] for index in batch]))

        await self._runner.call_each([partial(fill, batch) for batch in self._packed(encodings)], urgent=True)
        self._count(encodings, started)
        return found.embeddings

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones."""
        return self.model.count(texts)

    def _packed(self, encodings: Sequence[Tokens]) -> Iterator[list[int]]:
        """Pack texts into batches, smaller ones where otherwise some threads would have none."""
        lengths = list(map(len, encodings))
        share = -(-sum(lengths) // self._runner.at_once)
        return pack(lengths, budget=max(1, min(self._budget, share)))

    def _count(self, encodings: Sequence[Tokens], started: float) -> None:
        tokens, seconds = sum(map(len, encodings)), time.perf_counter() - started
        self._calls.computed("embeddings", self.model.manifest.name, tokens=tokens, seconds=seconds)


class _Rows:
    """Embeddings that are filled batch by batch, in any order."""

    def __init__(self, texts: int, dim: int) -> None:
        self._vectors = np.empty((texts, dim), np.float32)
        self._tokens: list[Floats] = [NO_ROWS] * texts
        self._distilled: list[Floats] = [NO_ROWS] * texts
        self._headings = [0] * texts
        self._weights: list[Floats] = [NO_NUMBERS] * texts

    @property
    def embeddings(self) -> Embeddings:
        return Embeddings(self._vectors, self._tokens, self._distilled, self._headings, self._weights)

    def put(self, places: Sequence[int], found: Embeddings) -> None:
        self._vectors[places] = found.vectors
        # A model without token vectors gives none. Copies: views would keep the whole batch in memory.
        for place, tokens, distilled in zip(places, found.tokens, found.distilled, strict=False):
            self._tokens[place], self._distilled[place] = tokens.copy(), distilled.copy()
        for place, heading in zip(places, found.headings, strict=False):
            self._headings[place] = heading
        for place, weights in zip(places, found.weights, strict=False):
            self._weights[place] = weights


def _check_window(manifest: ModelManifest, tokens: int) -> None:
    """Raise Misconfigured for a model that cannot read windows of so many tokens, or does not use mean pooling."""
    if manifest.pooling is not Pooling.MEAN:
        raise Misconfigured(
            f"{manifest.name} does not take the mean of its tokens, so late chunking would give other vectors than its "
            "own: set FREKI_MODELS__LATE_WINDOW_TOKENS=0, or choose another FREKI_MODELS__EMBEDDER"
        )
    if tokens > manifest.max_tokens - ROOM_TOKENS:
        raise Misconfigured(
            f"FREKI_MODELS__LATE_WINDOW_TOKENS={tokens} is more than {manifest.name} reads: set at most "
            f"{manifest.max_tokens - ROOM_TOKENS}"
        )
