"""Put a result together: hits with their surroundings, the context text, notices and hints."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from freki.operators.age import age_ms
from freki.operators.analyse_query import absent_designations, asked_term
from freki.operators.assemble import Assembly, Omitted, SurroundingChunks, assemble, cite, place_of
from freki.operators.augment import leaf_gaps, neighbour_parts, section_part
from freki.operators.breadcrumb import writer_of, written_in
from freki.operators.chunk import sentence_ends
from freki.operators.confidence import confidence_of, least_across
from freki.operators.distance import in_metric
from freki.operators.hints import Filtered, failure_hint, hints, quoted
from freki.schemas import (
    ChunkId,
    ChunkKind,
    Citation,
    Confidence,
    ContextExpansion,
    ContextHit,
    ContextPart,
    ContextQuery,
    ContextResult,
    Duplicate,
    ExactKind,
    Freshness,
    Notice,
    NoticeKind,
    QueryType,
    ResultStatus,
    Timestamp,
)
from freki.schemas.context_result import failures
from freki.schemas.index import ManifestEntry, Root, Watermark
from freki.schemas.names import is_known, shown_time
from freki.streams.retrieve.candidates import Further, LocatedHit, LocatedHits, Retrieval
from freki.streams.retrieve.parsed_query import EmbeddedQuery, ParsedQuery
from freki.streams.retrieve.steps.absent import note_absent
from freki.streams.retrieve.steps.cover import TermCoverage, coverage, is_across
from freki.streams.retrieve.steps.exact import has_cited_clause, holds_quoted, texts_of
from freki.streams.retrieve.steps.quote import matches, quote
from freki.streams.retrieve.steps.rerank import LOCAL, probability

CountTokens = Callable[[Sequence[str]], Sequence[int]]
NO_ROOM = "the context text has no room for it"
STEP = "assemble"
DEGRADING = frozenset({NoticeKind.DEGRADED, NoticeKind.SKIPPED, NoticeKind.FRESHNESS})
"""Kinds of notices that make a result with hits DEGRADED; one without hits may have the last two, and be EMPTY."""
_STATUS = {NoticeKind.REJECTED: ResultStatus.REJECTED, NoticeKind.DEGRADED: ResultStatus.DEGRADED}
"""Status of a query that is not answered, by its notice; else there was no time for it."""
_RISING = (Confidence.NONE, Confidence.LOW, Confidence.HIGH)
_DESIGNATIONS = frozenset({ExactKind.STANDARD, ExactKind.IDENTIFIER})
_OMITTED = {Omitted.PART: "cut in", Omitted.HIT: "left out of"}


class Composition(NamedTuple):
    """A result, and the hits that its context text has no room for."""

    result: ContextResult
    omitted: Sequence[ChunkId]


class Composer:
    """Composes results by the properties that all results of a worker share."""

    def __init__(
        self, *, count_tokens: CountTokens, generation: str, strong: bool, now: Callable[[], Timestamp]
    ) -> None:
        self._count_tokens = count_tokens
        self._generation = generation
        self._consistency = "STRONG" if strong else "BOUNDED"
        self._now = now

    def compose(self, retrieval: Retrieval, watermarks: Sequence[Watermark]) -> Composition:
        """Compose the result of a query that went through all steps."""
        now = self._now()
        query, found = retrieval.query, retrieval.hits
        hits = tuple(_hit(retrieval, rank, hit, now) for rank, hit in enumerate(found.found, start=1))
        started_ns = query.log.clock_ns()
        expansions = _expansions(retrieval)
        assembly = assemble(
            hits,
            expansions,
            max_tokens=query.options.context_tokens,
            count_tokens=query.count_tokens or _counter(self._count_tokens, found.found),
            sentence_ends=sentence_ends,
            around=_surrounding_chunks(retrieval),
            matches_of=lambda hit: matches(query, hit.text, language=hit.language),
        )
        query.log.ran(STEP, started_ns, len(hits))
        omitted = _note_omissions(query, assembly)
        absent = note_absent(query, found, hits)
        language = query.analysis.language
        unheld = () if any(holds_quoted(query, each) for each in found.found) else query.quoted
        confidence = _confidence(retrieval, lacks_named=absent.is_doubtful, is_unheld=bool(unheld))
        advice = hints(
            _with_limits(query),
            query.analysis,
            found=len(hits),
            # Other words do not help a query that names the chunks to read.
            wanted=0 if query.is_read else query.options.top_k,
            confidence=confidence,
            lacking=[*absent.names, *(quoted(phrase, language) for phrase in unheld)] if hits else (),
            filtered=Filtered(query.filtered_fields, retrieval.excluded),
        )
        if not hits and failures(query.log.notices):
            advice = (failure_hint(language),)
        result = ContextResult(
            query_id=query.query.query_id,
            tenant=query.query.tenant,
            status=_status(hits, query.log.notices),
            hits=hits,
            context=assembly.text,
            analysis=retrieval.analysis,
            variants=found.search.texts,
            reranker=found.reranker,
            stages=query.log.times(),
            notices=tuple(query.log.notices),
            advice=advice,
            freshness=self._freshness(watermarks),
            generation=self._generation,
            asked_at=shown_time(query.query.asked_at),
            answered_at=self._now(),
            trace_id=query.trace_id,
            widened=tuple(each.variant.kind for each in found.search.variants if each.variant.kind is not None),
            expansions=expansions,
            citations=tuple(map(_citation, assembly.cited)),
            confidence=confidence,
        )
        return Composition(result, omitted)

    def refuse(self, query: ContextQuery, notice: Notice, *, trace_id: str) -> ContextResult:
        """Compose the result of a query that breaks a rule, that failed, or that there is no time for."""
        return ContextResult(
            query_id=query.query_id,
            tenant=query.tenant,
            status=_STATUS.get(notice.kind, ResultStatus.EXPIRED),
            hits=(),
            context="",
            analysis=None,
            variants=(),
            reranker="none",
            stages=(),
            notices=(notice,),
            advice=(),
            freshness=self._freshness(()),
            generation=self._generation,
            asked_at=shown_time(query.asked_at),
            answered_at=self._now(),
            trace_id=trace_id,
        )

    def _freshness(self, watermarks: Sequence[Watermark]) -> Freshness:
        now = self._now()
        # Marks of earlier releases may be in the future, as files with such a date are.
        times = [mark.occurred_at for mark in watermarks if is_known(mark.occurred_at) and mark.occurred_at <= now]
        return Freshness(
            indexed_through=max(times, default=None),
            last_commit_at=max((mark.committed_at for mark in watermarks), default=None),
            consistency=self._consistency,
        )


def _counter(count_tokens: CountTokens, hits: Sequence[LocatedHit]) -> CountTokens:
    """Return a counter that knows the tokens of the hits: they were counted when they were indexed."""
    known = {hit.row.text: hit.row.tokens for hit in hits}

    def count(texts: Sequence[str]) -> list[int]:
        unknown = list(dict.fromkeys(text for text in texts if text not in known))
        known.update(zip(unknown, count_tokens(unknown) if unknown else (), strict=True))
        return [known[text] for text in texts]

    return count


def _with_limits(query: ParsedQuery) -> ContextQuery:
    """Return a query with the limits that its hits had to pass, also those of a profile or setting."""
    options = query.options
    # A setting of 0 is none.
    min_score = options.min_score or query.query.min_score
    return replace(query.query, min_score=min_score, min_similarity=options.min_similarity)


def _note_omissions(query: ParsedQuery, assembly: Assembly) -> list[ChunkId]:
    """Add notices of what the context text omits; return the hits that it omits as a whole."""
    around = [each for each in assembly.omissions if each.what is Omitted.SURROUNDINGS]
    for omission in assembly.omissions:
        if omission.what is not Omitted.SURROUNDINGS:
            message = f"hit {omission.rank} is {_OMITTED[omission.what]} the context text: {omission.reason}"
            query.log.notice(STEP, NoticeKind.DROPPED, message)
    if around and query.analysis.query_type is QueryType.AGGREGATIVE:
        hits = f"{'hit' if len(around) == 1 else 'hits'} {', '.join(str(each.rank) for each in around)}"
        limit = f"of at most {query.options.context_tokens} tokens"
        message = f"what stands around {hits} is not all in the context text {limit}; a list may lack items"
        query.log.notice(STEP, NoticeKind.DROPPED, message)
    return [each.chunk_id for each in assembly.omissions if each.what is Omitted.HIT]


def _confidence(retrieval: Retrieval, *, lacks_named: bool, is_unheld: bool) -> Confidence:
    """Judge the hits by their scores and by the query's words.

    lacks_named, is_unheld: they lack what it names, what it quotes.
    """
    query, hits = retrieval.query, retrieval.hits
    if query.is_read or not hits.found or query.vector is None:
        return Confidence.UNKNOWN
    covered = coverage(query, hits.found)
    # A model has no time for all; those that it did not reach are not the best.
    reached = [each for each in hits.found if probability(hits, each) is not None] or hits.found
    judged = max((_judged(query, hits, each, covered) for each in reached), key=_RISING.index)
    if query.says_nothing:
        # Any text is similar to signs.
        judged = Confidence.NONE
    holds = bool(query.quoted) and not is_unheld
    if judged is Confidence.NONE and (holds or _has_named(query, hits, lacks_named=lacks_named)):
        # Scores compare meanings: they are low where the query asks in other words, or language, than it quotes or
        # names, and where it is a single designation.
        return Confidence.LOW
    is_doubtful = hits.best_effort or lacks_named or is_unheld
    return Confidence.LOW if is_doubtful and judged is Confidence.HIGH else judged


def _has_named(query: EmbeddedQuery, hits: LocatedHits, *, lacks_named: bool) -> bool:
    """Return whether hits have the designation that a query is, all designations in it, or the clause that it cites."""
    designation = "" if lacks_named else _designation(query)
    return (
        (bool(designation) and coverage(query, hits.found, designation).share == 1.0)
        or _has_designations(query, hits)
        or has_cited_clause(query, hits.found)
    )


def _designation(query: EmbeddedQuery) -> str:
    """Return the identifier, number or abbreviation that a query is or asks the meaning of; else nothing."""
    term = "" if query.says_nothing else asked_term(query.text)
    is_exact = len(term.split()) == 1 and bool(query.analysis.exact)
    return term if query.abbreviation or term in query.designations or is_exact else ""


def _has_designations(query: EmbeddedQuery, hits: LocatedHits) -> bool:
    """Return whether one hit has all identifiers and standards of a query, E05 or PEP 8; numbers alone say little."""
    named = [term.text for term in query.analysis.exact if term.kind in _DESIGNATIONS]
    return any(character.isalpha() for each in named for character in each) and any(
        not absent_designations(named, texts_of(each)) for each in hits.found
    )


def _judged(query: EmbeddedQuery, hits: LocatedHits, hit: LocatedHit, covered: TermCoverage) -> Confidence:
    """Judge a hit by its scores and by what all hits have of the query's words."""
    across = is_across(query, hit, covered=covered)
    least = query.options.unanswered_probability
    return confidence_of(
        probability(hits, hit),
        query.similarity(hit.vector) or 0.0,
        covered=covered.share,
        is_across=across,
        is_calibrated=hits.reranker == LOCAL,
        least_probability=min(least, least_across(query.analysis.language)) if across else least,
        least_similarity=query.options.unanswered_similarity,
    )


