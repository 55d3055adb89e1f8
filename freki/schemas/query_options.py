"""Query options. Each is declared once, here; settings, validation, `freki ask` and retrieval derive theirs from it.

To add an option: declare it in `QueryOptions`, add a field of the same name to ContextQuery, use it in a step.
"""

from collections.abc import Mapping
from dataclasses import Field, field, fields, replace
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from freki.schemas.context_query import (
    CitationStyle,
    ContextQuery,
    Fusion,
    Metric,
    RequestKind,
    RerankerChoice,
    Widening,
    WidenWhen,
)
from freki.schemas.names import record

MAX_DEADLINE_MS = 600_000
T = TypeVar("T")

MIN_CANDIDATES = 200
"""Default search depth, in candidates per retriever: enough that fusion and reranking lose nothing (requirement Q5)."""
CANDIDATES_PER_HIT = 10

_DECLARATION = "declaration"


class OptionGroup(StrEnum):
    """Heading of related options in `freki ask --help`."""

    SEARCH = "Search"
    FURTHER_SEARCHES = "Further searches"
    RERANKING = "Reranking"
    HITS = "Choice of hits"
    CONTEXT = "Context"
    SERVICE = "Service"


class SetBy(Enum):
    """Who sets an option."""

    SETTING_AND_QUERY = "setting and query"
    """The setting `FREKI_RETRIEVAL__NAME`; a query overrides it."""
    SETTING = "setting"
    QUERY = "query"


@record
class _Declaration:
    description: str
    group: OptionGroup
    bounds: tuple[float, float] | None
    set_by: SetBy


@record
class QueryOption:
    """Properties of a query option."""

    name: str
    default: object
    annotation: Any
    """Type as declared, such as `float | None`."""
    value_type: type[Any]
    """bool, int, float or an enum; the type of the items if the value is a tuple."""
    is_tuple: bool
    description: str
    group: OptionGroup
    bounds: tuple[float, float] | None
    """Inclusive; null: any finite value."""
    has_setting: bool
    """Is the default a setting?"""
    in_query: bool
    """May a query set it?"""


def _option(
    default: T,
    description: str,
    group: OptionGroup,
    *,
    bounds: tuple[float, float] | None = None,
    set_by: SetBy = SetBy.SETTING_AND_QUERY,
) -> T:
    """Declare an option. bounds: inclusive; numbers without bounds are any finite ones."""
    declaration = _Declaration(description=description, group=group, bounds=bounds, set_by=set_by)
    declared: T = field(default=default, metadata={_DECLARATION: declaration})
    return declared


_SEARCH, _FURTHER, _RERANKING = OptionGroup.SEARCH, OptionGroup.FURTHER_SEARCHES, OptionGroup.RERANKING
_HITS, _CONTEXT, _SERVICE = OptionGroup.HITS, OptionGroup.CONTEXT, OptionGroup.SERVICE


