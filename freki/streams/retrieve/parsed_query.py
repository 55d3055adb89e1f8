"""A query as parsed, and as embedded."""

import re
from collections.abc import Callable, Mapping, Sequence

from freki.operators.analyse_query import phrases_of, says_nothing
from freki.operators.centre_queries import Centred, centre_queries
from freki.schemas import ChunkId, ContextQuery, ExactKind, QueryAnalysis, RequestKind, RootId, Timestamp, may_read
from freki.schemas.arrays import Floats
from freki.schemas.conditions import Condition, fields_of
from freki.schemas.embeddings import QueryEmbedding
from freki.schemas.index import Exclusions, Root, Scope
from freki.schemas.names import extended, record
from freki.schemas.query_options import QueryOptions
from freki.streams.retrieve.query_log import QueryLog

MIN_EXACT_CANDIDATES = 100
"""Candidates that are loaded if the query quotes a phrase or cites a norm: neither search knows either."""
MIN_DESIGNATION_CANDIDATES = 50
"""The same if it names a designation, which BM25 knows."""
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
BY_TERMS = frozenset({RequestKind.RETRIEVE, RequestKind.KEYWORD_SEARCH})
"""Kinds of queries that are searched for by their words."""
_BY_MEANING = frozenset({RequestKind.RETRIEVE, RequestKind.SEMANTIC_SEARCH})


@record
class ParsedQuery:
    """A query with its options and its analysis."""

    query: ContextQuery
    options: QueryOptions
    analysis: QueryAnalysis
    text: str
    """Text that is searched for: a bounded part of the query's."""
    cites: bool
    """Does it cite a norm or a clause? BM25 finds it by its number, which vectors hardly tell apart."""
    trace_id: str
    received_at: Timestamp
    count_tokens: Callable[[Sequence[str]], Sequence[int]] | None
    """Token counter of the model that reads the context; null: the embedder's."""
    log: QueryLog
    left_out: Exclusions = Exclusions()
    """Documents that answers leave out, because of objections."""
    where: Condition | None = None
    """The parsed condition of the query."""
    designations: Sequence[str] = ()
    """Standards, identifiers and numbers that it names; none if it is longer than a question."""
    abbreviation: str = ""
    """Abbreviation that it is, or whose meaning it asks for; empty: none."""

    @property
    def is_read(self) -> bool:
        """Does the query name the chunks that it wants?"""
        return self.query.kind is RequestKind.CHUNK_READ

    @property
    def filtered_fields(self) -> list[str]:
        """Fields that the conditions of the query name, each once."""
        named = [] if self.where is None else fields_of(self.where)
        return list(dict.fromkeys([*(condition.field for condition in self.query.filters), *named]))

    @property
    def is_embedded(self) -> bool:
        """Is the query searched for by its vector?"""
        return self.query.kind in _BY_MEANING

    @property
    def quoted(self) -> list[str]:
        """Phrases of which a hit must hold one."""
        return phrases_of(self.analysis.exact) if self.options.exact else []

    @property
    def names_norm(self) -> bool:
        """Does the query name a section or an article?"""
        return any(term.kind is ExactKind.SECTION for term in self.analysis.exact)

    @property
    def puts_cited_first(self) -> bool:
        """Do norms and clauses that the query cites come first?"""
        return self.options.exact and self.cites

    @property
    def is_exact(self) -> bool:
        """Do candidates count by what stands in them as it is written?"""
        return bool(self.quoted or self.puts_cited_first or self.sought_designations)

    @property
    def sought_designations(self) -> Sequence[str]:
        """Designations and abbreviations that candidates should mention.

        No years, which many texts say once, at their beginning.
        """
        if not self.options.exact:
            return ()
        named = dict.fromkeys((*self.designations, *filter(None, [self.abbreviation])))
        return [name for name in named if not _YEAR.fullmatch(name)]

    @property
    def says_nothing(self) -> bool:
        """Has the query no word and no number? Then nothing can answer it."""
        return not self.is_read and says_nothing(self.text)

    @property
    def wanted(self) -> int:
        """Number of the best candidates to load, for reranking by a model and for diversity."""
        usual = max(self.options.rerank_candidates, 2 * self.options.top_k)
        if self.quoted or self.puts_cited_first:
            return max(usual, MIN_EXACT_CANDIDATES)
        return max(usual, MIN_DESIGNATION_CANDIDATES) if self.sought_designations else usual

    @property
    def scope(self) -> Scope:
        """Rows that the query may see, and asks for."""
        return Scope(
            tenant=self.query.tenant,
            principals=self.query.principals,
            levels=self.analysis.levels,
            filters=self.query.filters,
            left_out=self.left_out,
            where=self.where,
        )

    def may_show(self, root: Root) -> bool:
        """Return whether the answer may have a document: the principals may read it, and no objection leaves it out.

        Rows say the same, and searches filter by them; while a document changes, rows and root differ, and the root
        decides.
        """
        return may_read(self.query.principals, root.principals) and not self.left_out.has(root.root_id, root.attributes)

    def remaining_s(self, now: Timestamp) -> float:
        """Return the seconds until the answer must leave; a sender whose clock is ahead gains no time."""
        asked_at = min(self.query.asked_at, self.received_at)
        return (asked_at + self.options.deadline_ms - now) / 1000


@record
class EmbeddedQuery(ParsedQuery):
    """A parsed query with its embedding and the judgements on similar queries."""

    embedding: QueryEmbedding | None
    """Null: not embedded, or embedding failed."""
    boosts: Mapping[str, float]
    """Judgements of users by chunk and by root, -1..1."""
    centre: Floats | None = None
    """What the vectors of queries in its language have in common, (dim,); null: not known."""

    @classmethod
    def of(cls, parsed: ParsedQuery, embedding: QueryEmbedding | None, boosts: Mapping[str, float]) -> "EmbeddedQuery":
        """Add embedding and judgements to a parsed query."""
        return extended(cls, parsed, embedding=embedding, boosts=boosts)

    @property
    def vector(self) -> Floats | None:
        """Vector of the query, (dim,)."""
        return None if self.embedding is None else self.embedding.vector

    @property
    def centred(self) -> Centred | None:
        """The vector that dense search looks for; None without a query vector."""
        return None if self.vector is None else centre_queries(self.vector[None], [self.centre])

    def similarity(self, vector: Floats) -> float | None:
        """Return the similarity of a chunk (0: any two texts, 1: query and answer), or None without a query vector."""
        return None if self.vector is None else self.options.similarity(float(self.vector @ vector))

    def reaches(self, least: float | None, vector: Floats, probability: float | None) -> bool:
        """Return whether a chunk is similar enough, or a reranker is sure enough of it; null: no threshold, none."""
        if least is None or (probability is not None and probability >= least):
            return True
        similarity = self.similarity(vector)
        return similarity is None or similarity >= least

    def lift(self, chunk_id: ChunkId, root_id: RootId) -> float:
        """Return the share of the best score that judgements add to a chunk, at most the option `feedback`."""
        judged = self.boosts.get(chunk_id, 0.0) + self.boosts.get(root_id, 0.0)
        return self.options.feedback * min(1.0, max(-1.0, judged))
