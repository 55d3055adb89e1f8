"""State of a query between the steps of retrieval: what is known so far, and what was noticed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np

from freki.operators.analyse_query import phrases_of
from freki.operators.augment import Neighbours, SectionWindow
from freki.schemas import (
    ChunkId,
    ContextQuery,
    DocumentId,
    Notice,
    NoticeKind,
    QueryAnalysis,
    RootId,
    StageTime,
    Timestamp,
    Widening,
)
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, IndexedChunk, ManifestEntry, Passage, Root, RowId
from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions
from freki.streams.retrieve.steps.live import LiveDocument

NANOS = 1_000_000
QUOTED_CANDIDATES = 100
"""How many are read in search of what a question quotes: neither search knows phrases."""


@record
class StageRun:
    """One step of one query, as traces show it."""

    stage: str
    started_ns: int
    ended_ns: int
    items: int


@dataclass(slots=True)
class QueryVariant:
    """One variant to search for what a query asks, and what it found: first the question, then its variants."""

    text: str
    terms: str
    """What BM25 searches for; nothing where it is empty."""
    kind: Widening | None = None
    """Null: the question itself."""
    weight: float = 1.0
    """In the fusion; the question has 1, and no variant has as much."""
    embeds: bool = True
    """Is it searched by a vector?"""
    vector: Floats | None = None
    dense: list[Candidate] | None = None
    """Null until it is searched, and where that fails."""
    lexical: list[Candidate] | None = None


class Ranked(NamedTuple):
    """A chunk in the fused ranking, with what each retriever said; it may not be live any more."""

    chunk_id: ChunkId
    root_id: RootId
    fused: float
    dense: float | None
    lexical: float | None
    variant: int
    """Place of the first variant that found it."""


@dataclass(slots=True)
class ScoredChunk:
    """A chunk of the live revision, with every score it got."""

    chunk_id: ChunkId
    document: LiveDocument
    fused: float
    dense: float | None = None
    lexical: float | None = None
    variant: int = 0
    """Place of the first variant that found it; 0: the question."""
    reranked: float | None = None
    score: float = 0.0
    duplicates: list["ScoredChunk"] = field(default_factory=list)
    """Others that say the same, and are not hits because of it."""
    judged: float = 0.0
    """What judgements of users added to the score."""
    near: Sequence[ManifestEntry] = ()
    """Entries of the manifest around it, its own among them, in reading order; only for hits."""
    section: SectionWindow | None = None
    neighbours: Neighbours = field(default_factory=lambda: Neighbours((), ()))
    """What is shown around it; only for hits."""
    row: IndexedChunk | None = None
    vector: Floats | None = None

    @property
    def root(self) -> Root:
        """The document's root."""
        return self.document.root

    @property
    def row_id(self) -> RowId:
        """The row that holds the chunk in this revision."""
        return self.document.row_id(self.chunk_id)

    @property
    def entry(self) -> ManifestEntry:
        """Where the chunk stands; only for hits."""
        return next(entry for entry in self.near if entry.chunk_id == self.chunk_id)

    @property
    def content(self) -> IndexedChunk:
        """The chunk's row; only for those that were loaded."""
        if self.row is None:
            raise ValueError(f"chunk {self.chunk_id} was not loaded")
        return self.row


class Further(NamedTuple):
    """A further chunk of a document that a hit is of."""

    root: Root
    entry: ManifestEntry
    similarity: float


