"""Keywords of the client's calls: fields of DocumentChange and ContextQuery, which explain them."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from freki.schemas import (
    CitationStyle,
    ClaimCheck,
    Filter,
    Fusion,
    Metric,
    RequestKind,
    RerankerChoice,
    Timestamp,
    VersionFloor,
    Widening,
    WidenWhen,
)


class DocumentFields(TypedDict, total=False):
    """Fields of DocumentChange besides tenant, id, operation and content."""

    version: int
    occurred_at: Timestamp
    name: str | None
    media_type: str | None
    language: str | None
    source_uri: str | None
    principals: Sequence[str]
    attributes: Mapping[str, str]
    priority: int
    claim: ClaimCheck | None


class QueryFields(TypedDict, total=False):
    """Fields of ContextQuery besides id, tenant, text and time."""

    principals: Sequence[str]
    deadline_ms: int | None
    reply_to: str | None
    top_k: int | None
    candidates: int | None
    levels: Sequence[int] | None
    language: str | None
    filters: Sequence[Filter]
    where: str | None
    fusion: Fusion | None
    alpha: float | None
    lexical_pivot: float | None
    rrf_k: int | None
    widen: Sequence[Widening] | None
    widen_when: WidenWhen | None
    metric: Metric | None
    reranker: RerankerChoice | None
    rerank_candidates: int | None
    rerank_blend: float | None
    fold_at: float | None
    per_document: int | None
    mmr_lambda: float | None
    min_score: float | None
    parents: bool | None
    neighbours: int | None
    context_tokens: int | None
    citations: CitationStyle | None
    exact: bool | None
    prototypes: bool | None
    target_model: str | None
    min_similarity: float | None
    expand_documents: int | None
    expand_chunks: int | None
    expand_similarity: float | None
    at_least: Sequence[VersionFloor]
    explain: bool
    expect: Sequence[str]
    feedback: float | None
    cached: bool | None
    kind: RequestKind
    chunk_ids: Sequence[str]
    document_ids: Sequence[str]
