"""Values that the steps of retrieval hand on, in the order in which they are made.

QueryVariant → SearchedVariant → Ranked → LiveChunk → LoadedCandidates → RankedCandidates → Selection of
ScoredChunk → LocatedHits of LocatedHit → Retrieval.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple, Self

from freki.operators.augment import Neighbours, SectionWindow
from freki.schemas import ChunkId, QueryAnalysis
from freki.schemas.arrays import Floats
from freki.schemas.index import ChunkContent, ManifestEntry, Passage, Root, RowId
from freki.schemas.names import record
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.search_result import Ranked, SearchedVariant, SearchResult, variant_of
from freki.streams.retrieve.steps.live import LiveDocument

NO_RERANKER = "none"


@record
class LiveChunk:
    """A chunk of the live revision of a document that the principals may read."""

    chunk_id: ChunkId
    document: LiveDocument
    fused: float
    dense: float | None = None
    lexical: float | None = None
    variant: int = 0
    """Index of the first variant that found it; 0: the query itself."""
    matched: float | None = None
    """Probability by late interaction of stored token vectors; null: not matched."""

    @property
    def root(self) -> Root:
        """Root of the document."""
        return self.document.root

    @property
    def row_id(self) -> RowId:
        """Row that holds the chunk in this revision."""
        return self.document.row_id(self.chunk_id)


@record
class LoadedChunk(LiveChunk):
    """A live chunk with its row."""

    row: ChunkContent
    vector: Floats
    duplicates: Sequence["LoadedChunk"] = ()
    """Candidates with the same text, which are represented by this one."""
    mentions: float = 0.0
    """Evidence, in log-odds, of the designations of the query that it mentions, and of its document's short name."""
    reranked: float | None = None
    """Score of the reranker; null: not reranked."""


@record
class ScoredChunk(LoadedChunk):
    """A reranked chunk with its final score."""

    score: float
    judged: float
    """Part of the score that judgements of users added."""


@record
class LocatedHit(ScoredChunk):
    """A hit and its place in the document."""

    near: Sequence[ManifestEntry]
    """Entries of the manifest around the hit and its own, in reading order."""

    @property
    def entry(self) -> ManifestEntry:
        """Entry of the hit itself."""
        return next(entry for entry in self.near if entry.chunk_id == self.chunk_id)


@record
class History:
    """Chunks that were left after each step, and those that a step left out."""

    orders: Mapping[str, tuple[ChunkId, ...]] = field(default_factory=dict)
    """By step, best first."""
    dropped: Mapping[tuple[str, str], tuple[ChunkId, ...]] = field(default_factory=dict)
    """By step and reason, each chunk once."""

    def after(self, step: str, chunks: Iterable[LiveChunk | Ranked]) -> "History":
        """Add the order after a step."""
        return replace(self, orders={**self.orders, step: tuple(each.chunk_id for each in chunks)})

    def dropping(self, step: str, reason: str, chunk_ids: Iterable[ChunkId]) -> "History":
        """Add chunks that a step left out."""
        ids = tuple(dict.fromkeys((*self.dropped.get((step, reason), ()), *chunk_ids)))
        return replace(self, dropped={**self.dropped, (step, reason): ids}) if ids else self


@record
class LoadedCandidates:
    """Loaded candidates of a query, best first."""

    search: SearchResult
    found: Sequence[LoadedChunk]
    history: History
    is_stale: bool = False
    """Were documents replaced while their rows were read?"""

    def keep_only(self, step: str, reason: str, kept: Sequence[LoadedChunk]) -> Self:
        """Drop all candidates but these."""
        stay = {each.chunk_id for each in kept}
        gone = [each.chunk_id for each in self.found if each.chunk_id not in stay]
        return replace(self, found=tuple(kept), history=self.history.dropping(step, reason, gone))

    def after(self, step: str) -> Self:
        """Record the order after a step."""
        return replace(self, history=self.history.after(step, self.found))


@record
class QueryCandidates:
    """A query and its candidates."""

    query: EmbeddedQuery
    candidates: LoadedCandidates


@record
class RankedCandidates(LoadedCandidates):
    """Candidates, the first of them with the scores of a reranker."""

    head: Sequence[LoadedChunk]
    """Candidates that the reranker was given, in the fused order."""
    reranker: str
    """Name of the reranker that scored the head, or NO_RERANKER."""


@record
class Selection(RankedCandidates):
    """Hits that were chosen among the candidates."""

    found: Sequence[ScoredChunk]
    best_effort: bool
    """Are the hits only the nearest to the query, because none passes the thresholds?"""

    def best_roots(self, count: int) -> list[Root]:
        """Return the roots of the best documents, best first."""
        return list({each.root.root_id: each.root for each in self.found}.values())[:count]


@record
class LocatedHits(Selection):
    """Hits and their places in their documents."""

    found: Sequence[LocatedHit]
    is_lost: bool
    """Was the revision of some candidates replaced meanwhile?"""


class Further(NamedTuple):
    """A further chunk of a document that a hit is of."""

    root: Root
    entry: ManifestEntry
    similarity: float


@record
class Surrounding:
    """Chunks that are shown around a hit."""

    section: SectionWindow | None = None
    neighbours: Neighbours = Neighbours((), ())

    @property
    def shown(self) -> list[ManifestEntry]:
        """All of them, some twice."""
        section = self.section.entries if self.section is not None else ()
        return [*section, *self.neighbours.before, *self.neighbours.after]


@record
class Surroundings:
    """Chunks around hits, and the texts of these and of further chunks."""

    of_hits: Mapping[ChunkId, Surrounding] = field(default_factory=dict)
    passages: Mapping[ChunkId, Passage] = field(default_factory=dict)

    def of(self, chunk_id: ChunkId) -> Surrounding:
        """Return the surrounding of a hit; an empty one if nothing is shown."""
        return self.of_hits.get(chunk_id, Surrounding())


@record
class Retrieval:
    """All that was retrieved for one query."""

    query: EmbeddedQuery
    hits: LocatedHits
    further: Sequence[Further] = ()
    """Further chunks of the best documents, by document and place."""
    surroundings: Surroundings = Surroundings()
    excluded: int = 0
    """Number of documents that only the filters of the query kept from being found, as far as was looked."""

    @property
    def analysis(self) -> QueryAnalysis:
        """Analysis of the query, with the weight of dense search."""
        return replace(self.query.analysis, alpha=self.hits.search.alpha)


def nothing_found(query: EmbeddedQuery) -> Retrieval:
    """Return an empty retrieval."""
    search = SearchResult(variants=[SearchedVariant(variant=variant_of(query), dense=None, lexical=None)])
    hits = LocatedHits(
        search=search,
        found=(),
        history=History(),
        head=(),
        reranker=NO_RERANKER,
        best_effort=False,
        is_lost=False,
    )
    return Retrieval(query=query, hits=hits)
