"""What a trace tells of a query: what was searched for and found, and each step with the documents that it saw.

Text of the question and of documents is told only where `content` says so, and cut to what a person reads.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer, get_current_span, set_span_in_context

from freki.schemas import ChunkId, ContextQuery, ContextResult, Notice, NoticeKind, RootId
from freki.schemas.index import Candidate
from freki.schemas.names import record
from freki.streams.observe import attributes as names
from freki.streams.observe.tracing import Attributes, describe
from freki.streams.retrieve.query_state import QueryState, ScoredChunk, StageRun

SHOWN_DOCUMENTS = 20
"""Of each list, the first ones."""
SHOWN_CHARACTERS = 1_000
"""Of a chunk."""
TEXT_CHARACTERS = 20_000
"""Of the question and of the context."""
DIGITS = 4
"""Of scores that stand beside another."""
_OURS = frozenset({NoticeKind.DROPPED, NoticeKind.SKIPPED, NoticeKind.FRESHNESS})
"""Notices that hold numbers and ids only; others may quote the query, or what a store said of it."""


@record
class Models:
    """Which models answer, as traces name them."""

    embedder: str
    reranker: str
    """The local one; others are named as results name them."""


class _Document(NamedTuple):
    """A chunk in a list of a span."""

    chunk_id: ChunkId
    root_id: RootId
    score: float
    metadata: Mapping[str, float] = {}


class QueryTrace:
    """Reports queries that are answered, as spans."""

    def __init__(self, tracer: Tracer, *, models: Models, content: bool) -> None:
        self._tracer = tracer
        self._models = models
        self._content = content

    def report(self, trace: Context, state: QueryState, result: ContextResult) -> None:
        """Tell of a query below the span in `trace`; nothing is made where that span is not sampled."""
        start_ns = min(run.started_ns for run in state.stages)
        search = self._tracer.start_span("retrieve", context=trace, start_time=start_ns)
        if not search.is_recording():
            return
        # The span of a question that was answered beside its batch has ended.
        said = {**asked(state.query, content=self._content), **answered(result, content=self._content)}
        describe(get_current_span(trace), lambda: said)
        search.set_attributes({**said, **_search(state, result)})
        search.set_attributes(self._documents(state, names.RETRIEVAL_DOCUMENTS, map(_hit, state.found)))
        last = {run.stage: run for run in state.stages}
        ended_ns = {run.stage: run.ended_ns for run in state.stages}
        _notify(search, state.notices, ended_ns, content=self._content)
        below = set_span_in_context(search, Context())
        for run in state.stages:
            # A step that was done again left the documents of its last time.
            described = self._step(state, run) if last[run.stage] is run else _plain(run)
            span = self._tracer.start_span(
                run.stage, context=below, start_time=run.started_ns, attributes=dict(described)
            )
            span.end(end_time=run.ended_ns)
        search.end(end_time=max(run.ended_ns for run in state.stages))

    def refuse(self, trace: Context, refusal: ContextResult) -> None:
        """Tell on the span in `trace` that its query breaks a rule."""
        span = get_current_span(trace)
        describe(span, lambda: answered(refusal, content=self._content))
        _notify(span, refusal.notices, {}, content=self._content)

    def _step(self, state: QueryState, run: StageRun) -> Attributes:
        match run.stage:
            case "embed":
                return {**_plain(run), **self._embedding(state)}
            case "search.dense":
                return {**_plain(run), **self._ranking(state, state.dense, state.variants[0])}
            case "search.lexical":
                return {**_plain(run), **self._ranking(state, state.lexical, state.analysis.lexical)}
            case "rerank":
                return {**_plain(run), **self._reranking(state)}
            case _:
                return _plain(run)

    def _embedding(self, state: QueryState) -> Attributes:
        texts = {
            f"{names.EMBEDDING_EMBEDDINGS}.{place}.{names.EMBEDDING_TEXT}": variant[:TEXT_CHARACTERS]
            for place, variant in enumerate(state.variants)
        }
        return {
            names.OPENINFERENCE_SPAN_KIND: names.EMBEDDING,
            names.EMBEDDING_MODEL_NAME: self._models.embedder,
            names.GEN_AI_OPERATION_NAME: "embeddings",
            names.GEN_AI_REQUEST_MODEL: self._models.embedder,
            names.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: state.vectors.shape[1],
            **(texts if self._content else {}),
        }

    def _ranking(self, state: QueryState, rankings: list[list[Candidate]], searched: str) -> Attributes:
        """Tell of the ranking of the question itself; further variants are counted only."""
        hits = {found.chunk_id: {"hit": rank} for rank, found in enumerate(state.found, start=1)}
        documents = (
            _Document(hit.chunk_id, hit.root_id, hit.score, hits.get(hit.chunk_id, {}))
            for hit in (rankings[0] if rankings else ())
        )
        return {
            names.OPENINFERENCE_SPAN_KIND: names.RETRIEVER,
            names.FREKI_FOUND: sum(map(len, rankings)),
            **({names.INPUT_VALUE: searched[:TEXT_CHARACTERS]} if self._content else {}),
            **self._documents(state, names.RETRIEVAL_DOCUMENTS, documents),
        }

    def _reranking(self, state: QueryState) -> Attributes:
        model = self._models.reranker if state.reranker == "local" else state.reranker
        given = [_Document(found.chunk_id, found.root.root_id, found.fused) for found in state.head]
        ordered = sorted(
            (
                _Document(found.chunk_id, found.root.root_id, found.reranked, {"before": place})
                for place, found in enumerate(state.head, start=1)
                if found.reranked is not None
            ),
            key=lambda document: -document.score,
        )
        return {
            names.OPENINFERENCE_SPAN_KIND: names.RERANKER,
            names.RERANKER_MODEL_NAME: model,
            names.RERANKER_TOP_K: state.options.top_k,
            names.GEN_AI_OPERATION_NAME: "rerank",
            names.GEN_AI_REQUEST_MODEL: model,
            names.FREKI_NOT_RERANKED: len(given) - len(ordered),
            **({names.RERANKER_QUERY: state.variants[0][:TEXT_CHARACTERS]} if self._content else {}),
            **self._documents(state, names.RERANKER_INPUT_DOCUMENTS, given),
            **self._documents(state, names.RERANKER_OUTPUT_DOCUMENTS, ordered),
        }

    def _documents(self, state: QueryState, name: str, documents: Iterable[_Document]) -> Attributes:
        """List the first documents as OpenInference does: one attribute for each field of each."""
        listed: dict[str, str | float] = {}
        for place, document in zip(range(SHOWN_DOCUMENTS), documents, strict=False):
            for field, value in self._fields(state, document):
                listed[f"{name}.{place}.{field}"] = value
        return listed

    def _fields(self, state: QueryState, document: _Document) -> Iterator[tuple[str, str | float]]:
        # A candidate that nothing asked the store about is known by its ids in the store.
        root = state.roots.get(document.root_id)
        yield names.DOCUMENT_ID, f"{document.root_id if root is None else root.document_id}#{document.chunk_id}"
        yield names.DOCUMENT_SCORE, document.score
        if document.metadata:
            yield names.DOCUMENT_METADATA, json.dumps(document.metadata)
        if self._content and document.chunk_id in state.loaded:
            yield names.DOCUMENT_CONTENT, state.loaded[document.chunk_id][0].text[:SHOWN_CHARACTERS]


def asked(query: ContextQuery, *, content: bool) -> Attributes:
    """Tell of a question."""
    return {
        names.OPENINFERENCE_SPAN_KIND: names.CHAIN,
        names.FREKI_TENANT: query.tenant,
        names.FREKI_QUERY_ID: query.query_id,
        names.FREKI_QUERY_KIND: query.kind,
        **({names.INPUT_VALUE: query.text[:TEXT_CHARACTERS]} if content else {}),
    }


def answered(result: ContextResult, *, content: bool) -> Attributes:
    """Tell of an answer."""
    return {
        names.FREKI_STATUS: result.status,
        names.FREKI_HITS: len(result.hits),
        **({names.OUTPUT_VALUE: result.context[:TEXT_CHARACTERS]} if content else {}),
    }


def _plain(run: StageRun) -> Attributes:
    return {names.OPENINFERENCE_SPAN_KIND: names.CHAIN, names.FREKI_ITEMS: run.items}


def _search(state: QueryState, result: ContextResult) -> Attributes:
    analysis = state.analysis
    return {
        names.OPENINFERENCE_SPAN_KIND: names.RETRIEVER,
        names.GEN_AI_OPERATION_NAME: "retrieval",
        names.GEN_AI_DATA_SOURCE_ID: result.generation,
        names.GEN_AI_REQUEST_TOP_K: state.options.top_k,
        names.FREKI_QUERY_FILTERS: len(state.query.filters),
        names.FREKI_ANALYSIS_LANGUAGE: analysis.language,
        names.FREKI_ANALYSIS_QUERY_TYPE: analysis.query_type,
        names.FREKI_ANALYSIS_KEYWORD: analysis.keyword,
        names.FREKI_ANALYSIS_LEVELS: analysis.levels,
        **({} if analysis.alpha is None else {names.FREKI_ANALYSIS_ALPHA: analysis.alpha}),
        names.FREKI_RERANKER: state.reranker,
        **{
            f"{names.FREKI_KNOB}{option.name}": value
            for option in fields(state.options)
            if (value := getattr(state.options, option.name)) is not None
        },
    }


def _hit(found: ScoredChunk) -> _Document:
    said = {"dense": found.dense, "lexical": found.lexical, "fused": found.fused, "reranked": found.reranked}
    scores = {name: round(score, DIGITS) for name, score in said.items() if score is not None}
    return _Document(found.chunk_id, found.root.root_id, found.score, {"version": found.root.version, **scores})


def _notify(span: Span, notices: Iterable[Notice], ended_ns: Mapping[str, int], *, content: bool) -> None:
    """Tell of notices at the end of their steps, or now."""
    for notice in notices:
        told = {names.FREKI_NOTICE_MESSAGE: notice.message} if content or notice.kind in _OURS else {}
        span.add_event(
            names.FREKI_NOTICE,
            {names.FREKI_NOTICE_STEP: notice.stage, names.FREKI_NOTICE_KIND: notice.kind, **told},
            timestamp=ended_ns.get(notice.stage, max(ended_ns.values(), default=None)),
        )
