"""Report a query as spans: its searches, its hits, and each step with its documents.

Spans hold texts of queries and documents only if `content` is set, cut to what a person reads.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer, get_current_span, set_span_in_context

from freki.schemas import ChunkId, ContextHit, ContextQuery, ContextResult, Notice, NoticeKind, RootId
from freki.schemas.index import Candidate
from freki.schemas.names import record
from freki.streams.observe import attributes as names
from freki.streams.observe.tracing import Attributes, describe, step

if TYPE_CHECKING:
    # What sends a query loads no retrieval for it.
    from freki.streams.retrieve.candidates import Retrieval
    from freki.streams.retrieve.query_log import StepRun
    from freki.streams.retrieve.search_result import SearchResult

SHOWN_DOCUMENTS = 20
"""Maximum documents per list."""
SHOWN_CHARACTERS = 1_000
"""Maximum characters per chunk."""
TEXT_CHARACTERS = 20_000
"""Maximum characters of a query and of a context."""
DIGITS = 4
"""Decimal places of secondary scores."""
_WITHOUT_CONTENT = frozenset({NoticeKind.DROPPED, NoticeKind.SKIPPED, NoticeKind.FRESHNESS})
"""Notices that hold numbers and ids only; others may quote the query, or a message of the store about it."""


@record
class Models:
    """Names of the models in traces."""

    embedder: str
    reranker: str
    """Name of the local reranker; others are named as in results."""


class _Document(NamedTuple):
    """A chunk in a list of a span."""

    chunk_id: ChunkId
    document: str
    """Its document's id, or that of its root if it was not looked up in the store."""
    score: float
    metadata: Mapping[str, float] = {}
    text: str | None = None


