"""`freki ask`: one question over the topics, its answer in the terminal."""

import asyncio
import json
import uuid
from dataclasses import asdict
from typing import Annotated

import typer

from freki.cli.context import command, console, fail, load_settings
from freki.cli.show import show_result, show_trace
from freki.cli.show_explanation import show_explanation
from freki.infra.settings import Settings
from freki.infra.telemetry.trace_files import SpanRecord, read_trace
from freki.schemas import (
    ChunkId,
    CitationStyle,
    ContextQuery,
    DocumentId,
    Filter,
    FilterOperator,
    Fusion,
    Metric,
    QueryId,
    RequestKind,
    RerankerChoice,
    ResultStatus,
    TenantId,
    VersionFloor,
)
from freki.streams.connect import open_asker, wall_clock

# An answer that is due may still be on its way.
SLACK_S = 10.0
EXIT_EMPTY = 3
# Spans are written some tenths of a second after they end.
TRACE_LOOKS = 20
TRACE_PAUSE_S = 0.1


@command
async def ask(  # noqa: PLR0913 - one for each option of a query
    question: Annotated[str, typer.Argument(help="What to ask; not needed to read chunks")] = "",
    *,
    kind: Annotated[
        RequestKind | None,
        typer.Option(
            help="What is asked for; default: retrieve, or chunk_read with the two below", case_sensitive=False
        ),
    ] = None,
    chunks: Annotated[list[str] | None, typer.Option("--chunk", help="A chunk to read, by id; may be repeated")] = None,
    documents: Annotated[
        list[str] | None, typer.Option("--document", help="A document to read from its beginning; may be repeated")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose documents; default: FREKI_TENANT")] = None,
    principal: Annotated[
        list[str] | None, typer.Option("--as", help="A user or group that asks; may be repeated")
    ] = None,
    top_k: Annotated[int | None, typer.Option("--top", "-n", help="How many hits")] = None,
    deadline: Annotated[int | None, typer.Option(help="Milliseconds until the answer must leave")] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="field=value, field!=value, field^=prefix; may be repeated")
    ] = None,
    levels: Annotated[list[int] | None, typer.Option("--level", help="0 document, 1 section, 2 paragraph")] = None,
    language: Annotated[str | None, typer.Option(help="ISO 639-1")] = None,
    candidates: Annotated[int | None, typer.Option(help="How deep each retriever looks")] = None,
    fusion: Annotated[Fusion | None, typer.Option(help="How rankings become one", case_sensitive=False)] = None,
    alpha: Annotated[float | None, typer.Option(help="Weight of dense search, 0..1")] = None,
    lexical_pivot: Annotated[
        float | None, typer.Option(help="BM25 score of the best match at which both searches weigh the same")
    ] = None,
    rrf_k: Annotated[int | None, typer.Option(help="k of reciprocal rank fusion")] = None,
    metric: Annotated[Metric | None, typer.Option(help="How dense scores are shown", case_sensitive=False)] = None,
    reranker: Annotated[RerankerChoice | None, typer.Option(help="Which one to use", case_sensitive=False)] = None,
    rerank_candidates: Annotated[int | None, typer.Option(help="How many candidates are rescored")] = None,
    rerank_blend: Annotated[float | None, typer.Option(help="Weight of hybrid search beside the reranker")] = None,
    fold_at: Annotated[float | None, typer.Option(help="Likeness of hits that count as one, 0..1")] = None,
    per_document: Annotated[int | None, typer.Option(help="Most hits of one document; 0: any")] = None,
    mmr_lambda: Annotated[float | None, typer.Option(help="1 is relevance only, 0 diversity only")] = None,
    min_score: Annotated[float | None, typer.Option(help="Least score of a hit")] = None,
    parents: Annotated[bool | None, typer.Option("--parents/--no-parents", help="Sections around the hits")] = None,
    neighbours: Annotated[int | None, typer.Option(help="Chunks before and after each hit")] = None,
    context_tokens: Annotated[int | None, typer.Option(help="Most tokens of the context text")] = None,
    citations: Annotated[CitationStyle | None, typer.Option(help="Form of citations", case_sensitive=False)] = None,
    exact: Annotated[bool | None, typer.Option("--exact/--no-exact", help="Only hits with what is quoted")] = None,
    prototypes: Annotated[
        bool | None, typer.Option("--prototypes/--no-prototypes", help="Type questions by examples where no rule fits")
    ] = None,
    target_model: Annotated[
        str | None, typer.Option("--for", help="Model that will read the context, such as phi3 or llama3.1:70b")
    ] = None,
    min_similarity: Annotated[
        float | None, typer.Option(help="Least similarity of a hit: 0 as any two texts, 1 as answer and question")
    ] = None,
    expand_documents: Annotated[
        int | None, typer.Option("--expand", help="Of how many documents to show further chunks; 0: of none")
    ] = None,
    expand_chunks: Annotated[int | None, typer.Option(help="Most further chunks of each")] = None,
    expand_similarity: Annotated[float | None, typer.Option(help="Least similarity of a further chunk")] = None,
    at_least: Annotated[list[str] | None, typer.Option(help="document=version to wait for; may be repeated")] = None,
    feedback: Annotated[float | None, typer.Option(help="Most that judgements of users move a score, 0..1")] = None,
    cached: Annotated[bool | None, typer.Option("--cached/--no-cached", help="May it be an answer of before?")] = None,
    reply_to: Annotated[str | None, typer.Option(help="Topic for the answer; must be allowed")] = None,
    context: Annotated[bool, typer.Option("--context", help="Print the context text for a prompt instead")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON instead")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Tell why each hit stands where it stands")] = False,
    expect: Annotated[
        list[str] | None, typer.Option(help="Document that should be found: tell which step lost it; may be repeated")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print the trace of this question too")] = False,
) -> None:
    """Ask a question and show what Freki finds."""
    settings = load_settings()
    kind = kind or (RequestKind.CHUNK_READ if chunks or documents else RequestKind.RETRIEVE)
    query = ContextQuery(
        query_id=QueryId(str(uuid.uuid4())),
        tenant=TenantId(tenant or settings.tenant),
        text=question,
        asked_at=wall_clock(),
        principals=tuple(principal or ()),
        deadline_ms=deadline,
        reply_to=reply_to,
        top_k=top_k,
        candidates=candidates,
        levels=tuple(levels) if levels else None,
        language=language,
        filters=tuple(_filter(text) for text in filters or ()),
        fusion=fusion,
        alpha=alpha,
        lexical_pivot=lexical_pivot,
        rrf_k=rrf_k,
        metric=metric,
        reranker=reranker,
        rerank_candidates=rerank_candidates,
        rerank_blend=rerank_blend,
        fold_at=fold_at,
        per_document=per_document,
        mmr_lambda=mmr_lambda,
        min_score=min_score,
        parents=parents,
        neighbours=neighbours,
        context_tokens=context_tokens,
        citations=citations,
        exact=exact,
        prototypes=prototypes,
        target_model=target_model,
        min_similarity=min_similarity,
        expand_documents=expand_documents,
        expand_chunks=expand_chunks,
        expand_similarity=expand_similarity,
        feedback=feedback,
        cached=cached,
        at_least=tuple(_floor(text) for text in at_least or ()),
        explain=explain,
        expect=tuple(map(DocumentId, expect or ())),
        kind=kind,
        chunk_ids=tuple(map(ChunkId, chunks or ())),
        document_ids=tuple(map(DocumentId, documents or ())),
    )
    patience_s = (deadline or settings.retrieval.deadline_ms) / 1000 + SLACK_S
    async with open_asker(_traced(settings) if trace else settings, answers_on=reply_to) as asker:
        try:
            result = await asker.ask(query, patience_s=patience_s)
        except TimeoutError:
            fail(f"no answer within {patience_s:.0f} s: does a worker run the retrieve stage? See `freki status`")
    if as_json:
        console.print_json(json.dumps(asdict(result)))
    elif context:
        console.print(result.context, markup=False, highlight=False)
    else:
        show_result(console, result, question=question, whole=kind is RequestKind.CHUNK_READ)
        show_explanation(console, result)
    if trace:
        show_trace(console, result.trace_id, await _spans(settings, result.trace_id))
    if result.status in {ResultStatus.REJECTED, ResultStatus.EXPIRED}:
        raise typer.Exit(1)
    if not result.hits:
        raise typer.Exit(EXIT_EMPTY)


