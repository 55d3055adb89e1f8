"""What a query may turn, and what holds where it does not."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from freki.schemas import CitationStyle, ContextQuery, Fusion, Metric, RequestKind, RerankerChoice, Widening, WidenWhen
from freki.schemas.names import record
from freki.streams.retrieve.profiles import ReaderProfile

# Requirement Q5: enough candidates that fusion and reranking lose nothing.
LEAST_CANDIDATES = 200
CANDIDATES_PER_HIT = 10

# One retriever in its own order: who wants more asks for it.
_ALONE: Mapping[str, Any] = {"widen": (), "reranker": RerankerChoice.NONE, "expand_documents": 0, "feedback": 0.0}
_FOUND: Mapping[str, Any] = {**_ALONE, "mmr_lambda": 1.0, "parents": False, "neighbours": 0}
_OF_KIND: Mapping[RequestKind, Mapping[str, Any]] = {
    RequestKind.RETRIEVE: {},
    RequestKind.KEYWORD_SEARCH: {**_FOUND, "alpha": 0.0},
    RequestKind.SEMANTIC_SEARCH: {**_FOUND, "alpha": 1.0, "exact": False},
    RequestKind.CHUNK_READ: _ALONE,
}
"""What holds for kinds of requests, whatever is set."""


@record
class QueryOptions:
    """Every option with a value, named as in ContextQuery; null where the query itself decides."""

    top_k: int
    candidates: int | None
    """Null: max(200, 10 x top_k)."""
    fusion: Fusion
    alpha: float | None
    """Null: by what the query looks like, `hybrid_alpha` or `keyword_alpha`."""
    hybrid_alpha: float | None
    """Null: by how well the words match, see `lexical_pivot`."""
    keyword_alpha: float
    lexical_pivot: float
    rrf_k: int
    widen: tuple[Widening, ...]
    widen_when: WidenWhen
    metric: Metric
    reranker: RerankerChoice
    rerank_candidates: int
    rerank_blend: float | None
    """Null: by what the query looks like, `usual_blend` or `exact_blend`."""
    usual_blend: float
    exact_blend: float
    fold_at: float
    per_document: int
    mmr_lambda: float
    min_score: float
    parents: bool
    neighbours: int
    context_tokens: int
    citations: CitationStyle
    exact: bool
    prototypes: bool
    deadline_ms: int
    min_similarity: float | None
    """Null: any."""
    expand_documents: int
    expand_chunks: int
    expand_similarity: float
    unrelated_cosine: float
    related_cosine: float
    feedback: float
    cached: bool

    @property
    def depth(self) -> int:
        """How deep each retriever looks."""
        return self.candidates or max(LEAST_CANDIDATES, CANDIDATES_PER_HIT * self.top_k)

    def alpha_for(self, *, keyword: bool) -> float | None:
        """Weight of dense search: what was asked for, else by what the query looks like; null: what BM25 finds says."""
        if self.alpha is not None:
            return self.alpha
        return self.keyword_alpha if keyword else self.hybrid_alpha

    def held(self, field: str, *, keyword: bool, exact: bool) -> object:
        """Give what holds for a field of ContextQuery that a query leaves alone; null where each query decides."""
        if field == "alpha":
            return self.alpha_for(keyword=keyword)
        if field == "rerank_blend":
            return self.blend_for(exact=exact)
        return self.depth if field == "candidates" else getattr(self, field, None)

    def blend_for(self, *, exact: bool) -> float:
        """Weight of hybrid search beside the reranker: what was asked for, else by what the query looks like."""
        if self.rerank_blend is not None:
            return self.rerank_blend
        return self.exact_blend if exact else self.usual_blend

    def similarity(self, cosine: float) -> float:
        """Express a cosine so that 0 is what any two texts have and 1 what an answer has with its question."""
        return (cosine - self.unrelated_cosine) / (self.related_cosine - self.unrelated_cosine)

    def for_profile(self, profile: ReaderProfile) -> "QueryOptions":
        """Take what a profile says over what is set."""
        return replace(
            self,
            context_tokens=profile.context_tokens,
            top_k=profile.top_k,
            min_similarity=profile.min_similarity,
        )

    def with_overrides(self, query: ContextQuery) -> "QueryOptions":
        """Take what the query says over what its kind says, and both over what is set."""
        said = {field.name: getattr(query, field.name, None) for field in fields(self)}
        return replace(
            self, **{**_OF_KIND[query.kind], **{name: value for name, value in said.items() if value is not None}}
        )