class QueryTrace:
    """Reports answered queries as spans."""

    def __init__(self, tracer: Tracer, *, models: Models, content: bool) -> None:
        self._tracer = tracer
        self._models = models
        self._content = content

    def report(self, trace: Context, retrieval: "Retrieval", result: ContextResult) -> None:
        """Report a query below the span in `trace`, unless that span is not sampled."""
        query, runs = retrieval.query, retrieval.query.log.runs
        # Steps are timed by a monotonic clock, spans have the time of day.
        epoch_ns = time.time_ns() - query.log.clock_ns()
        start_ns = min(run.started_ns for run in runs)
        search = self._tracer.start_span("retrieve", context=trace, start_time=epoch_ns + start_ns)
        if not search.is_recording():
            return
        # If the query was answered beside its batch, its span has ended.
        said = {**asked(query.query, content=self._content), **answered(result, content=self._content)}
        describe(get_current_span(trace), lambda: said)
        # Of a cached answer only the result tells how it was found.
        search.set_attributes({**said, **_search(retrieval, result)})
        search.set_attributes(self._documents(names.RETRIEVAL_DOCUMENTS, map(_hit, result.hits)))
        last = {run.step: run for run in runs}
        ended_ns = {run.step: epoch_ns + run.ended_ns for run in runs}
        notices = query.log.notices if result.cached_ms is None else result.notices
        _notify(search, notices, ended_ns, content=self._content)
        below = set_span_in_context(search, Context())
        for run in runs:
            # Of a step that ran again, the documents of the last run are known.
            described = self._step(retrieval, run) if last[run.step] is run else _plain(run)
            span = self._tracer.start_span(
                run.step, context=below, start_time=epoch_ns + run.started_ns, attributes=dict(described)
            )
            span.end(end_time=epoch_ns + run.ended_ns)
        search.end(end_time=epoch_ns + max(run.ended_ns for run in runs))

    def refuse(self, trace: Context, query: ContextQuery, refusal: ContextResult) -> None:
        """Report on the span in `trace` that its query was refused, or below it if that span has ended.

        It has for a query that waited beside its batch.
        """
        said = {**asked(query, content=self._content), **answered(refusal, content=self._content)}
        span = get_current_span(trace)
        if span.is_recording():
            describe(span, lambda: said)
            _notify(span, refusal.notices, {}, content=self._content)
            return
        with step(self._tracer, "refuse", lambda: said, trace=trace) as below:
            _notify(below, refusal.notices, {}, content=self._content)

    def _step(self, retrieval: "Retrieval", run: "StepRun") -> Attributes:
        search, query = retrieval.hits.search, retrieval.query
        match run.step:
            case "embed":
                return {**_plain(run), **self._embedding(retrieval)}
            case "search.dense":
                return {**_plain(run), **self._ranking(retrieval, search.dense, query.text)}
            case "search.lexical":
                return {**_plain(run), **self._ranking(retrieval, search.lexical, query.analysis.lexical)}
            case "rerank":
                return {**_plain(run), **self._reranking(retrieval)}
            case _:
                return _plain(run)

    def _embedding(self, retrieval: "Retrieval") -> Attributes:
        vector = retrieval.query.vector
        texts = {
            f"{names.EMBEDDING_EMBEDDINGS}.{place}.{names.EMBEDDING_TEXT}": variant[:TEXT_CHARACTERS]
            for place, variant in enumerate(retrieval.hits.search.texts)
        }
        return {
            names.OPENINFERENCE_SPAN_KIND: names.EMBEDDING,
            names.EMBEDDING_MODEL_NAME: self._models.embedder,
            names.GEN_AI_OPERATION_NAME: "embeddings",
            names.GEN_AI_REQUEST_MODEL: self._models.embedder,
            names.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: 0 if vector is None else len(vector),
            **(texts if self._content else {}),
        }

    def _ranking(self, retrieval: "Retrieval", rankings: Sequence[Sequence[Candidate]], searched: str) -> Attributes:
        """Describe the ranking of the query itself; the hits of further variants are only counted."""
        search = retrieval.hits.search
        hits = {each.chunk_id: {"hit": rank} for rank, each in enumerate(retrieval.hits.found, start=1)}
        documents = (
            _candidate(search, hit.chunk_id, hit.root_id, hit.score, hits.get(hit.chunk_id, {}))
            for hit in (rankings[0] if rankings else ())
        )
        return {
            names.OPENINFERENCE_SPAN_KIND: names.RETRIEVER,
            names.FREKI_FOUND: sum(map(len, rankings)),
            **({names.INPUT_VALUE: searched[:TEXT_CHARACTERS]} if self._content else {}),
            **self._documents(names.RETRIEVAL_DOCUMENTS, documents),
        }

    def _reranking(self, retrieval: "Retrieval") -> Attributes:
        hits, query = retrieval.hits, retrieval.query
        model = self._models.reranker if hits.reranker == "local" else hits.reranker
        search = hits.search
        given = [_candidate(search, each.chunk_id, each.root.root_id, each.fused) for each in hits.head]
        ordered = sorted(
            (
                _candidate(search, each.chunk_id, each.root.root_id, each.reranked, {"before": place})
                for place, each in enumerate(hits.head, start=1)
                if each.reranked is not None
            ),
            key=lambda document: -document.score,
        )
        return {
            names.OPENINFERENCE_SPAN_KIND: names.RERANKER,
            names.RERANKER_MODEL_NAME: model,
            names.RERANKER_TOP_K: query.options.top_k,
            names.GEN_AI_OPERATION_NAME: "rerank",
            names.GEN_AI_REQUEST_MODEL: model,
            names.FREKI_NOT_RERANKED: len(given) - len(ordered),
            **({names.RERANKER_QUERY: query.text[:TEXT_CHARACTERS]} if self._content else {}),
            **self._documents(names.RERANKER_INPUT_DOCUMENTS, given),
            **self._documents(names.RERANKER_OUTPUT_DOCUMENTS, ordered),
        }

    def _documents(self, name: str, documents: Iterable[_Document]) -> Attributes:
        """List the first documents as OpenInference does: one attribute per field of a document."""
        listed: dict[str, str | float] = {}
        for place, document in zip(range(SHOWN_DOCUMENTS), documents, strict=False):
            for field, value in self._fields(document):
                listed[f"{name}.{place}.{field}"] = value
        return listed

    def _fields(self, document: _Document) -> Iterator[tuple[str, str | float]]:
        yield names.DOCUMENT_ID, f"{document.document}#{document.chunk_id}"
        yield names.DOCUMENT_SCORE, document.score
        if document.metadata:
            yield names.DOCUMENT_METADATA, json.dumps(document.metadata)
        if self._content and document.text is not None:
            yield names.DOCUMENT_CONTENT, document.text[:SHOWN_CHARACTERS]


