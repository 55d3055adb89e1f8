"""Puts a result together: hits with their surroundings, the context text, and what the reader should know."""

import math
from collections.abc import Callable, Sequence

from freki.operators.assemble import Omitted, assemble, cite, place_of
from freki.operators.augment import (
    SectionWindow,
    document_around,
    neighbour_parts,
    neighbours_of,
    section_around,
    section_part,
)
from freki.operators.chunk import sentence_ends
from freki.operators.hints import hints
from freki.schemas import (
    Citation,
    ContextExpansion,
    ContextHit,
    ContextQuery,
    ContextResult,
    Duplicate,
    Freshness,
    Metric,
    Notice,
    NoticeKind,
    QueryType,
    RequestKind,
    ResultStatus,
    Timestamp,
)
from freki.schemas.index import ManifestEntry, Root, Watermark
from freki.streams.retrieve.query_state import Further, QueryState, ScoredChunk
from freki.streams.retrieve.steps.quote import quote
from freki.streams.retrieve.steps.rerank import PROBABILITIES

CountTokens = Callable[[Sequence[str]], Sequence[int]]
# About 1,000 tokens of German: a section that is longer is shown around the hit only.
SECTION_CHARACTERS = 4000
# Of questions that a corpus answers, 99 of 100 have a hit above it; of questions on something else, 1 of 4.
SURE_SIMILARITY = 0.5
SURE_PROBABILITY = 0.5
_DEGRADING = frozenset({NoticeKind.DEGRADED, NoticeKind.SKIPPED, NoticeKind.FRESHNESS})


class Composer:
    """Knows what all results of a worker share."""

    def __init__(
        self, *, count_tokens: CountTokens, generation: str, strong: bool, now: Callable[[], Timestamp]
    ) -> None:
        self._count_tokens = count_tokens
        self._generation = generation
        self._consistency = "STRONG" if strong else "BOUNDED"
        self._now = now

    def surroundings(self, state: QueryState) -> list[ManifestEntry]:
        """Choose what is shown around the hits; list the chunks to read for it."""
        wanted: list[ManifestEntry] = []
        for found in state.found:
            found.section = _section(state, found)
            found.neighbours = neighbours_of(found.near, found.chunk_id, count=state.options.neighbours)
            shown = found.section.entries if found.section is not None else ()
            wanted += [*shown, *found.neighbours.before, *found.neighbours.after]
        return wanted + [further.entry for further in state.further]

    def compose(self, state: QueryState, watermarks: Sequence[Watermark]) -> ContextResult:
        """Make the result of a query that went through all steps."""
        now = self._now()
        hits = tuple(self._hit(state, rank, found, now) for rank, found in enumerate(state.found, start=1))
        started = state.clock_ns()
        expansions = _expansions(state)
        assembly = assemble(
            hits,
            expansions,
            max_tokens=state.options.context_tokens,
            count_tokens=state.count_tokens or self._count_tokens,
            sentence_ends=sentence_ends,
        )
        state.note("assemble", started, state.clock_ns(), len(hits))
        for omission in assembly.omissions:
            if omission.what is Omitted.SURROUNDINGS and state.analysis.query_type is QueryType.AGGREGATIVE:
                message = f"what stands around hit {omission.rank} is not all in the context text: {omission.reason}"
                state.notice("assemble", NoticeKind.DROPPED, f"{message}; a list may lack items")
            elif omission.what is not Omitted.SURROUNDINGS:
                message = f"hit {omission.rank} is {_OMITTED[omission.what]} the context text: {omission.reason}"
                state.notice("assemble", NoticeKind.DROPPED, message)
            if omission.what is Omitted.HIT:
                state.drop("assemble", "the context text has no room for it", [omission.chunk_id])
        advice = hints(
            state.query,
            state.analysis,
            found=len(hits),
            # Other words do not help who names what to read.
            wanted=0 if state.query.kind is RequestKind.CHUNK_READ else state.options.top_k,
            uncertain=bool(hits) and (state.best_effort or not _is_sure(state)),
            excluded=state.excluded,
        )
        return ContextResult(
            query_id=state.query.query_id,
            tenant=state.query.tenant,
            status=_status(hits, state.notices),
            hits=hits,
            context=assembly.text,
            analysis=state.analysis,
            variants=state.variants,
            reranker=state.reranker,
            stages=state.times(),
            notices=tuple(state.notices),
            advice=advice,
            freshness=self._freshness(watermarks),
            generation=self._generation,
            asked_at=state.query.asked_at,
            answered_at=self._now(),
            trace_id=state.trace_id,
            widened=tuple(variant.kind for variant in state.query_variants if variant.kind is not None),
            expansions=expansions,
            citations=tuple(map(_citation, assembly.cited)),
        )

    def refuse(self, query: ContextQuery, notice: Notice, *, trace_id: str) -> ContextResult:
        """Make the result of a query that breaks a rule, or that there is no time for."""
        return ContextResult(
            query_id=query.query_id,
            tenant=query.tenant,
            status=ResultStatus.REJECTED if notice.kind is NoticeKind.REJECTED else ResultStatus.EXPIRED,
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
            asked_at=query.asked_at,
            answered_at=self._now(),
            trace_id=trace_id,
        )

    def _freshness(self, watermarks: Sequence[Watermark]) -> Freshness:
        return Freshness(
            indexed_through=max((mark.occurred_at for mark in watermarks), default=None),
            last_commit_at=max((mark.committed_at for mark in watermarks), default=None),
            consistency=self._consistency,
        )

    def _hit(self, state: QueryState, rank: int, found: ScoredChunk, now: Timestamp) -> ContextHit:
        root, entry, row = found.root, found.entry, found.content
        return ContextHit(
            rank=rank,
            chunk_id=found.chunk_id,
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
            text=row.text,
            overlap=entry.overlap,
            score=found.score,
            dense_score=None if found.dense is None else _in_metric(found.dense, state.options.metric),
            lexical_score=found.lexical,
            fused_score=found.fused,
            rerank_score=found.reranked,
            citation=_cited(state, rank, root, entry, language=row.language),
            parent=None if found.section is None else section_part(found.section, state.around),
            before=neighbour_parts(found.neighbours.before, state.around),
            after=neighbour_parts(found.neighbours.after, state.around),
            occurred_at=root.occurred_at,
            searchable_at=root.searchable_at,
            age_ms=max(0, now - root.occurred_at),
            first_page=entry.first_page,
            last_page=entry.last_page,
            duplicates=tuple(
                Duplicate(document_id=other.root.document_id, version=other.root.version, chunk_id=other.chunk_id)
                for other in found.duplicates
            ),
            variant=found.variant,
            judged=found.judged,
            snippets=quote(state, row),
        )