def _surrounding_chunks(retrieval: Retrieval) -> SurroundingChunks:
    found, passages = retrieval.hits.found, retrieval.surroundings.passages
    near = {hit.root.document_id: hit.near for hit in found}
    return SurroundingChunks(
        sections={hit.chunk_id: _section_chunks(retrieval, hit) for hit in found},
        headings={chunk_id: passage.heading_path for chunk_id, passage in passages.items()},
        gaps={document_id: leaf_gaps(entries) for document_id, entries in near.items()},
        headers=_headers(retrieval),
    )


def _headers(retrieval: Retrieval) -> dict[ChunkId, str]:
    """Return the headers of the tables that chunks around hits continue: these are both overlap and context."""
    surroundings = retrieval.surroundings
    entries = [entry for each in surroundings.of_hits.values() for entry in each.shown]
    return {
        entry.chunk_id: entry.overlap
        for entry in entries
        if entry.overlap
        and (passage := surroundings.passages.get(entry.chunk_id))
        and f"\n{entry.overlap}\n" in f"{passage.context}\n"
    }


def _section_chunks(retrieval: Retrieval, hit: LocatedHit) -> tuple[ContextPart, ...]:
    """Return the chunks of the section around a hit, as far as their texts were read."""
    section = retrieval.surroundings.of(hit.chunk_id).section
    return neighbour_parts(section.entries, retrieval.surroundings.passages) if section else ()