def asked(query: ContextQuery, *, content: bool) -> Attributes:
    """Describe a query."""
    return {
        names.OPENINFERENCE_SPAN_KIND: names.CHAIN,
        names.FREKI_TENANT: query.tenant,
        names.FREKI_QUERY_ID: query.query_id,
        names.FREKI_QUERY_KIND: query.kind,
        **({names.INPUT_VALUE: query.text[:TEXT_CHARACTERS]} if content else {}),
    }


def answered(result: ContextResult, *, content: bool) -> Attributes:
    """Describe a result."""
    return {
        names.FREKI_STATUS: result.status,
        names.FREKI_HITS: len(result.hits),
        names.FREKI_CONFIDENCE: result.confidence,
        **({} if result.cached_ms is None else {names.FREKI_CACHED_MS: result.cached_ms}),
        **({names.OUTPUT_VALUE: result.context[:TEXT_CHARACTERS]} if content else {}),
    }


def _plain(run: "StepRun") -> Attributes:
    return {names.OPENINFERENCE_SPAN_KIND: names.CHAIN, names.FREKI_ITEMS: run.items}


def _search(retrieval: "Retrieval", result: ContextResult) -> Attributes:
    analysis, options = result.analysis or retrieval.analysis, retrieval.query.options
    return {
        names.OPENINFERENCE_SPAN_KIND: names.RETRIEVER,
        names.GEN_AI_OPERATION_NAME: "retrieval",
        names.GEN_AI_DATA_SOURCE_ID: result.generation,
        names.GEN_AI_REQUEST_TOP_K: options.top_k,
        names.FREKI_QUERY_FILTERS: len(retrieval.query.filtered_fields),
        names.FREKI_ANALYSIS_LANGUAGE: analysis.language,
        names.FREKI_ANALYSIS_QUERY_TYPE: analysis.query_type,
        names.FREKI_ANALYSIS_KEYWORD: analysis.keyword,
        names.FREKI_ANALYSIS_LEVELS: analysis.levels,
        **({} if analysis.alpha is None else {names.FREKI_ANALYSIS_ALPHA: analysis.alpha}),
        names.FREKI_RERANKER: result.reranker,
        **{
            f"{names.FREKI_OPTION_PREFIX}{option.name}": value
            for option in fields(options)
            if (value := getattr(options, option.name)) is not None
        },
    }


def _candidate(
    search: "SearchResult", chunk_id: ChunkId, root_id: RootId, score: float, metadata: Mapping[str, float] = {}
) -> _Document:
    # Candidates that were not looked up in the store have only ids.
    root, loaded = search.roots.get(root_id), search.loaded.get(chunk_id)
    document = root_id if root is None else root.document_id
    return _Document(chunk_id, document, score, metadata, None if loaded is None else loaded[0].text)


def _hit(hit: ContextHit) -> _Document:
    scores = {
        "dense": hit.dense_score,
        "lexical": hit.lexical_score,
        "fused": hit.fused_score,
        "reranked": hit.rerank_score,
        "judged": hit.judged or None,
    }
    rounded = {name: round(score, DIGITS) for name, score in scores.items() if score is not None}
    return _Document(hit.chunk_id, hit.document_id, hit.score, {"version": hit.version, **rounded}, hit.text)


def _notify(span: Span, notices: Iterable[Notice], ended_ns: Mapping[str, int], *, content: bool) -> None:
    """Add notices as events at the end of their steps, or now."""
    for notice in notices:
        told = {names.FREKI_NOTICE_MESSAGE: notice.message} if content or notice.kind in _WITHOUT_CONTENT else {}
        span.add_event(
            names.FREKI_NOTICE,
            {names.FREKI_NOTICE_STEP: notice.stage, names.FREKI_NOTICE_KIND: notice.kind, **told},
            timestamp=ended_ns.get(notice.stage, max(ended_ns.values(), default=None)),
        )