@dataclass(slots=True)
class QueryState:
    """One query and what has been found for it."""

    query: ContextQuery
    options: QueryOptions
    trace_id: str
    clock_ns: Callable[[], int]
    received_at: Timestamp
    analysis: QueryAnalysis
    query_variants: list[QueryVariant]
    """The question first; it is always there."""
    ranked: list[Ranked] = field(default_factory=list)
    found: list[ScoredChunk] = field(default_factory=list)
    count_tokens: Callable[[Sequence[str]], Sequence[int]] | None = None
    """As the model counts that reads the context; None: as the embedder does."""
    around: Mapping[ChunkId, Passage] = field(default_factory=dict)
    """Chunks that stand around the hits, and further ones."""
    further: Sequence[Further] = ()
    """Further chunks of the documents of the best hits, by document and place."""
    excluded: int = 0
    """Documents that the query's filters kept from being found, as far as was looked."""
    best_effort: bool = False
    """Are the hits those of least distance only, because none passed the thresholds?"""
    roots: dict[RootId, Root] = field(default_factory=dict)
    """Of documents that were looked up."""
    loaded: Mapping[ChunkId, tuple[IndexedChunk, Floats]] = field(default_factory=dict)
    """Rows that were read for it."""
    head: Sequence[ScoredChunk] = ()
    """Candidates that the reranker was given, in the fused order."""
    replaced: bool = False
    """Were candidates deleted while they were being read?"""
    orders: dict[str, tuple[ChunkId, ...]] = field(default_factory=dict)
    """What was left after each step, best first."""
    extras: frozenset[str] = frozenset()
    """Steps beside reranking that improve the answer, as far as there is time for them."""
    reranker: str = "none"
    boosts: Mapping[str, float] = field(default_factory=dict)
    """By chunk and by root, what judgements of users say of it, -1..1."""
    unranked: int = 0
    """Candidates that the deadline left no time to rerank."""
    stages: list[StageRun] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    dropped: dict[tuple[str, str], dict[ChunkId, None]] = field(default_factory=dict)
    """Chunks that were left out, each once, by step and reason."""

    @property
    def variants(self) -> tuple[str, ...]:
        """What is searched: the question first."""
        return tuple(variant.text for variant in self.query_variants)

    @property
    def vectors(self) -> Floats:
        """The vector of the question, shape (1, dim), or (0, 0) where it has none."""
        vector = self.query_variants[0].vector
        return np.empty((0, 0), dtype=np.float32) if vector is None else vector[None]

    @property
    def dense(self) -> list[list[Candidate]]:
        """What dense search found, in the order of the variants."""
        return [variant.dense for variant in self.query_variants if variant.dense is not None]

    @property
    def lexical(self) -> list[list[Candidate]]:
        """What BM25 found, in the order of the variants."""
        return [variant.lexical for variant in self.query_variants if variant.lexical is not None]

    def second_pass(self) -> "QueryState":
        """Copy what a second search changes; notices and times are those of both."""
        dropped = {reason: dict(chunks) for reason, chunks in self.dropped.items()}
        variants = [replace(variant) for variant in self.query_variants]
        roots, orders = dict(self.roots), dict(self.orders)
        return replace(
            self, query_variants=variants, found=list(self.found), dropped=dropped, roots=roots, orders=orders
        )

    def take_over(self, after: "QueryState") -> None:
        """Go on with all that a second search left behind."""
        for each in fields(self):
            setattr(self, each.name, getattr(after, each.name))

    def notice(self, stage: str, kind: NoticeKind, message: str) -> None:
        """Tell the reader of the result."""
        self.notices.append(Notice(stage=stage, kind=kind, message=message))

    def drop(self, stage: str, reason: str, chunk_ids: Iterable[ChunkId]) -> None:
        """Remember what was left out, for the log; the same of the same step and reason counts once."""
        if ids := dict.fromkeys(chunk_ids):
            self.dropped.setdefault((stage, reason), {}).update(ids)

    def lift(self, chunk_id: ChunkId, root_id: RootId) -> float:
        """Give the share of a score that judgements of users add or take, at most the option's."""
        said = self.boosts.get(chunk_id, 0.0) + self.boosts.get(root_id, 0.0)
        return self.options.feedback * min(1.0, max(-1.0, said))

    def keep_only(self, stage: str, reason: str, kept: Sequence[ScoredChunk]) -> None:
        """Go on with those of the found; remember which are not among them, and why."""
        if len(kept) < len(self.found):
            stay = {found.chunk_id for found in kept}
            self.drop(stage, reason, (found.chunk_id for found in self.found if found.chunk_id not in stay))
        self.found = list(kept)

    def left(self, step: str) -> None:
        """Remember what is left after a step; of one that is done again, what is left at last."""
        self.orders[step] = tuple(found.chunk_id for found in self.found)

    def similarity(self, found: ScoredChunk) -> float:
        """Compare a loaded candidate with the question itself: 0 as any two texts, 1 as answer and question.

        Raises ValueError where the question has no vector.
        """
        if not len(self.vectors) or found.vector is None:
            raise ValueError("there are no vectors to compare")
        return self.options.similarity(float(self.vectors[0] @ found.vector))

    def best_roots(self, most: int) -> list[Root]:
        """Give the roots of the documents of the best hits, best first."""
        return list({found.root.root_id: found.root for found in self.found}.values())[:most]

    def best_documents(self, most: int = 3) -> list[DocumentId]:
        """Name the documents of the best hits, best first."""
        return [root.document_id for root in self.best_roots(most)]

    @property
    def wanted(self) -> int:
        """How many candidates are loaded, for reranking and for diversity."""
        usual = max(self.options.rerank_candidates, 2 * self.options.top_k)
        return max(usual, QUOTED_CANDIDATES) if self.quoted else usual

    @property
    def quoted(self) -> list[str]:
        """What hits must hold."""
        return phrases_of(self.analysis.exact) if self.options.exact else []

    def note(self, stage: str, started_ns: int, ended_ns: int, items: int) -> None:
        """Note how long a step took."""
        self.stages.append(StageRun(stage=stage, started_ns=started_ns, ended_ns=ended_ns, items=items))

    def remaining_s(self, now: Timestamp) -> float:
        """Seconds until the answer must leave; a clock that is ahead of ours does not give more time."""
        asked_at = min(self.query.asked_at, self.received_at)
        return (asked_at + self.options.deadline_ms - now) / 1000

    def times(self) -> tuple[StageTime, ...]:
        """How long each stage took."""
        return tuple(
            StageTime(stage=run.stage, milliseconds=(run.ended_ns - run.started_ns) / NANOS, items=run.items)
            for run in self.stages
        )


@contextmanager
def timed(states: Sequence[QueryState], stage: str, items: Callable[[QueryState], int]) -> Iterator[None]:
    """Note a stage on all queries that went through it together."""
    started = states[0].clock_ns() if states else 0
    try:
        yield
    finally:
        ended = states[0].clock_ns() if states else 0
        for state in states:
            state.note(stage, started, ended, items(state))