def _is_sure(state: QueryState) -> bool:
    """Tell whether some hit fits the question, by the reranker or by its similarity."""
    if not len(state.vectors):
        return True
    return any(
        state.similarity(found) >= SURE_SIMILARITY
        or (state.reranker in PROBABILITIES and (found.reranked or 0.0) >= SURE_PROBABILITY)
        for found in state.found
    )


def _expansions(state: QueryState) -> tuple[ContextExpansion, ...]:
    """Make parts of further chunks, numbered after the hits; those whose text is missing are left out."""
    there = [further for further in state.further if further.entry.chunk_id in state.around]
    return tuple(_expansion(state, number, further) for number, further in enumerate(there, start=len(state.found) + 1))


def _expansion(state: QueryState, number: int, further: Further) -> ContextExpansion:
    root, entry = further.root, further.entry
    passage = state.around[entry.chunk_id]
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
        citation=_cited(state, number, root, entry, language=root.language),
        first_page=entry.first_page,
        last_page=entry.last_page,
    )


def _cited(state: QueryState, number: int, root: Root, entry: ManifestEntry, *, language: str) -> str:
    """Write the citation of a chunk as the query wants it; pages are named in the given language."""
    return cite(
        number,
        name=root.name,
        document_id=root.document_id,
        chunk_id=entry.chunk_id,
        place=place_of(entry.first_page, entry.last_page, media_type=root.media_type, language=language),
        style=state.options.citations,
    )


def _citation(chunk: ContextHit | ContextExpansion) -> Citation:
    """Say what a citation stands for."""
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


def _section(state: QueryState, found: ScoredChunk) -> SectionWindow | None:
    """Choose what is shown around a hit: its section; its document where the question asks for a list.

    The items of a list are spread over a document, and no ranking of its chunks is sure to have them all.
    """
    if not state.options.parents:
        return None
    if state.analysis.query_type is QueryType.AGGREGATIVE and found.root.document_id in state.best_documents():
        return document_around(found.near, found.chunk_id)
    return section_around(found.near, found.chunk_id, max_characters=SECTION_CHARACTERS)


_OMITTED = {Omitted.END: "cut in", Omitted.HIT: "left out of"}


def _status(hits: Sequence[ContextHit], notices: Sequence[Notice]) -> ResultStatus:
    kinds = {notice.kind for notice in notices}
    # Where a step failed, nobody knows whether there is nothing.
    if not hits and NoticeKind.DEGRADED not in kinds:
        return ResultStatus.EMPTY
    return ResultStatus.DEGRADED if kinds & _DEGRADING else ResultStatus.COMPLETE


def _in_metric(cosine: float, metric: Metric) -> float:
    """Express the cosine of two vectors of length 1; their dot product is the same."""
    return -math.sqrt(max(0.0, 2 - 2 * cosine)) if metric is Metric.EUCLIDEAN else cosine