def _traced(settings: Settings) -> Settings:
    """Keep the trace of what is asked for, whatever the share of others is: workers do as the asker does."""
    telemetry = settings.telemetry.model_copy(update={"trace_share": 1.0})
    return settings.model_copy(update={"telemetry": telemetry})


async def _spans(settings: Settings, trace_id: str) -> list[SpanRecord]:
    """Read the trace, once the worker has written that it sent the answer."""
    if settings.telemetry.trace_dir is None:
        fail("traces are not kept in files here: set FREKI_TELEMETRY__TRACE_DIR, or look in your trace backend")
    spans: list[SpanRecord] = []
    for _ in range(TRACE_LOOKS):
        spans = read_trace(settings.telemetry.trace_dir, trace_id)
        if any(span.kind == "CONSUMER" for span in spans):
            break
        await asyncio.sleep(TRACE_PAUSE_S)
    return spans


_OPERATORS = {"!=": FilterOperator.NE, "^=": FilterOperator.PREFIX, "=": FilterOperator.EQ}


def _filter(text: str) -> Filter:
    for sign, operator in _OPERATORS.items():
        field, found, value = text.partition(sign)
        if found and field and not field.endswith(("!", "^")):
            return Filter(field=field, operator=operator, values=(value,))
    return fail(f"--filter {text!r}: write field=value, field!=value or field^=prefix")


def _floor(text: str) -> VersionFloor:
    document, found, version = text.rpartition("=")
    if not found or not version.isdecimal():
        fail(f"--at-least {text!r}: write document=version")
    return VersionFloor(document_id=DocumentId(document), version=int(version))
