"""Models, caches and language models, as stages see them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from freki.schemas import ChunkKind, Completion, NoCompletion, Prompt
from freki.schemas.arrays import Floats
from freki.schemas.index import RerankPair

T = TypeVar("T")


class AnalyseText(Protocol):
    """Gives the terms of a text that BM25 counts, in its order, separated by spaces."""

    def __call__(self, text: str, *, language: str) -> str:
        """Analyse; language: ISO 639-1, or `und`."""


class Embedder(Protocol):
    """Gives texts their vectors: rows of length 1, dtype float32, shape (texts, dim).

    Where kinds of chunks have embedders of their own, a row of a question has a part of length 1 for each: the product
    with the row of a chunk is their cosine by the embedder of the chunk.
    """

    @property
    def fingerprint(self) -> str:
        """Name, version and precision: vectors of different fingerprints must not be compared."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    @property
    def unrelated(self) -> float:
        """The cosine of unrelated passages, which those of two embedders count as; -1 where there is one embedder."""

    def of(self, kind: ChunkKind) -> "Embedder":
        """Give the embedder of a kind of chunks; its rows have the same length."""

    async def embed_passages(self, texts: Sequence[str]) -> Floats:
        """Embed what is searched; texts over the model's limit are cut."""

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> Floats:
        """Embed parts of longer texts, each by the states that its tokens have in its window (late chunking).

        spans: of each window, half-open in code points. Returns a row a span, window by window.
        """

    async def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed what is asked."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens as the model sees them, without special ones."""


EmbeddingCacheKey = tuple[str, ...]
"""A tenant, then all that a vector of its own is made of."""


class Vectors(Protocol):
    """Remembers vectors of passages; it may forget any of them at any time."""

    def among(self, passages: Iterable[EmbeddingCacheKey]) -> Mapping[EmbeddingCacheKey, Floats]:
        """Give those of these that are remembered, shape (dim,) each."""

    def keep(self, vectors: Mapping[EmbeddingCacheKey, Floats]) -> None:
        """Remember some."""


class Cache(Protocol[T]):
    """Remembers values within its bytes and for its time; it may forget any of them at any time."""

    def get(self, key: object) -> T | None:
        """Give what was kept under a key of equal `repr`."""

    def keep(self, key: object, value: T, *, size: int) -> None:
        """Remember a value of about so many bytes."""


class Reranker(Protocol):
    """Scores how well a text answers a query, 0..1. A failure may say in `wait_s` when to come again."""

    @property
    def name(self) -> str:
        """`remote`, `vertex`, `local` or `llm`, as results show it."""

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        """Score pairs, first ones first; None for those that did not fit the budget."""


class Llm(Protocol):
    """A language model. A failure is an answer of its own: nothing is raised, and nobody waits long."""

    @property
    def model(self) -> str:
        """Its name: what another model wrote may be written again."""

    async def complete(
        self, prompts: Sequence[Prompt], *, max_tokens: int, budget_s: float | None = None
    ) -> list[Completion | NoCompletion]:
        """Answer each prompt, or say why not; begun in order, some at once.

        max_tokens: of one answer. budget_s: longest wait for each answer once its call begins; None: the adapter's.
        """


class TokenBudget(Protocol):
    """Tokens of a language model that may still be used today."""

    async def take(self, tokens: int) -> bool:
        """Count tokens in advance; False, and none counted, where the day has not so many left."""

    async def give_back(self, tokens: int) -> None:
        """Count less: fewer were used. Negative: more."""