@record
class QueryOptions:
    """Values of all options of one query, and their declarations."""

    top_k: int = _option(8, "Maximum number of hits", _HITS, bounds=(1, 200))
    candidates: int | None = _option(
        None, "Number of candidates of each retriever", _SEARCH, bounds=(1, 10_000), set_by=SetBy.QUERY
    )
    """Null: max(200, 10 x top_k)."""
    alpha: float | None = _option(None, "Weight of dense search", _SEARCH, bounds=(0, 1), set_by=SetBy.QUERY)
    """Null: `keyword_alpha` or `hybrid_alpha`, by the type of the query."""
    hybrid_alpha: float | None = _option(
        None,
        "Weight of dense search; none: less the better the words match",
        _SEARCH,
        bounds=(0, 1),
        set_by=SetBy.SETTING,
    )
    """Null: by the score of the best BM25 match, see `lexical_pivot`."""
    keyword_alpha: float = _option(
        0.4,
        "Weight of dense search for queries of up to 3 words, and for those that cite a norm or clause, such as § 573c",
        _SEARCH,
        bounds=(0, 1),
        set_by=SetBy.SETTING,
    )
    lexical_pivot: float = _option(
        60, "BM25 score of the best match at which both searches weigh the same", _SEARCH, bounds=(0.1, 10_000)
    )
    fusion: Fusion = _option(Fusion.WEIGHTED, "How rankings are fused", _SEARCH)
    rrf_k: int = _option(60, "k of reciprocal rank fusion", _SEARCH, bounds=(1, 10_000))
    metric: Metric = _option(Metric.COSINE, "Measure of dense search: docs/queries.md", _SEARCH, set_by=SetBy.QUERY)
    reranker: RerankerChoice = _option(
        RerankerChoice.AUTO, "Which reranker is asked first: docs/queries.md", _RERANKING
    )
    widen: tuple[Widening, ...] = _option((Widening.SPELLING,), "Kinds of further searches: docs/queries.md", _FURTHER)
    widen_when: WidenWhen = _option(WidenWhen.WEAK, "When: always, or where the first one looks weak", _FURTHER)
    rerank_candidates: int = _option(16, "How many of the best candidates a model reranks", _RERANKING, bounds=(0, 500))
    rerank_blend: float | None = _option(
        None, "Weight of hybrid search beside the reranker", _RERANKING, bounds=(0, 1000), set_by=SetBy.QUERY
    )
    """Null: `exact_blend` if the query cites a norm or clause, else `usual_blend`."""
    usual_blend: float = _option(
        0.0,
        "Log-odds that a fused score of 1 adds to the reranker's, in the order",
        _RERANKING,
        bounds=(0, 1000),
        set_by=SetBy.SETTING,
    )
    exact_blend: float = _option(
        4.0,
        "The same for queries that cite a norm or clause, such as § 573c",
        _RERANKING,
        bounds=(0, 1000),
        set_by=SetBy.SETTING,
    )
    fold_at: float = _option(
        1.0, "Similarity from which candidates count as duplicates; 1: the same text", _HITS, bounds=(0, 1)
    )
    per_document: int = _option(0, "Maximum number of hits of one document; 0: any number", _HITS, bounds=(0, 200))
    mmr_lambda: float = _option(0.7, "1 is relevance only, 0 is diversity only", _HITS, bounds=(0, 1))
    min_score: float = _option(0.0, "Minimum score of a hit", _HITS)
    parents: bool = _option(default=True, description="Give each hit the section around it", group=_CONTEXT)
    neighbours: int = _option(1, "Chunks before and after each hit", _CONTEXT, bounds=(0, 10))
    context_tokens: int = _option(
        2000, "Maximum number of tokens of the context text", _CONTEXT, bounds=(50, 1_000_000)
    )
    citations: CitationStyle = _option(CitationStyle.QUELLE, "Format of citations", _CONTEXT)
    exact: bool = _option(
        default=True,
        description="Must hits hold what the query quotes, where any does, and come cited sections and clauses, and "
        "what mentions designations, first?",
        group=_HITS,
    )
    prototypes: bool = _option(
        default=True, description="Type queries that no rule knows by queries near to them?", group=_SEARCH
    )
    min_similarity: float | None = _option(
        None, "Minimum similarity of a hit: 0 as any two texts, 1 as answer and query; none: any", _HITS
    )
    expand_documents: int = _option(
        0, "Of how many of the best documents to show further chunks; 0: of none", _FURTHER, bounds=(0, 10)
    )
    expand_chunks: int = _option(20, "Maximum number of further chunks of each", _FURTHER, bounds=(0, 100))
    expand_similarity: float = _option(0.3, "Minimum similarity of the best hit of such a document", _FURTHER)
    unrelated_cosine: float = _option(
        0.74,
        "Similarity 0: the embedder's cosine of a query and any text",
        _HITS,
        bounds=(-1, 1),
        set_by=SetBy.SETTING,
    )
    related_cosine: float = _option(
        0.87,
        "Similarity 1: its cosine of a query and its answer",
        _HITS,
        bounds=(-1, 1),
        set_by=SetBy.SETTING,
    )
    unanswered_probability: float = _option(
        0.05,
        "A result answers nothing if the local reranker's best probability is below it",
        _HITS,
        bounds=(0, 1),
        set_by=SetBy.SETTING,
    )
    unanswered_similarity: float = _option(
        0.75,
        "… and the best similarity is below this (see `unanswered_probability`); -10: never",
        _HITS,
        bounds=(-10, 10),
        set_by=SetBy.SETTING,
    )
    deadline_ms: int = _option(5000, "Milliseconds until the answer must leave", _SERVICE, bounds=(1, MAX_DEADLINE_MS))
    feedback: float = _option(
        0.0, "Maximum change of a score by judgements of users; needs `FREKI_FEEDBACK__READ`", _RERANKING, bounds=(0, 1)
    )
    cached: bool = _option(
        default=False, description="May the answer come from the cache?", group=_SERVICE, set_by=SetBy.QUERY
    )

    @property
    def depth(self) -> int:
        """Number of candidates that each retriever returns."""
        return self.candidates or max(MIN_CANDIDATES, CANDIDATES_PER_HIT * self.top_k)

    def alpha_for(self, *, keyword: bool, exact: bool) -> float | None:
        """Return the weight of dense search for a query, or None if the BM25 scores decide.

        keyword: has it few words? exact: does it cite a norm or clause?
        """
        if self.alpha is not None:
            return self.alpha
        return self.keyword_alpha if keyword or exact else self.hybrid_alpha

    def blend_for(self, *, exact: bool) -> float:
        """Return the weight of hybrid search beside the reranker; exact: does the query cite a norm or clause?"""
        if self.rerank_blend is not None:
            return self.rerank_blend
        return self.exact_blend if exact else self.usual_blend

    def held(self, name: str, *, keyword: bool, exact: bool) -> object:
        """Return the value of a field of ContextQuery if the query leaves it null; None if each query decides."""
        if name == "alpha":
            return self.alpha_for(keyword=keyword, exact=exact)
        if name == "rerank_blend":
            return self.blend_for(exact=exact)
        return self.depth if name == "candidates" else getattr(self, name, None)

    def similarity(self, cosine: float) -> float:
        """Rescale a cosine: 0 for any two texts, 1 for a query and its answer."""
        return (cosine - self.unrelated_cosine) / (self.related_cosine - self.unrelated_cosine)

    def with_overrides(self, query: ContextQuery) -> "QueryOptions":
        """Return the options with those of the query; the kind of request overrides the settings only."""
        given = {option.name: getattr(query, option.name) for option in QUERY_OPTIONS.values() if option.in_query}
        overrides = {name: value for name, value in given.items() if value is not None}
        return replace(self, **{**_OF_KIND[query.kind], **overrides})


