from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fusion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FUSION_UNSPECIFIED: _ClassVar[Fusion]
    FUSION_WEIGHTED: _ClassVar[Fusion]
    FUSION_RRF: _ClassVar[Fusion]
    FUSION_ZSCORE: _ClassVar[Fusion]
    FUSION_TMM: _ClassVar[Fusion]
    FUSION_ARCTAN: _ClassVar[Fusion]

class Widening(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WIDENING_UNSPECIFIED: _ClassVar[Widening]
    WIDENING_STATEMENT: _ClassVar[Widening]
    WIDENING_SYNONYMS: _ClassVar[Widening]
    WIDENING_COMPOUNDS: _ClassVar[Widening]
    WIDENING_ABBREVIATIONS: _ClassVar[Widening]
    WIDENING_SPELLING: _ClassVar[Widening]
    WIDENING_TERMS: _ClassVar[Widening]
    WIDENING_VECTOR: _ClassVar[Widening]
    WIDENING_PARAPHRASES: _ClassVar[Widening]
    WIDENING_PERSPECTIVES: _ClassVar[Widening]
    WIDENING_PARTS: _ClassVar[Widening]
    WIDENING_PASSAGE: _ClassVar[Widening]

class WidenWhen(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WIDEN_WHEN_UNSPECIFIED: _ClassVar[WidenWhen]
    WIDEN_WHEN_ALWAYS: _ClassVar[WidenWhen]
    WIDEN_WHEN_WEAK: _ClassVar[WidenWhen]

class Metric(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METRIC_UNSPECIFIED: _ClassVar[Metric]
    METRIC_COSINE: _ClassVar[Metric]
    METRIC_DOT: _ClassVar[Metric]
    METRIC_EUCLIDEAN: _ClassVar[Metric]

class RerankerChoice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RERANKER_CHOICE_UNSPECIFIED: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_AUTO: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_REMOTE: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_VERTEX: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_LOCAL: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_LLM: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_COSINE: _ClassVar[RerankerChoice]
    RERANKER_CHOICE_NONE: _ClassVar[RerankerChoice]

class CitationStyle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CITATION_STYLE_UNSPECIFIED: _ClassVar[CitationStyle]
    CITATION_STYLE_QUELLE: _ClassVar[CitationStyle]
    CITATION_STYLE_DOCUMENT: _ClassVar[CitationStyle]

class RequestKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUEST_KIND_UNSPECIFIED: _ClassVar[RequestKind]
    REQUEST_KIND_RETRIEVE: _ClassVar[RequestKind]
    REQUEST_KIND_KEYWORD_SEARCH: _ClassVar[RequestKind]
    REQUEST_KIND_SEMANTIC_SEARCH: _ClassVar[RequestKind]
    REQUEST_KIND_CHUNK_READ: _ClassVar[RequestKind]

class OutcomeStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_STATUS_UNSPECIFIED: _ClassVar[OutcomeStatus]
    OUTCOME_STATUS_INDEXED: _ClassVar[OutcomeStatus]
    OUTCOME_STATUS_UNCHANGED: _ClassVar[OutcomeStatus]
    OUTCOME_STATUS_DELETED: _ClassVar[OutcomeStatus]
    OUTCOME_STATUS_STALE: _ClassVar[OutcomeStatus]
    OUTCOME_STATUS_REJECTED: _ClassVar[OutcomeStatus]

class ResultStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_STATUS_UNSPECIFIED: _ClassVar[ResultStatus]
    RESULT_STATUS_COMPLETE: _ClassVar[ResultStatus]
    RESULT_STATUS_DEGRADED: _ClassVar[ResultStatus]
    RESULT_STATUS_EMPTY: _ClassVar[ResultStatus]
    RESULT_STATUS_REJECTED: _ClassVar[ResultStatus]
    RESULT_STATUS_EXPIRED: _ClassVar[ResultStatus]

class Confidence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFIDENCE_UNSPECIFIED: _ClassVar[Confidence]
    CONFIDENCE_HIGH: _ClassVar[Confidence]
    CONFIDENCE_LOW: _ClassVar[Confidence]
    CONFIDENCE_NONE: _ClassVar[Confidence]
    CONFIDENCE_UNKNOWN: _ClassVar[Confidence]

class FilterOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILTER_OPERATOR_UNSPECIFIED: _ClassVar[FilterOperator]
    FILTER_OPERATOR_EQ: _ClassVar[FilterOperator]
    FILTER_OPERATOR_NE: _ClassVar[FilterOperator]
    FILTER_OPERATOR_IN: _ClassVar[FilterOperator]
    FILTER_OPERATOR_NOT_IN: _ClassVar[FilterOperator]
    FILTER_OPERATOR_PREFIX: _ClassVar[FilterOperator]

class ChunkKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHUNK_KIND_UNSPECIFIED: _ClassVar[ChunkKind]
    CHUNK_KIND_PROSE: _ClassVar[ChunkKind]
    CHUNK_KIND_LIST: _ClassVar[ChunkKind]
    CHUNK_KIND_TABLE: _ClassVar[ChunkKind]
    CHUNK_KIND_CODE: _ClassVar[ChunkKind]
    CHUNK_KIND_SUMMARY: _ClassVar[ChunkKind]

class QueryType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUERY_TYPE_UNSPECIFIED: _ClassVar[QueryType]
    QUERY_TYPE_FACTUAL: _ClassVar[QueryType]
    QUERY_TYPE_AGGREGATIVE: _ClassVar[QueryType]
    QUERY_TYPE_COMPARATIVE: _ClassVar[QueryType]
    QUERY_TYPE_PROCEDURAL: _ClassVar[QueryType]
    QUERY_TYPE_RELATIONAL: _ClassVar[QueryType]
    QUERY_TYPE_TEMPORAL: _ClassVar[QueryType]

class TypedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TYPED_BY_UNSPECIFIED: _ClassVar[TypedBy]
    TYPED_BY_WORDING: _ClassVar[TypedBy]
    TYPED_BY_EXAMPLES: _ClassVar[TypedBy]
    TYPED_BY_NOTHING: _ClassVar[TypedBy]

class NoticeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOTICE_KIND_UNSPECIFIED: _ClassVar[NoticeKind]
    NOTICE_KIND_DEGRADED: _ClassVar[NoticeKind]
    NOTICE_KIND_SKIPPED: _ClassVar[NoticeKind]
    NOTICE_KIND_DROPPED: _ClassVar[NoticeKind]
    NOTICE_KIND_FRESHNESS: _ClassVar[NoticeKind]
    NOTICE_KIND_REJECTED: _ClassVar[NoticeKind]
    NOTICE_KIND_UNMET: _ClassVar[NoticeKind]

class ExactKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXACT_KIND_UNSPECIFIED: _ClassVar[ExactKind]
    EXACT_KIND_PHRASE: _ClassVar[ExactKind]
    EXACT_KIND_SECTION: _ClassVar[ExactKind]
    EXACT_KIND_STANDARD: _ClassVar[ExactKind]
    EXACT_KIND_QUANTITY: _ClassVar[ExactKind]
    EXACT_KIND_IDENTIFIER: _ClassVar[ExactKind]
FUSION_UNSPECIFIED: Fusion
FUSION_WEIGHTED: Fusion
FUSION_RRF: Fusion
FUSION_ZSCORE: Fusion
FUSION_TMM: Fusion
FUSION_ARCTAN: Fusion
WIDENING_UNSPECIFIED: Widening
WIDENING_STATEMENT: Widening
WIDENING_SYNONYMS: Widening
WIDENING_COMPOUNDS: Widening
WIDENING_ABBREVIATIONS: Widening
WIDENING_SPELLING: Widening
WIDENING_TERMS: Widening
WIDENING_VECTOR: Widening
WIDENING_PARAPHRASES: Widening
WIDENING_PERSPECTIVES: Widening
WIDENING_PARTS: Widening
WIDENING_PASSAGE: Widening
WIDEN_WHEN_UNSPECIFIED: WidenWhen
WIDEN_WHEN_ALWAYS: WidenWhen
WIDEN_WHEN_WEAK: WidenWhen
METRIC_UNSPECIFIED: Metric
METRIC_COSINE: Metric
METRIC_DOT: Metric
METRIC_EUCLIDEAN: Metric
RERANKER_CHOICE_UNSPECIFIED: RerankerChoice
RERANKER_CHOICE_AUTO: RerankerChoice
RERANKER_CHOICE_REMOTE: RerankerChoice
RERANKER_CHOICE_VERTEX: RerankerChoice
RERANKER_CHOICE_LOCAL: RerankerChoice
RERANKER_CHOICE_LLM: RerankerChoice
RERANKER_CHOICE_COSINE: RerankerChoice
RERANKER_CHOICE_NONE: RerankerChoice
CITATION_STYLE_UNSPECIFIED: CitationStyle
CITATION_STYLE_QUELLE: CitationStyle
CITATION_STYLE_DOCUMENT: CitationStyle
REQUEST_KIND_UNSPECIFIED: RequestKind
REQUEST_KIND_RETRIEVE: RequestKind
REQUEST_KIND_KEYWORD_SEARCH: RequestKind
REQUEST_KIND_SEMANTIC_SEARCH: RequestKind
REQUEST_KIND_CHUNK_READ: RequestKind
OUTCOME_STATUS_UNSPECIFIED: OutcomeStatus
OUTCOME_STATUS_INDEXED: OutcomeStatus
OUTCOME_STATUS_UNCHANGED: OutcomeStatus
OUTCOME_STATUS_DELETED: OutcomeStatus
OUTCOME_STATUS_STALE: OutcomeStatus
OUTCOME_STATUS_REJECTED: OutcomeStatus
RESULT_STATUS_UNSPECIFIED: ResultStatus
RESULT_STATUS_COMPLETE: ResultStatus
RESULT_STATUS_DEGRADED: ResultStatus
RESULT_STATUS_EMPTY: ResultStatus
RESULT_STATUS_REJECTED: ResultStatus
RESULT_STATUS_EXPIRED: ResultStatus
CONFIDENCE_UNSPECIFIED: Confidence
CONFIDENCE_HIGH: Confidence
CONFIDENCE_LOW: Confidence
CONFIDENCE_NONE: Confidence
CONFIDENCE_UNKNOWN: Confidence
FILTER_OPERATOR_UNSPECIFIED: FilterOperator
FILTER_OPERATOR_EQ: FilterOperator
FILTER_OPERATOR_NE: FilterOperator
FILTER_OPERATOR_IN: FilterOperator
FILTER_OPERATOR_NOT_IN: FilterOperator
FILTER_OPERATOR_PREFIX: FilterOperator
CHUNK_KIND_UNSPECIFIED: ChunkKind
CHUNK_KIND_PROSE: ChunkKind
CHUNK_KIND_LIST: ChunkKind
CHUNK_KIND_TABLE: ChunkKind
CHUNK_KIND_CODE: ChunkKind
CHUNK_KIND_SUMMARY: ChunkKind
QUERY_TYPE_UNSPECIFIED: QueryType
QUERY_TYPE_FACTUAL: QueryType
QUERY_TYPE_AGGREGATIVE: QueryType
QUERY_TYPE_COMPARATIVE: QueryType
QUERY_TYPE_PROCEDURAL: QueryType
QUERY_TYPE_RELATIONAL: QueryType
QUERY_TYPE_TEMPORAL: QueryType
TYPED_BY_UNSPECIFIED: TypedBy
TYPED_BY_WORDING: TypedBy
TYPED_BY_EXAMPLES: TypedBy
TYPED_BY_NOTHING: TypedBy
NOTICE_KIND_UNSPECIFIED: NoticeKind
NOTICE_KIND_DEGRADED: NoticeKind
NOTICE_KIND_SKIPPED: NoticeKind
NOTICE_KIND_DROPPED: NoticeKind
NOTICE_KIND_FRESHNESS: NoticeKind
NOTICE_KIND_REJECTED: NoticeKind
NOTICE_KIND_UNMET: NoticeKind
EXACT_KIND_UNSPECIFIED: ExactKind
EXACT_KIND_PHRASE: ExactKind
EXACT_KIND_SECTION: ExactKind
EXACT_KIND_STANDARD: ExactKind
EXACT_KIND_QUANTITY: ExactKind
EXACT_KIND_IDENTIFIER: ExactKind

class IndexDocumentRequest(_message.Message):
    __slots__ = ("document", "wait_ms")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    document: Document
    wait_ms: int
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class DeleteDocumentRequest(_message.Message):
    __slots__ = ("tenant", "document_id", "version", "wait_ms")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    document_id: str
    version: int
    wait_ms: int
    def __init__(self, tenant: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class ChangeResponse(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: IndexOutcome
    def __init__(self, receipt: _Optional[_Union[IndexOutcome, _Mapping]] = ...) -> None: ...

class RetrieveContextRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: ContextQuery
    def __init__(self, query: _Optional[_Union[ContextQuery, _Mapping]] = ...) -> None: ...

class ContextEvent(_message.Message):
    __slots__ = ("step", "hit", "result")
    STEP_FIELD_NUMBER: _ClassVar[int]
    HIT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    step: StageTime
    hit: ContextHit
    result: ContextResult
    def __init__(self, step: _Optional[_Union[StageTime, _Mapping]] = ..., hit: _Optional[_Union[ContextHit, _Mapping]] = ..., result: _Optional[_Union[ContextResult, _Mapping]] = ...) -> None: ...

class WideningList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[Widening]
    def __init__(self, values: _Optional[_Iterable[_Union[Widening, str]]] = ...) -> None: ...

class ContextQuery(_message.Message):
    __slots__ = ("tenant", "text", "principals", "deadline_ms", "top_k", "candidates", "levels", "language", "filters", "fusion", "alpha", "lexical_pivot", "rrf_k", "widen", "widen_when", "metric", "reranker", "rerank_candidates", "rerank_blend", "fold_at", "per_document", "mmr_lambda", "min_score", "parents", "neighbours", "context_tokens", "citations", "exact", "prototypes", "target_model", "min_similarity", "expand_documents", "expand_chunks", "expand_similarity", "at_least", "explain", "expect", "feedback", "cached", "kind", "chunk_ids", "document_ids", "where")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    FUSION_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_PIVOT_FIELD_NUMBER: _ClassVar[int]
    RRF_K_FIELD_NUMBER: _ClassVar[int]
    WIDEN_FIELD_NUMBER: _ClassVar[int]
    WIDEN_WHEN_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    RERANKER_FIELD_NUMBER: _ClassVar[int]
    RERANK_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    RERANK_BLEND_FIELD_NUMBER: _ClassVar[int]
    FOLD_AT_FIELD_NUMBER: _ClassVar[int]
    PER_DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    MMR_LAMBDA_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    PROTOTYPES_FIELD_NUMBER: _ClassVar[int]
    TARGET_MODEL_FIELD_NUMBER: _ClassVar[int]
    MIN_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    EXPAND_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    EXPAND_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    EXPAND_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    EXPECT_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHUNK_IDS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    text: str
    principals: _containers.RepeatedScalarFieldContainer[str]
    deadline_ms: int
    top_k: int
    candidates: int
    levels: _containers.RepeatedScalarFieldContainer[int]
    language: str
    filters: _containers.RepeatedCompositeFieldContainer[Filter]
    fusion: Fusion
    alpha: float
    lexical_pivot: float
    rrf_k: int
    widen: WideningList
    widen_when: WidenWhen
    metric: Metric
    reranker: RerankerChoice
    rerank_candidates: int
    rerank_blend: float
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
    target_model: str
    min_similarity: float
    expand_documents: int
    expand_chunks: int
    expand_similarity: float
    at_least: _containers.RepeatedCompositeFieldContainer[VersionFloor]
    explain: bool
    expect: _containers.RepeatedScalarFieldContainer[str]
    feedback: float
    cached: bool
    kind: RequestKind
    chunk_ids: _containers.RepeatedScalarFieldContainer[str]
    document_ids: _containers.RepeatedScalarFieldContainer[str]
    where: str
    def __init__(self, tenant: _Optional[str] = ..., text: _Optional[str] = ..., principals: _Optional[_Iterable[str]] = ..., deadline_ms: _Optional[int] = ..., top_k: _Optional[int] = ..., candidates: _Optional[int] = ..., levels: _Optional[_Iterable[int]] = ..., language: _Optional[str] = ..., filters: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ..., fusion: _Optional[_Union[Fusion, str]] = ..., alpha: _Optional[float] = ..., lexical_pivot: _Optional[float] = ..., rrf_k: _Optional[int] = ..., widen: _Optional[_Union[WideningList, _Mapping]] = ..., widen_when: _Optional[_Union[WidenWhen, str]] = ..., metric: _Optional[_Union[Metric, str]] = ..., reranker: _Optional[_Union[RerankerChoice, str]] = ..., rerank_candidates: _Optional[int] = ..., rerank_blend: _Optional[float] = ..., fold_at: _Optional[float] = ..., per_document: _Optional[int] = ..., mmr_lambda: _Optional[float] = ..., min_score: _Optional[float] = ..., parents: _Optional[bool] = ..., neighbours: _Optional[int] = ..., context_tokens: _Optional[int] = ..., citations: _Optional[_Union[CitationStyle, str]] = ..., exact: _Optional[bool] = ..., prototypes: _Optional[bool] = ..., target_model: _Optional[str] = ..., min_similarity: _Optional[float] = ..., expand_documents: _Optional[int] = ..., expand_chunks: _Optional[int] = ..., expand_similarity: _Optional[float] = ..., at_least: _Optional[_Iterable[_Union[VersionFloor, _Mapping]]] = ..., explain: _Optional[bool] = ..., expect: _Optional[_Iterable[str]] = ..., feedback: _Optional[float] = ..., cached: _Optional[bool] = ..., kind: _Optional[_Union[RequestKind, str]] = ..., chunk_ids: _Optional[_Iterable[str]] = ..., document_ids: _Optional[_Iterable[str]] = ..., where: _Optional[str] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("tenant", "document_id", "version", "occurred_at", "name", "media_type", "language", "source_uri", "principals", "attributes", "priority", "text", "file")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    document_id: str
    version: int
    occurred_at: int
    name: str
    media_type: str
    language: str
    source_uri: str
    principals: _containers.RepeatedScalarFieldContainer[str]
    attributes: _containers.ScalarMap[str, str]
    priority: int
    text: str
    file: bytes
    def __init__(self, tenant: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., occurred_at: _Optional[int] = ..., name: _Optional[str] = ..., media_type: _Optional[str] = ..., language: _Optional[str] = ..., source_uri: _Optional[str] = ..., principals: _Optional[_Iterable[str]] = ..., attributes: _Optional[_Mapping[str, str]] = ..., priority: _Optional[int] = ..., text: _Optional[str] = ..., file: _Optional[bytes] = ...) -> None: ...

class IndexOutcome(_message.Message):
    __slots__ = ("tenant", "document_id", "version", "status", "reason", "generation", "chunks", "embedded", "removed", "tokens", "occurred_at", "recorded_at", "received_at", "embedded_at", "searchable_at", "llm", "scan")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_AT_FIELD_NUMBER: _ClassVar[int]
    SEARCHABLE_AT_FIELD_NUMBER: _ClassVar[int]
    LLM_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    document_id: str
    version: int
    status: OutcomeStatus
    reason: str
    generation: str
    chunks: int
    embedded: int
    removed: int
    tokens: int
    occurred_at: int
    recorded_at: int
    received_at: int
    embedded_at: int
    searchable_at: int
    llm: LlmUse
    scan: str
    def __init__(self, tenant: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., status: _Optional[_Union[OutcomeStatus, str]] = ..., reason: _Optional[str] = ..., generation: _Optional[str] = ..., chunks: _Optional[int] = ..., embedded: _Optional[int] = ..., removed: _Optional[int] = ..., tokens: _Optional[int] = ..., occurred_at: _Optional[int] = ..., recorded_at: _Optional[int] = ..., received_at: _Optional[int] = ..., embedded_at: _Optional[int] = ..., searchable_at: _Optional[int] = ..., llm: _Optional[_Union[LlmUse, _Mapping]] = ..., scan: _Optional[str] = ...) -> None: ...

class ContextResult(_message.Message):
    __slots__ = ("query_id", "tenant", "status", "hits", "context", "analysis", "variants", "reranker", "stages", "notices", "advice", "freshness", "generation", "asked_at", "answered_at", "trace_id", "explanation", "widened", "expansions", "citations", "cached_ms", "confidence")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ANALYSIS_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    RERANKER_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_AT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    WIDENED_FIELD_NUMBER: _ClassVar[int]
    EXPANSIONS_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    CACHED_MS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    tenant: str
    status: ResultStatus
    hits: _containers.RepeatedCompositeFieldContainer[ContextHit]
    context: str
    analysis: QueryAnalysis
    variants: _containers.RepeatedScalarFieldContainer[str]
    reranker: str
    stages: _containers.RepeatedCompositeFieldContainer[StageTime]
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    advice: _containers.RepeatedScalarFieldContainer[str]
    freshness: Freshness
    generation: str
    asked_at: int
    answered_at: int
    trace_id: str
    explanation: Explanation
    widened: _containers.RepeatedScalarFieldContainer[Widening]
    expansions: _containers.RepeatedCompositeFieldContainer[ContextExpansion]
    citations: _containers.RepeatedCompositeFieldContainer[Citation]
    cached_ms: int
    confidence: Confidence
    def __init__(self, query_id: _Optional[str] = ..., tenant: _Optional[str] = ..., status: _Optional[_Union[ResultStatus, str]] = ..., hits: _Optional[_Iterable[_Union[ContextHit, _Mapping]]] = ..., context: _Optional[str] = ..., analysis: _Optional[_Union[QueryAnalysis, _Mapping]] = ..., variants: _Optional[_Iterable[str]] = ..., reranker: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[StageTime, _Mapping]]] = ..., notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ..., advice: _Optional[_Iterable[str]] = ..., freshness: _Optional[_Union[Freshness, _Mapping]] = ..., generation: _Optional[str] = ..., asked_at: _Optional[int] = ..., answered_at: _Optional[int] = ..., trace_id: _Optional[str] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., widened: _Optional[_Iterable[_Union[Widening, str]]] = ..., expansions: _Optional[_Iterable[_Union[ContextExpansion, _Mapping]]] = ..., citations: _Optional[_Iterable[_Union[Citation, _Mapping]]] = ..., cached_ms: _Optional[int] = ..., confidence: _Optional[_Union[Confidence, str]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("field", "operator", "values")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    field: str
    operator: FilterOperator
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, field: _Optional[str] = ..., operator: _Optional[_Union[FilterOperator, str]] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class VersionFloor(_message.Message):
    __slots__ = ("document_id", "version")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    version: int
    def __init__(self, document_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class LlmUse(_message.Message):
    __slots__ = ("written", "kept", "missing", "reason", "prompt_tokens", "cached_tokens", "completion_tokens")
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    written: int
    kept: int
    missing: int
    reason: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    def __init__(self, written: _Optional[int] = ..., kept: _Optional[int] = ..., missing: _Optional[int] = ..., reason: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ...) -> None: ...

class ContextHit(_message.Message):
    __slots__ = ("rank", "chunk_id", "document_id", "version", "name", "source_uri", "language", "kind", "level", "path", "heading_path", "start", "end", "text", "overlap", "score", "dense_score", "lexical_score", "fused_score", "rerank_score", "citation", "parent", "before", "after", "occurred_at", "searchable_at", "age_ms", "first_page", "last_page", "duplicates", "variant", "judged", "snippets", "generated")
    RANK_FIELD_NUMBER: _ClassVar[int]
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    HEADING_PATH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    DENSE_SCORE_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_SCORE_FIELD_NUMBER: _ClassVar[int]
    FUSED_SCORE_FIELD_NUMBER: _ClassVar[int]
    RERANK_SCORE_FIELD_NUMBER: _ClassVar[int]
    CITATION_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    SEARCHABLE_AT_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_PAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_PAGE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    JUDGED_FIELD_NUMBER: _ClassVar[int]
    SNIPPETS_FIELD_NUMBER: _ClassVar[int]
    GENERATED_FIELD_NUMBER: _ClassVar[int]
    rank: int
    chunk_id: str
    document_id: str
    version: int
    name: str
    source_uri: str
    language: str
    kind: ChunkKind
    level: int
    path: str
    heading_path: _containers.RepeatedScalarFieldContainer[str]
    start: int
    end: int
    text: str
    overlap: str
    score: float
    dense_score: float
    lexical_score: float
    fused_score: float
    rerank_score: float
    citation: str
    parent: ContextPart
    before: _containers.RepeatedCompositeFieldContainer[ContextPart]
    after: _containers.RepeatedCompositeFieldContainer[ContextPart]
    occurred_at: int
    searchable_at: int
    age_ms: int
    first_page: int
    last_page: int
    duplicates: _containers.RepeatedCompositeFieldContainer[Duplicate]
    variant: int
    judged: float
    snippets: _containers.RepeatedCompositeFieldContainer[Snippet]
    generated: bool
    def __init__(self, rank: _Optional[int] = ..., chunk_id: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., name: _Optional[str] = ..., source_uri: _Optional[str] = ..., language: _Optional[str] = ..., kind: _Optional[_Union[ChunkKind, str]] = ..., level: _Optional[int] = ..., path: _Optional[str] = ..., heading_path: _Optional[_Iterable[str]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., text: _Optional[str] = ..., overlap: _Optional[str] = ..., score: _Optional[float] = ..., dense_score: _Optional[float] = ..., lexical_score: _Optional[float] = ..., fused_score: _Optional[float] = ..., rerank_score: _Optional[float] = ..., citation: _Optional[str] = ..., parent: _Optional[_Union[ContextPart, _Mapping]] = ..., before: _Optional[_Iterable[_Union[ContextPart, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[ContextPart, _Mapping]]] = ..., occurred_at: _Optional[int] = ..., searchable_at: _Optional[int] = ..., age_ms: _Optional[int] = ..., first_page: _Optional[int] = ..., last_page: _Optional[int] = ..., duplicates: _Optional[_Iterable[_Union[Duplicate, _Mapping]]] = ..., variant: _Optional[int] = ..., judged: _Optional[float] = ..., snippets: _Optional[_Iterable[_Union[Snippet, _Mapping]]] = ..., generated: _Optional[bool] = ...) -> None: ...

class QueryAnalysis(_message.Message):
    __slots__ = ("language", "query_type", "keyword", "levels", "alpha", "lexical", "typed_by", "exact")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    KEYWORD_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_FIELD_NUMBER: _ClassVar[int]
    TYPED_BY_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    language: str
    query_type: QueryType
    keyword: bool
    levels: _containers.RepeatedScalarFieldContainer[int]
    alpha: float
    lexical: str
    typed_by: TypedBy
    exact: _containers.RepeatedCompositeFieldContainer[ExactTerm]
    def __init__(self, language: _Optional[str] = ..., query_type: _Optional[_Union[QueryType, str]] = ..., keyword: _Optional[bool] = ..., levels: _Optional[_Iterable[int]] = ..., alpha: _Optional[float] = ..., lexical: _Optional[str] = ..., typed_by: _Optional[_Union[TypedBy, str]] = ..., exact: _Optional[_Iterable[_Union[ExactTerm, _Mapping]]] = ...) -> None: ...

class StageTime(_message.Message):
    __slots__ = ("stage", "milliseconds", "items")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    milliseconds: float
    items: int
    def __init__(self, stage: _Optional[str] = ..., milliseconds: _Optional[float] = ..., items: _Optional[int] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("stage", "kind", "message")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    kind: NoticeKind
    message: str
    def __init__(self, stage: _Optional[str] = ..., kind: _Optional[_Union[NoticeKind, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Freshness(_message.Message):
    __slots__ = ("indexed_through", "last_commit_at", "consistency")
    INDEXED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMIT_AT_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    indexed_through: int
    last_commit_at: int
    consistency: str
    def __init__(self, indexed_through: _Optional[int] = ..., last_commit_at: _Optional[int] = ..., consistency: _Optional[str] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("hits", "expected")
    HITS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[ChunkStory]
    expected: _containers.RepeatedCompositeFieldContainer[ExpectedDocument]
    def __init__(self, hits: _Optional[_Iterable[_Union[ChunkStory, _Mapping]]] = ..., expected: _Optional[_Iterable[_Union[ExpectedDocument, _Mapping]]] = ...) -> None: ...

class ContextExpansion(_message.Message):
    __slots__ = ("number", "chunk_id", "document_id", "version", "name", "source_uri", "path", "heading_path", "start", "end", "text", "overlap", "similarity", "citation", "first_page", "last_page")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    HEADING_PATH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    CITATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_PAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_PAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    chunk_id: str
    document_id: str
    version: int
    name: str
    source_uri: str
    path: str
    heading_path: _containers.RepeatedScalarFieldContainer[str]
    start: int
    end: int
    text: str
    overlap: str
    similarity: float
    citation: str
    first_page: int
    last_page: int
    def __init__(self, number: _Optional[int] = ..., chunk_id: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., name: _Optional[str] = ..., source_uri: _Optional[str] = ..., path: _Optional[str] = ..., heading_path: _Optional[_Iterable[str]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., text: _Optional[str] = ..., overlap: _Optional[str] = ..., similarity: _Optional[float] = ..., citation: _Optional[str] = ..., first_page: _Optional[int] = ..., last_page: _Optional[int] = ...) -> None: ...

class Citation(_message.Message):
    __slots__ = ("citation", "number", "chunk_id", "document_id", "version", "name", "source_uri", "heading_path", "start", "end", "first_page", "last_page", "expansion")
    CITATION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    HEADING_PATH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FIRST_PAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_PAGE_FIELD_NUMBER: _ClassVar[int]
    EXPANSION_FIELD_NUMBER: _ClassVar[int]
    citation: str
    number: int
    chunk_id: str
    document_id: str
    version: int
    name: str
    source_uri: str
    heading_path: _containers.RepeatedScalarFieldContainer[str]
    start: int
    end: int
    first_page: int
    last_page: int
    expansion: bool
    def __init__(self, citation: _Optional[str] = ..., number: _Optional[int] = ..., chunk_id: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., name: _Optional[str] = ..., source_uri: _Optional[str] = ..., heading_path: _Optional[_Iterable[str]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., first_page: _Optional[int] = ..., last_page: _Optional[int] = ..., expansion: _Optional[bool] = ...) -> None: ...

class ContextPart(_message.Message):
    __slots__ = ("chunk_id", "path", "start", "end", "text")
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    chunk_id: str
    path: str
    start: int
    end: int
    text: str
    def __init__(self, chunk_id: _Optional[str] = ..., path: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Duplicate(_message.Message):
    __slots__ = ("document_id", "version", "chunk_id")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    version: int
    chunk_id: str
    def __init__(self, document_id: _Optional[str] = ..., version: _Optional[int] = ..., chunk_id: _Optional[str] = ...) -> None: ...

class Snippet(_message.Message):
    __slots__ = ("start", "end", "text")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    text: str
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ExactTerm(_message.Message):
    __slots__ = ("kind", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: ExactKind
    text: str
    def __init__(self, kind: _Optional[_Union[ExactKind, str]] = ..., text: _Optional[str] = ...) -> None: ...

class ChunkStory(_message.Message):
    __slots__ = ("chunk_id", "document_id", "retrieved", "ranks", "rerank_score")
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIEVED_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    RERANK_SCORE_FIELD_NUMBER: _ClassVar[int]
    chunk_id: str
    document_id: str
    retrieved: _containers.RepeatedCompositeFieldContainer[Retrieved]
    ranks: _containers.RepeatedCompositeFieldContainer[StepRank]
    rerank_score: float
    def __init__(self, chunk_id: _Optional[str] = ..., document_id: _Optional[str] = ..., retrieved: _Optional[_Iterable[_Union[Retrieved, _Mapping]]] = ..., ranks: _Optional[_Iterable[_Union[StepRank, _Mapping]]] = ..., rerank_score: _Optional[float] = ...) -> None: ...

class ExpectedDocument(_message.Message):
    __slots__ = ("document_id", "lost_at", "reason", "best")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    lost_at: str
    reason: str
    best: ChunkStory
    def __init__(self, document_id: _Optional[str] = ..., lost_at: _Optional[str] = ..., reason: _Optional[str] = ..., best: _Optional[_Union[ChunkStory, _Mapping]] = ...) -> None: ...

class Retrieved(_message.Message):
    __slots__ = ("search", "variant", "rank", "score")
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    search: str
    variant: int
    rank: int
    score: float
    def __init__(self, search: _Optional[str] = ..., variant: _Optional[int] = ..., rank: _Optional[int] = ..., score: _Optional[float] = ...) -> None: ...

class StepRank(_message.Message):
    __slots__ = ("step", "rank", "of")
    STEP_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    step: str
    rank: int
    of: int
    def __init__(self, step: _Optional[str] = ..., rank: _Optional[int] = ..., of: _Optional[int] = ...) -> None: ...
