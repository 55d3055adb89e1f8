"""Parse a query: its options, language, terms and type."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from freki.operators.analyse_query import (
    Prototypes,
    QueryReading,
    analyse_query,
    example_wordings,
    fit_prototypes,
    levels_of,
    searchable_text,
    type_by_prototypes,
)
from freki.operators.centre_queries import query_centres
from freki.operators.detect_language import detect_language
from freki.operators.validate_query import parse_condition
from freki.schemas import (
    ChunkLevel,
    ContextQuery,
    NoticeKind,
    QueryAnalysis,
    QueryType,
    RequestKind,
    TenantId,
    Timestamp,
    TypedBy,
)
from freki.schemas.arrays import Floats
from freki.schemas.index import Exclusions
from freki.schemas.query_options import QueryOptions
from freki.streams.ports import AnalyseText, EmbedTexts
from freki.streams.retrieve.parsed_query import BY_TERMS, ParsedQuery
from freki.streams.retrieve.profiles import DEFAULT, ReaderProfile, named_by, profile_of
from freki.streams.retrieve.query_log import QueryLog

Q = TypeVar("Q", bound=ParsedQuery)

_LEVELS = (ChunkLevel.DOCUMENT, ChunkLevel.SECTION, ChunkLevel.PARAGRAPH)


class QueryParser:
    """Parses queries by the settings, the profiles of readers and the analyser of the index."""

    def __init__(
        self,
        *,
        defaults: QueryOptions,
        profiles: Mapping[str, ReaderProfile],
        analyse_text: AnalyseText,
        clock_ns: Callable[[], int],
        left_out: Callable[[TenantId], Exclusions] = lambda _: Exclusions(),
    ) -> None:
        self._left_out = left_out
        self._defaults = defaults
        self._profiles = profiles
        self._analyse_text = analyse_text
        self._clock_ns = clock_ns
        self._prototypes: Prototypes | None = None
        self._centres: Mapping[str, Floats] = {}

    def take_over(self, defaults: QueryOptions, profiles: Mapping[str, ReaderProfile]) -> None:
        """Parse later queries by these."""
        self._defaults = defaults
        self._profiles = profiles

    async def learn(self, embed: EmbedTexts) -> None:
        """Embed the examples of each query type. Before, a query that no rule types is FACTUAL, without a centre."""
        examples = example_wordings()
        vectors = await embed([example.text for example in examples])
        self._prototypes = fit_prototypes(vectors, [example.query_type for example in examples])
        self._centres = query_centres(vectors, [example.language for example in examples])

    def centre(self, parsed: ParsedQuery) -> Floats | None:
        """Return what the vectors of queries in the language of a query have in common, (dim,); None if not known."""
        return self._centres.get(parsed.analysis.language)

    def __call__(self, query: ContextQuery, trace_id: str, received_at: Timestamp) -> ParsedQuery:
        """Parse a query; its log begins with this step."""
        log = QueryLog(self._clock_ns)
        started_ns = self._clock_ns()
        profile = profile_of(query.target_model, self._profiles) if query.target_model else None
        text = searchable_text(query.text)
        language = query.language or detect_language(text)
        read = analyse_query(text, language=language)
        parsed = ParsedQuery(
            query=query,
            options=(profile.apply_to(self._defaults) if profile else self._defaults).with_overrides(query),
            analysis=self._analysis(query, text, read, language=language),
            text=text,
            cites=read.cites,
            designations=read.designations,
            abbreviation=read.abbreviation,
            trace_id=trace_id,
            received_at=received_at,
            count_tokens=profile.count_tokens if profile else None,
            log=log,
            left_out=self._left_out(query.tenant),
            where=None if query.where is None else parse_condition(query.where),
        )
        if len(text) < len(" ".join(query.text.split())):
            message = f"the query has {len(query.text)} characters; it was searched by {len(text)} of them"
            log.notice("analyse", NoticeKind.SKIPPED, message)
        if parsed.says_nothing and not parsed.quoted:
            log.notice("analyse", NoticeKind.UNMET, "the query has no word and no number to search for")
        if query.target_model and named_by(query.target_model, self._profiles) is None:
            log.notice("analyse", NoticeKind.UNMET, _unnamed(query.target_model, self._profiles))
        log.ran("analyse", started_ns, 1)
        return parsed

    def as_of_now(self, parsed: Q) -> Q:
        """Leave out what objections say now: a query may have waited for minutes, or a model ranked for seconds."""
        return replace(parsed, left_out=self._left_out(parsed.query.tenant))

    def by_examples(self, parsed: ParsedQuery, vector: Floats | None) -> ParsedQuery:
        """Type a query that no rule types by its vector, if it has one."""
        is_typed = parsed.analysis.typed_by is not TypedBy.NOTHING
        if is_typed or self._prototypes is None or not parsed.options.prototypes or vector is None:
            return parsed
        query_type = type_by_prototypes(vector, self._prototypes)
        levels = parsed.query.levels or levels_of(query_type)
        analysis = replace(parsed.analysis, query_type=query_type, typed_by=TypedBy.EXAMPLES, levels=levels)
        return replace(parsed, analysis=analysis)

    def _analysis(self, query: ContextQuery, text: str, read: QueryReading, *, language: str) -> QueryAnalysis:
        levels = query.levels or (_LEVELS if query.kind is RequestKind.CHUNK_READ else None)
        return QueryAnalysis(
            language=language,
            query_type=read.query_type or QueryType.FACTUAL,
            keyword=read.keyword,
            levels=levels or levels_of(read.query_type or QueryType.FACTUAL),
            alpha=None,
            lexical=self._analyse_text(text, language=language) if query.kind in BY_TERMS else "",
            typed_by=TypedBy.WORDING if read.query_type else TypedBy.NOTHING,
            exact=read.exact,
        )


def _unnamed(target_model: str, profiles: Collection[str]) -> str:
    holds = f"that of {DEFAULT!r}" if DEFAULT in profiles else "none"
    others = ", ".join(sorted(profiles)) or "none"
    return f"target_model {target_model!r} names no profile: {holds} holds; there are: {others}"