def _hit(retrieval: Retrieval, rank: int, hit: LocatedHit, now: Timestamp) -> ContextHit:
    root, entry, row, query = hit.root, hit.entry, hit.row, retrieval.query
    around, passages = retrieval.surroundings.of(hit.chunk_id), retrieval.surroundings.passages
    # A summary by a language model says more than the extract that stands in for one.
    generated = row.kind is ChunkKind.SUMMARY and bool(writer_of(row.context_key))
    text = written_in(row.context) if generated else row.text
    return ContextHit(
        rank=rank,
        chunk_id=hit.chunk_id,
        document_id=root.document_id,
        version=root.version,
        name=root.name,
        source_uri=root.source_uri,
        language=row.language,
        kind=row.kind,
        level=row.level,
        path=entry.path,
        heading_path=row.heading_path,
        start=entry.start,
        end=entry.end,
        text=text,
        overlap=entry.overlap,
        score=hit.score,
        dense_score=None if hit.dense is None else in_metric(hit.dense, query.options.metric),
        lexical_score=hit.lexical,
        fused_score=hit.fused,
        rerank_score=hit.reranked,
        citation=_cited(query, rank, root, entry, language=row.language),
        parent=None if around.section is None else section_part(around.section, passages),
        before=neighbour_parts(around.neighbours.before, passages),
        after=neighbour_parts(around.neighbours.after, passages),
        occurred_at=root.occurred_at,
        searchable_at=root.searchable_at,
        age_ms=age_ms(root.occurred_at, now),
        first_page=entry.first_page,
        last_page=entry.last_page,
        duplicates=tuple(
            Duplicate(document_id=other.root.document_id, version=other.root.version, chunk_id=other.chunk_id)
            for other in hit.duplicates
        ),
        variant=hit.variant,
        judged=hit.judged,
        snippets=quote(query, text, language=row.language),
        generated=generated,
    )


