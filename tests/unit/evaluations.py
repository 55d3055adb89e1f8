"""Answers as an evaluation gets them."""

from collections.abc import Sequence

from freki.schemas import (
    ChunkId,
    ChunkKind,
    ContextHit,
    ContextQuery,
    ContextResult,
    DocumentId,
    Freshness,
    Notice,
    QueryAnalysis,
    QueryType,
    ResultStatus,
    Timestamp,
)


def hit(rank: int, document: str, score: float) -> ContextHit:
    """Make a hit that a reranker scored."""
    return ContextHit(
        rank=rank,
        chunk_id=ChunkId(f"{rank:032x}"),
        document_id=DocumentId(document),
        version=1,
        name=f"{document}.md",
        source_uri=None,
        language="de",
        kind=ChunkKind.PROSE,
        level=1,
        path="0",
        heading_path=(),
        start=0,
        end=4,
        text="text",
        overlap="",
        score=score,
        dense_score=score,
        lexical_score=None,
        fused_score=score,
        rerank_score=score,
        citation=f"[QUELLE-{rank}: {document}]",
        parent=None,
        before=(),
        after=(),
        occurred_at=Timestamp(0),
        searchable_at=Timestamp(0),
        age_ms=0,
    )


def result(
    query: ContextQuery,
    hits: Sequence[ContextHit],
    *,
    context: str = "",
    reranker: str = "none",
    notices: Sequence[Notice] = (),
) -> ContextResult:
    """Make the answer to a query."""
    return ContextResult(
        query_id=query.query_id,
        tenant=query.tenant,
        status=ResultStatus.COMPLETE if hits else ResultStatus.EMPTY,
        hits=tuple(hits),
        context=context,
        analysis=QueryAnalysis(
            language="de", query_type=QueryType.FACTUAL, keyword=False, levels=(1, 2), alpha=0.6, lexical=""
        ),
        variants=(query.text,),
        reranker=reranker,
        stages=(),
        notices=tuple(notices),
        advice=(),
        freshness=Freshness(indexed_through=None, last_commit_at=None, consistency="STRONG"),
        generation="g1",
        asked_at=query.asked_at,
        answered_at=query.asked_at,
        trace_id="",
    )
