"""Reads from a question what to search for, and how."""

from collections.abc import Callable

from freki.operators.analyse_query import analyse_query, searchable_text
from freki.operators.detect_language import detect_language
from freki.schemas import ContextQuery, NoticeKind, QueryAnalysis, Timestamp
from freki.streams.ports import AnalyseText
from freki.streams.retrieval.knobs import Knobs
from freki.streams.retrieval.trail import Trail


class Understanding:
    """Knows the settings, which a question may turn, and the terms of the index."""

    def __init__(self, *, defaults: Knobs, analyse_text: AnalyseText, clock_ns: Callable[[], int]) -> None:
        self._defaults = defaults
        self._analyse_text = analyse_text
        self._clock_ns = clock_ns

    def __call__(self, query: ContextQuery, trace_id: str, received_at: Timestamp) -> Trail:
        """Start the trail of a query."""
        knobs = self._defaults.turned(query)
        text = searchable_text(query.text)
        language = query.language or detect_language(text)
        read = analyse_query(text, language=language)
        analysis = QueryAnalysis(
            language=language,
            query_type=read.query_type,
            keyword=read.keyword,
            levels=query.levels or read.levels,
            alpha=knobs.alpha_for(keyword=read.keyword),
            lexical=self._analyse_text(text, language=language),
        )
        trail = Trail(
            query=query,
            knobs=knobs,
            trace_id=trace_id,
            clock_ns=self._clock_ns,
            received_at=received_at,
            analysis=analysis,
            variants=(text,),
        )
        if len(text) < len(" ".join(query.text.split())):
            message = f"the question has {len(query.text)} characters; it was searched by {len(text)} of them"
            trail.notice("analyse", NoticeKind.SKIPPED, message)
        return trail
