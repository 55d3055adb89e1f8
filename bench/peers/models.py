"""Freki's models for frameworks that call synchronous functions from any thread."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

from cachetools import LRUCache

from bench.peers.lowest_layers import open_lowest_layers
from freki.infra.models import OnnxEmbedder
from freki.infra.models.packing import pack
from freki.infra.models.session import Model
from freki.infra.settings import ModelSettings
from freki.operators.detect_language import detect_language
from freki.operators.late_interaction import ENGLISH, OTHERS, SearchScores, match_codes, relevance, similarities
from freki.schemas.embeddings import NO_NUMBERS, each_query
from freki.schemas.names import record

T = TypeVar("T")
Vector = list[float]
KEPT_TEXTS = 20_000
"""Texts whose codes the reranker keeps."""
BATCH_TOKENS = 1024


@record
class Candidate:
    """Hit to rerank, with the framework's data about it."""

    text: str
    title: str
    language: str
    score: float
    """Score of hybrid search, higher is better."""


class Background:
    """Event loop in a separate thread."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class Models:
    """Embedder and reranker, opened on first use, so that unused models take no memory."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._opened = AsyncExitStack()
        self._embedder: OnnxEmbedder | None = None
        self._reranker: Model | None = None
        self._codes: LRUCache[str, str] = LRUCache(KEPT_TEXTS)
        self._kept: dict[str, Vector] = {}
        self.embedded = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._background.wait(self._opened.aclose())

    @property
    def embedder(self) -> OnnxEmbedder:
        """Opened embedder."""
        if self._embedder is None:
            entering = self._opened.enter_async_context(OnnxEmbedder(ModelSettings()))
            self._embedder = self._background.wait(entering)
        return self._embedder

    @property
    def reranker(self) -> Model:
        """Opened reranker."""
        if self._reranker is None:
            self._reranker = open_lowest_layers(ModelSettings())
        return self._reranker

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self.embedder.dim

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed passages and count them."""
        self.embedded += len(texts)
        vectors: list[Vector] = self._background.wait(self.embedder.embed_passages(texts)).vectors.tolist()
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        if text in self._kept:
            return self._kept[text]
        vectors: list[Vector] = self._background.wait(self.embedder.embed_queries([text])).vectors.tolist()
        return vectors[0]

    def keep(self, question: str) -> None:
        """Cache the vector of a question, so that queries do not slow an update down."""
        self._kept[question] = self.embed_query(question)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens by the embedder's tokenizer."""
        return self.embedder.count_tokens([text])[0]

    def tokens(self, text: str) -> list[str]:
        """Return as many pieces as a text has tokens, for splitters that only count."""
        return [""] * self.count_tokens(text)

    def rerank(self, question: str, candidates: Sequence[Candidate]) -> list[float]:
        """Score candidates, 0..1, by late interaction; the codes of texts are kept.

        Unlike in Freki, the reranker gets no cosine and no BM25 share: fused hits lack them.
        """
        if not candidates:
            return []
        self._encode(dict.fromkeys(each.text for each in candidates))
        asked = self.reranker.queries(self.reranker.encode([self.reranker.manifest.query_prefix + question]))
        (query,) = each_query(asked._replace(distilled=[NO_NUMBERS]))
        best = max(each.score for each in candidates)
        found = similarities(query, [self._codes[each.text].partition("|")[0] for each in candidates])
        # Sums of reciprocal ranks, by which all three frameworks fuse, are a few hundredths.
        fused = [each.score / best if best > 0 else 0.0 for each in candidates]
        nothing = [0.0] * len(candidates)
        weights = ENGLISH if detect_language(question) == "en" else OTHERS
        scores: list[float] = relevance(found, SearchScores(fused, nothing, nothing), weights=weights).tolist()
        return scores

    def _encode(self, texts: Iterable[str]) -> None:
        unknown = [text for text in texts if text not in self._codes]
        encodings = self.reranker.encode([self.reranker.manifest.passage_prefix + text for text in unknown])
        for batch in pack([len(each) for each in encodings], budget=BATCH_TOKENS):
            embedded = self.reranker.passages([encodings[place] for place in batch], [0] * len(batch))
            self._codes.update(zip((unknown[place] for place in batch), match_codes(embedded), strict=True))
