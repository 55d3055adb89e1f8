"""Reads from a question what to search for, and how."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from freki.operators.analyse_query import (
    Prototypes,
    analyse_query,
    example_wordings,
    fit_prototypes,
    levels_of,
    searchable_text,
    type_by_prototypes,
)
from freki.operators.detect_language import detect_language
from freki.schemas import (
    ChunkLevel,
    ContextQuery,
    NoticeKind,
    QueryAnalysis,
    QueryType,
    RequestKind,
    Timestamp,
    TypedBy,
)
from freki.schemas.query_options import QueryOptions
from freki.streams.ports import AnalyseText, Embedder
from freki.streams.retrieve.profiles import DEFAULT, ReaderProfile, named_by, profile_of
from freki.streams.retrieve.query_state import QueryState, QueryVariant

_BY_TERMS = frozenset({RequestKind.RETRIEVE, RequestKind.KEYWORD_SEARCH})
_BY_MEANING = frozenset({RequestKind.RETRIEVE, RequestKind.SEMANTIC_SEARCH})
_LEVELS = (ChunkLevel.DOCUMENT, ChunkLevel.SECTION, ChunkLevel.PARAGRAPH)


class QueryParser:
    """Knows the settings, which a question may turn, and the terms of the index."""

    def __init__(
        self,
        *,
        defaults: QueryOptions,
        profiles: Mapping[str, ReaderProfile],
        analyse_text: AnalyseText,
        clock_ns: Callable[[], int],
    ) -> None:
        self._defaults = defaults
        self._profiles = profiles
        self._analyse_text = analyse_text
        self._clock_ns = clock_ns
        self._prototypes: Prototypes | None = None

    async def learn(self, embedder: Embedder) -> None:
        """Embed the examples of each type. Until then questions that no rule knows are taken for FACTUAL."""
        examples = example_wordings()
        vectors = await embedder.embed_queries([example.text for example in examples])
        self._prototypes = fit_prototypes(vectors, [example.query_type for example in examples])

    def __call__(self, query: ContextQuery, trace_id: str, received_at: Timestamp) -> QueryState:
        """Start the state of a query."""
        profile = profile_of(query.target_model, self._profiles) if query.target_model else None
        options = (profile.apply_to(self._defaults) if profile else self._defaults).with_overrides(query)
        text = searchable_text(query.text)
        language = query.language or detect_language(text)
        read = analyse_query(text, language=language)
        levels = query.levels or (_LEVELS if query.kind is RequestKind.CHUNK_READ else None)
        analysis = QueryAnalysis(
            language=language,
            query_type=read.query_type or QueryType.FACTUAL,
            keyword=read.keyword,
            levels=levels or levels_of(read.query_type or QueryType.FACTUAL),
            alpha=None,
            lexical=self._analyse_text(text, language=language) if query.kind in _BY_TERMS else "",
            typed_by=TypedBy.WORDING if read.query_type else TypedBy.NOTHING,
            exact=read.exact,
        )
        state = QueryState(
            query=query,
            options=options,
            trace_id=trace_id,
            clock_ns=self._clock_ns,
            received_at=received_at,
            analysis=analysis,
            query_variants=[QueryVariant(text=text, terms=analysis.lexical, embeds=query.kind in _BY_MEANING)],
            count_tokens=profile.count_tokens if profile else None,
        )
        if len(text) < len(" ".join(query.text.split())):
            message = f"the question has {len(query.text)} characters; it was searched by {len(text)} of them"
            state.notice("analyse", NoticeKind.SKIPPED, message)
        if query.target_model and named_by(query.target_model, self._profiles) is None:
            state.notice("analyse", NoticeKind.UNMET, _unnamed(query.target_model, self._profiles))
        return state

    def by_examples(self, states: Sequence[QueryState]) -> None:
        """Type the questions that no rule knows by their vectors, where they have one."""
        for state in states:
            known = state.analysis.typed_by is not TypedBy.NOTHING
            if known or self._prototypes is None or not state.options.prototypes or not len(state.vectors):
                continue
            query_type = type_by_prototypes(state.vectors[0], self._prototypes)
            state.analysis = replace(
                state.analysis,
                query_type=query_type,
                typed_by=TypedBy.EXAMPLES,
                levels=state.query.levels or levels_of(query_type),
            )


def _unnamed(target_model: str, profiles: Collection[str]) -> str:
    holds = f"that of {DEFAULT!r}" if DEFAULT in profiles else "none"
    others = ", ".join(sorted(profiles)) or "none"
    return f"target_model {target_model!r} names no profile: {holds} holds; there are: {others}"
