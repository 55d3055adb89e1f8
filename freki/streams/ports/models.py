"""Protocols of models, caches and language models."""

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from freki.schemas import ChunkKind, Completion, NoCompletion, Prompt
from freki.schemas.answer import StreamEnd
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings, PassageEmbedding
from freki.schemas.index import RerankPair

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class AnalyseText(Protocol):
    """Analyser of text for BM25."""

    def __call__(self, text: str, *, language: str) -> str:
        """Return the terms of a text in order, separated by spaces; language: ISO 639-1, or `und`."""


class Embedder(Protocol):
    """Embedding model: a vector for each text, and vectors of its tokens where the model gives some.

    If kinds of chunks have their own embedders, the row of a query has a part of norm 1 for each embedder: its dot
    product with the row of a chunk is the cosine by the chunk's embedder.
    """

    @property
    def fingerprint(self) -> str:
        """Name, version and precision; vectors of different fingerprints must not be compared."""

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""

    @property
    def unrelated(self) -> float:
        """Cosine of unrelated passages, assumed for passages of two embedders; -1 if there is one embedder."""

    def of(self, kind: ChunkKind) -> "Embedder":
        """Return the embedder of a kind of chunks; its `dim` is the same."""

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        """Embed passages; texts beyond the model's limit are truncated.

        headings: the beginning of each text that is its heading, or empty; none: no text has one.
        """

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> Embeddings:
        """Embed spans by the states that their tokens have in their window (late chunking).

        spans: half-open spans of each window, in code points. Returns one row per span, window by window.
        """

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text by the model's tokenizer, without special tokens."""


class EmbedTexts(Protocol):
    """Embedding of queries that are the same at each start of a process."""

    async def __call__(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of queries, (texts, dim)."""


EmbeddingCacheKey = tuple[str, ...]
"""Tenant, then all inputs of a vector."""


class Vectors(Protocol):
    """Cache of embedded passages, which may evict any of them at any time."""

    def among(self, passages: Iterable[EmbeddingCacheKey]) -> Mapping[EmbeddingCacheKey, PassageEmbedding]:
        """Return those of the passages that are cached."""

    def keep(self, passages: Mapping[EmbeddingCacheKey, PassageEmbedding]) -> None:
        """Add passages."""


class Cache(Protocol[T]):
    """Cache of values, bounded by bytes and age, which may evict any of them at any time."""

    def get(self, key: object, *, holds: Callable[[T], bool] = ...) -> T | None:
        """Return the value of a key with an equal `repr`; None if it is not cached, or does not hold any more."""

    def get_all(self, keys: Collection[K]) -> Mapping[K, T]:
        """Return the values of keys, without those that are not cached."""

    def keep(self, key: object, value: T, *, size: int) -> None:
        """Add a value; size: its approximate bytes."""

    def keep_all(self, values: Mapping[K, T], *, size: Callable[[T], int]) -> None:
        """Add values by key; size: returns the approximate bytes of one."""


class Reranker(Protocol):
    """Scorer of how well a text answers a query, 0..1. Errors may carry the wait before a retry in `wait_s`."""

    @property
    def name(self) -> str:
        """Name in results: `remote`, `vertex`, `local` or `llm`."""

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        """Return the scores of pairs, computed in order; None for pairs beyond the time budget."""


class Llm(Protocol):
    """Language model. Failures are returned as NoCompletion, not raised, and waits are short."""

    @property
    def model(self) -> str:
        """Name of the model; texts by another model may be written again."""

    async def complete(
        self, prompts: Sequence[Prompt], *, max_tokens: int, budget_s: float | None = None
    ) -> list[Completion | NoCompletion]:
        """Return the completion of each prompt or the reason for its absence; calls start in order, several in flight.

        max_tokens: limit per completion. budget_s: time limit per call; None: the adapter's.
        """


class StreamingLlm(Protocol):
    """Language model that gives its text as it writes it."""

    def stream(self, prompt: Prompt, *, max_tokens: int) -> AsyncIterator[str | StreamEnd | NoCompletion]:
        """Yield text as it comes; last its end, or why there is no more of it. Raises nothing; no wait is endless."""


class TokenBudget(Protocol):
    """Daily token budget of a language model."""

    async def take(self, tokens: int) -> str | None:
        """Reserve tokens; return the day that they count for, or None, and reserve none, if fewer are left."""

    async def give_back(self, tokens: int, *, day: str) -> None:
        """Return unused tokens to the budget of a day; negative: charge tokens used beyond the reservation.

        Tokens of a day that is over change nothing: they are none of the next one. Raises nothing: the completion is
        paid for, whatever is counted for it.
        """