# A single retriever in its own order, unless the query asks for more.
_NO_REFINEMENT: Mapping[str, Any] = {
    "widen": (),
    "reranker": RerankerChoice.NONE,
    "expand_documents": 0,
    "feedback": 0.0,
}
_SINGLE_SEARCH: Mapping[str, Any] = {**_NO_REFINEMENT, "mmr_lambda": 1.0, "parents": False, "neighbours": 0}
_OF_KIND: Mapping[RequestKind, Mapping[str, Any]] = {
    RequestKind.RETRIEVE: {},
    RequestKind.KEYWORD_SEARCH: {**_SINGLE_SEARCH, "alpha": 0.0},
    RequestKind.SEMANTIC_SEARCH: {**_SINGLE_SEARCH, "alpha": 1.0, "exact": False},
    RequestKind.CHUNK_READ: _NO_REFINEMENT,
}
"""Values by kind of request, whatever the settings are."""


def _declared(declared: "Field[Any]", hint: Any) -> QueryOption:  # noqa: ANN401 - any type
    declaration: _Declaration = declared.metadata[_DECLARATION]
    inner = next(each for each in get_args(hint) if each is not NoneType) if NoneType in get_args(hint) else hint
    is_tuple = get_origin(inner) is tuple
    value_type = get_args(inner)[0] if is_tuple else inner
    low_high = declaration.bounds
    return QueryOption(
        name=declared.name,
        default=declared.default,
        annotation=hint,
        value_type=value_type,
        is_tuple=is_tuple,
        description=declaration.description,
        group=declaration.group,
        bounds=low_high and (value_type(low_high[0]), value_type(low_high[1])),
        has_setting=declaration.set_by is not SetBy.QUERY,
        in_query=declaration.set_by is not SetBy.SETTING,
    )


QUERY_OPTIONS: Mapping[str, QueryOption] = {
    each.name: _declared(each, get_type_hints(QueryOptions)[each.name]) for each in fields(QueryOptions)
}
"""All options by name."""
