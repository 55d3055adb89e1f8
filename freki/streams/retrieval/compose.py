"""Puts a result together: hits with their surroundings, the context text, and what the reader should know."""

import math
from collections.abc import Callable, Sequence

from freki.operators.advise import advise
from freki.operators.assemble import Omitted, assemble, cite, place_of
from freki.operators.augment import (
    Section,
    document_around,
    neighbour_parts,
    neighbours_of,
    section_around,
    section_part,
)
from freki.operators.chunk import sentence_ends
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
from freki.streams.retrieval.quote import quote
from freki.streams.retrieval.rerank import PROBABILITIES
from freki.streams.retrieval.trail import Found, Further, Trail

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

    def surroundings(self, trail: Trail) -> list[ManifestEntry]:
        """Choose what is shown around the hits; list the chunks to read for it."""
        wanted: list[ManifestEntry] = []
        for found in trail.found:
            found.section = _section(trail, found)
            found.neighbours = neighbours_of(found.near, found.chunk_id, count=trail.knobs.neighbours)
            shown = found.section.entries if found.section is not None else ()
            wanted += [*shown, *found.neighbours.before, *found.neighbours.after]
        return wanted + [further.entry for further in trail.further]

    def compose(self, trail: Trail, watermarks: Sequence[Watermark]) -> ContextResult:
        """Make the result of a query that went its way."""
        now = self._now()
        hits = tuple(self._hit(trail, rank, found, now) for rank, found in enumerate(trail.found, start=1))
        started = trail.clock_ns()
        expansions = _expansions(trail)
        assembly = assemble(
            hits,
            expansions,
            max_tokens=trail.knobs.context_tokens,
            count_tokens=trail.count_tokens or self._count_tokens,
            sentence_ends=sentence_ends,
        )
        trail.note("assemble", started, trail.clock_ns(), len(hits))
        for omission in assembly.omissions:
            if omission.what is Omitted.SURROUNDINGS and trail.analysis.query_type is QueryType.AGGREGATIVE:
                message = f"what stands around hit {omission.rank} is not all in the context text: {omission.reason}"
                trail.notice("assemble", NoticeKind.DROPPED, f"{message}; a list may lack items")
            elif omission.what is not Omitted.SURROUNDINGS:
                message = f"hit {omission.rank} is {_OMITTED[omission.what]} the context text: {omission.reason}"
                trail.notice("assemble", NoticeKind.DROPPED, message)
            if omission.what is Omitted.HIT:
                trail.drop("assemble", "the context text has no room for it", [omission.chunk_id])
        advice = advise(
            trail.query,
            trail.analysis,
            found=len(hits),
            # Other words do not help who names what to read.
            wanted=0 if trail.query.kind is RequestKind.CHUNK_READ else trail.knobs.top_k,
            uncertain=bool(hits) and (trail.best_effort or not _is_sure(trail)),
            excluded=trail.excluded,
        )
        return ContextResult(
            query_id=trail.query.query_id,
            tenant=trail.query.tenant,
            status=_status(hits, trail.notices),
            hits=hits,
            context=assembly.text,
            analysis=trail.analysis,
            variants=trail.variants,
            reranker=trail.reranker,
            stages=trail.times(),
            notices=tuple(trail.notices),
            advice=advice,
            freshness=self._freshness(watermarks),
            generation=self._generation,
            asked_at=trail.query.asked_at,
            answered_at=self._now(),
            trace_id=trail.trace_id,
            widened=tuple(way.kind for way in trail.ways if way.kind is not None),
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

    def _hit(self, trail: Trail, rank: int, found: Found, now: Timestamp) -> ContextHit:
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
            dense_score=None if found.dense is None else _in_metric(found.dense, trail.knobs.metric),
            lexical_score=found.lexical,
            fused_score=found.fused,
            rerank_score=found.reranked,
            citation=_cited(trail, rank, root, entry, language=row.language),
            parent=None if found.section is None else section_part(found.section, trail.around),
            before=neighbour_parts(found.neighbours.before, trail.around),
            after=neighbour_parts(found.neighbours.after, trail.around),
            occurred_at=root.occurred_at,
            searchable_at=root.searchable_at,
            age_ms=max(0, now - root.occurred_at),
            first_page=entry.first_page,
            last_page=entry.last_page,
            duplicates=tuple(
                Duplicate(document_id=other.root.document_id, version=other.root.version, chunk_id=other.chunk_id)
                for other in found.duplicates
            ),
            variant=found.way,
            judged=found.judged,
            snippets=quote(trail, row),
        )


def _is_sure(trail: Trail) -> bool:
    """Tell whether some hit fits the question, by the reranker or by its similarity."""
    if not len(trail.vectors):
        return True
    return any(
        trail.similarity(found) >= SURE_SIMILARITY
        or (trail.reranker in PROBABILITIES and (found.reranked or 0.0) >= SURE_PROBABILITY)
        for found in trail.found
    )


def _expansions(trail: Trail) -> tuple[ContextExpansion, ...]:
    """Make parts of further chunks, numbered after the hits; those whose text is missing are left out."""
    there = [further for further in trail.further if further.entry.chunk_id in trail.around]
    return tuple(_expansion(trail, number, further) for number, further in enumerate(there, start=len(trail.found) + 1))


def _expansion(trail: Trail, number: int, further: Further) -> ContextExpansion:
    root, entry = further.root, further.entry
    passage = trail.around[entry.chunk_id]
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
        citation=_cited(trail, number, root, entry, language=root.language),
        first_page=entry.first_page,
        last_page=entry.last_page,
    )


def _cited(trail: Trail, number: int, root: Root, entry: ManifestEntry, *, language: str) -> str:
    """Write the citation of a chunk as the query wants it; pages are named in the given language."""
    return cite(
        number,
        name=root.name,
        document_id=root.document_id,
        chunk_id=entry.chunk_id,
        place=place_of(entry.first_page, entry.last_page, media_type=root.media_type, language=language),
        style=trail.knobs.citations,
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


def _section(trail: Trail, found: Found) -> Section | None:
    """Choose what is shown around a hit: its section; its document where the question asks for a list.

    The items of a list are spread over a document, and no ranking of its chunks is sure to have them all.
    """
    if not trail.knobs.parents:
        return None
    if trail.analysis.query_type is QueryType.AGGREGATIVE and found.root.document_id in trail.best_documents():
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
