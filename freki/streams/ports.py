"""What the stages need from the outside, as narrow as they need it.

All methods take and give batches, keep order, may be called again with the same arguments to the same effect,
and raise `Unavailable` (try later) or `Rejected` (never). Adapters own their timeouts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from freki.schemas import ChunkId, ChunkKind, Completion, NoCompletion, Prompt, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import (
    Candidate,
    CommitId,
    IndexedChunk,
    ManifestPage,
    PageHead,
    PageId,
    Passage,
    Place,
    RerankPair,
    Root,
    RowHead,
    RowId,
    Scope,
    StoredRow,
    Watermark,
)

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


class ChunkRows(Protocol):
    """The chunk rows of one generation. A row is written once, under a key of its own, and never changed."""

    async def stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[StoredRow]]:
        """Find the rows of chunks, by whomever they were written; chunks without rows are absent."""

    async def fetch(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
        """Read rows with their vectors, shape (dim,); absent ones are absent."""

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Read texts with their headings and contexts."""

    async def upsert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write rows; the same ones again change nothing. vectors: (rows, dim)."""

    async def rows_of(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[RowHead]]:
        """List every chunk row of documents, live or not, however many."""

    async def delete(self, row_ids: Sequence[RowId]) -> None:
        """Remove rows; absent ones are fine."""


class Roots(Protocol):
    """The roots and manifests of one generation. All are only ever added and removed, never changed.

    All reads see what was written before.
    """

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Read the root of each document that counts (`schemas.index.standing`), also deleted ones."""

    async def commits(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[Root]]:
        """Read all roots of documents, also those that do not count any more."""

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        """Read manifest pages; missing ones are missing."""

    async def places(
        self, roots: Sequence[Root], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[RootId, Mapping[ChunkId, Place]]:
        """Tell which of these chunks the manifests of these roots name, on which page, and by which row."""

    async def page_heads(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[PageHead]]:
        """List all manifest pages of documents, whether a root names them or not."""

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they count for nothing until a root names them."""

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Note of pages that a root may name them."""

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots: from here readers see their revisions, each as a whole. Watermarks never fall back."""

    async def discard(self, pages: Sequence[PageId], commits: Sequence[CommitId] = ()) -> None:
        """Remove pages and roots; absent ones are fine."""


class Store(ChunkRows, Roots, Protocol):
    """Rows, manifests and roots of one generation."""


class ChunkSearch(Protocol):
    """Finds chunk rows that a scope may see; one ranking a query, best first, ties by chunk id."""

    async def dense(
        self, vectors: Floats, scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, dim)."""

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms; an empty text finds nothing."""

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Tell which of the wanted chunks a scope may see, each list in its own; no others are there."""

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""


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