def _expansions(retrieval: Retrieval) -> tuple[ContextExpansion, ...]:
    """Make parts of further chunks, numbered after the hits; chunks without a text are left out."""
    passages = retrieval.surroundings.passages
    there = [further for further in retrieval.further if further.entry.chunk_id in passages]
    first = len(retrieval.hits.found) + 1
    return tuple(_expansion(retrieval, number, further) for number, further in enumerate(there, start=first))


def _expansion(retrieval: Retrieval, number: int, further: Further) -> ContextExpansion:
    root, entry = further.root, further.entry
    passage = retrieval.surroundings.passages[entry.chunk_id]
    return ContextExpansion(
        number=number,
        chunk_id=entry.chunk_id,
        document_id=root.document_id,
        version=root.version,
        name=root.name,
        source_uri=root.source_uri,
        path=entry.path,
        heading_path=passage.heading_path,
        start=entry.start,
        end=entry.end,
        text=passage.text,
        overlap=entry.overlap,
        similarity=further.similarity,
        citation=_cited(retrieval.query, number, root, entry, language=root.language),
        first_page=entry.first_page,
        last_page=entry.last_page,
    )


def _cited(query: ParsedQuery, number: int, root: Root, entry: ManifestEntry, *, language: str) -> str:
    """Write the citation of a chunk in the style of the query; pages are named in the given language."""
    return cite(
        number,
        name=root.name,
        document_id=root.document_id,
        chunk_id=entry.chunk_id,
        place=place_of(entry.first_page, entry.last_page, media_type=root.media_type, language=language),
        style=query.options.citations,
    )


def _citation(chunk: ContextHit | ContextExpansion) -> Citation:
    """Describe the chunk of a citation."""
    return Citation(
        citation=chunk.citation,
        number=chunk.rank if isinstance(chunk, ContextHit) else chunk.number,
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        version=chunk.version,
        name=chunk.name,
        source_uri=chunk.source_uri,
        heading_path=chunk.heading_path,
        start=chunk.start,
        end=chunk.end,
        first_page=chunk.first_page,
        last_page=chunk.last_page,
        expansion=isinstance(chunk, ContextExpansion),
    )


def _status(hits: Sequence[ContextHit], notices: Sequence[Notice]) -> ResultStatus:
    kinds = {notice.kind for notice in notices}
    # After a failed step it is unknown whether there is nothing to find.
    if not hits and NoticeKind.DEGRADED not in kinds:
        return ResultStatus.EMPTY
    return ResultStatus.DEGRADED if kinds & DEGRADING else ResultStatus.COMPLETE
