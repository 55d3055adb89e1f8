"""Answers batches of queries: as far as loading, each step takes all of them and makes one model or store call.

analyse → embed → search (dense and BM25 at once) → fuse what is live → load, then each by itself: rerank → diversify →
locate → augment → assemble. A step that fails or finds no time is left out and named in the result: there is always an
answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import numpy as np

from freki.operators.analyse_query import analyse_query, searchable_text
from freki.operators.analyse_text import query_terms
from freki.operators.deduplicate import deduplicate
from freki.operators.detect_language import detect_language
from freki.operators.diversify import maximal_marginal_relevance
from freki.operators.fuse import reciprocal_rank_fusion, weighted_fusion
from freki.operators.identify import root_id
from freki.operators.situate import situated
from freki.schemas import (
    EVERYONE,
    ChunkId,
    ContextQuery,
    ContextResult,
    Fusion,
    NoticeKind,
    QueryAnalysis,
    QueryId,
    RerankerChoice,
    RootId,
    TenantId,
    Timestamp,
)
from freki.schemas.index import Candidate, RerankPair, Scope, Watermark
from freki.streams.compose import Composer
from freki.streams.knobs import Knobs
from freki.streams.live import LiveDocument, read_around, read_live
from freki.streams.ports import AnalyseText, ChunkRows, ChunkSearch, Embedder, Reranker, Roots
from freki.streams.trail import Found, Ranked, Trail, timed

T = TypeVar("T")

# What the steps after reranking need: fetching neighbours, assembling, sending.
RESERVE_S = 0.03
# Below this, a step that only improves the answer is not begun.
LEAST_STEP_S = 0.01
# How long to wait between looks at a document that must become fresher.
FLOOR_POLL_S = 0.02
# A document that is replaced again and again: after this many looks its hits are left out.
MOST_TRIES = 3
# A probability below this one is 0, as far as evidence goes.
LEAST_PROBABILITY = 1e-6


class Retriever:
    """Finds context for questions. Failures in `failures` are those of the outside world: steps fail open on them."""

    def __init__(  # noqa: PLR0913 - each is one thing from outside
        self,
        *,
        embedder: Embedder,
        search: ChunkSearch,
        rows: ChunkRows,
        roots: Roots,
        rerankers: Sequence[Reranker],
        defaults: Knobs,
        generation: str,
        strong: bool,
        failures: tuple[type[Exception], ...],
        now: Callable[[], Timestamp],
        clock_ns: Callable[[], int],
        analyse_text: AnalyseText = query_terms,
    ) -> None:
        self._embedder = embedder
        self._analyse_text = analyse_text
        self._search = search
        self._rows = rows
        self._roots = roots
        self._rerankers = {reranker.name: reranker for reranker in rerankers}
        self._defaults = defaults
        self._strong = strong
        self._failures: tuple[type[Exception], ...] = (*failures, TimeoutError)
        self._now = now
        self._clock_ns = clock_ns
        self._turn = asyncio.Lock()
        self._composer = Composer(count_tokens=embedder.count_tokens, generation=generation, strong=strong, now=now)

    async def answer(
        self, asked: Sequence[tuple[ContextQuery, str]]
    ) -> AsyncGenerator[tuple[int, ContextResult, Trail], None]:
        """Answer valid queries, given with their trace ids; each result comes as soon as it is there.

        Before it stands its query's place, after it its trail. What all need is done for all at once; then each is
        finished by itself, the most urgent first, so that no answer waits for the reranking of all the others.
        """
        received_at = self._now()
        started = self._clock_ns()
        trails = [self._analysed(query, trace_id, received_at) for query, trace_id in asked]
        for trail in trails:
            trail.note("analyse", started, self._clock_ns(), 1)
        for trail in trails:
            await self._wait_for_floor(trail)
        # The watermarks first: what is committed after them may be missing from the search.
        watermarks, _ = await asyncio.gather(self._watermarks(trails), self._embed(trails))
        await self._find(trails)
        await self._load(trails)
        now = self._now()
        urgent = sorted(enumerate(trails), key=lambda each: each[1].remaining_s(now))
        finishing = [asyncio.create_task(self._finish(place, trail, watermarks)) for place, trail in urgent]
        try:
            for finished in asyncio.as_completed(finishing):
                yield await finished
        finally:
            for task in finishing:
                task.cancel()
            await asyncio.gather(*finishing, return_exceptions=True)

    async def _finish(
        self, place: int, trail: Trail, watermarks: Sequence[Watermark]
    ) -> tuple[int, ContextResult, Trail]:
        """Choose the hits among what was found; once more where a document was replaced while it was being read."""
        for _ in range(MOST_TRIES):
            await self._rerank(trail)
            self._select(trail)
            if not await self._locate(trail) or trail.remaining_s(self._now()) <= RESERVE_S:
                break
            await self._find([trail])
            await self._load([trail])
        await self._augment(trail)
        return place, self._composer.compose(trail, watermarks), trail

    async def warm_up(self) -> None:
        """Ask something once: else the first question waits for word lists, the language model and connections."""
        probe = ContextQuery(
            query_id=QueryId("warm-up"), tenant=TenantId("warm-up"), text="Was ist das?", asked_at=self._now()
        )
        async for _ in self.answer([(probe, "")]):
            pass

    def refusal(self, query: ContextQuery, reason: str, *, trace_id: str) -> ContextResult:
        """Answer a query that breaks a rule."""
        return self._composer.refuse(query, reason, trace_id=trace_id)

    def _analysed(self, query: ContextQuery, trace_id: str, received_at: Timestamp) -> Trail:
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

    async def _wait_for_floor(self, trail: Trail) -> None:
        """Wait until the index holds the versions that the query asks for, as long as its deadline allows."""
        floors = {root_id(trail.query.tenant, floor.document_id): floor for floor in trail.query.at_least}
        if not floors:
            return
        started = self._clock_ns()
        while floors:
            roots = await self._attempt([trail], "wait", self._roots.roots(list(floors)))
            if roots is None:
                break
            floors = {
                key: floor for key, floor in floors.items() if key not in roots or roots[key].version < floor.version
            }
            if not floors or trail.remaining_s(self._now()) < RESERVE_S + FLOOR_POLL_S:
                break
            await asyncio.sleep(FLOOR_POLL_S)
        for floor in floors.values():
            trail.notice(
                "wait",
                NoticeKind.FRESHNESS,
                f"document {floor.document_id!r} is not at version {floor.version} yet: ask again, or allow more time",
            )
        trail.note("wait", started, self._clock_ns(), len(trail.query.at_least))

    async def _embed(self, trails: list[Trail]) -> None:
        texts = [variant for trail in trails for variant in trail.variants]
        with timed(trails, "embed", lambda trail: len(trail.variants)):
            vectors = await self._attempt(trails, "embed", self._embedder.embed_queries(texts))
        if vectors is None:
            return
        at = 0
        for trail in trails:
            trail.vectors = vectors[at : at + len(trail.variants)]
            at += len(trail.variants)

    async def _watermarks(self, trails: list[Trail]) -> Sequence[Watermark]:
        with timed(trails, "freshness", lambda _: 1):
            return await self._attempt(trails, "freshness", self._search.watermarks()) or ()

    async def _find(self, trails: list[Trail]) -> None:
        """Search and keep what is live; search once more where a document changed in between."""
        await self._search_both(trails)
        moved = [trail for trail in await self._keep_live(trails) if trail.remaining_s(self._now()) > RESERVE_S]
        if moved:
            await self._search_both(moved)
            await self._keep_live(moved)

    async def _search_both(self, trails: list[Trail]) -> None:
        depth = max(trail.knobs.depth for trail in trails)
        searched = [trail for trail in trails if len(trail.vectors)]
        scopes = [_scope(trail) for trail in searched for _ in trail.variants]
        vectors = np.vstack([trail.vectors for trail in searched]) if searched else None
        texts = [trail.analysis.lexical for trail in trails]

        async def dense() -> list[list[Candidate]] | None:
            if vectors is None:
                return []
            with timed(searched, "search.dense", lambda trail: len(trail.variants)):
                call = self._search.dense(vectors, scopes, limit=depth, strong=self._strong)
                return await self._attempt(searched, "search.dense", call)

        async def lexical() -> list[list[Candidate]] | None:
            with timed(trails, "search.lexical", lambda _: 1):
                call = self._search.lexical(
                    texts, [_scope(trail) for trail in trails], limit=depth, strong=self._strong
                )
                return await self._attempt(trails, "search.lexical", call)

        by_vector, by_terms = await asyncio.gather(dense(), lexical())
        for trail in trails:
            trail.dense, trail.lexical = [], []
        rest = iter(by_vector or [])
        for trail in searched:
            trail.dense = [ranking[: trail.knobs.depth] for _, ranking in zip(trail.variants, rest, strict=False)]
        for trail, ranking in zip(trails, by_terms or [], strict=False):
            trail.lexical = [ranking[: trail.knobs.depth]]

    async def _keep_live(self, trails: list[Trail]) -> list[Trail]:
        """Fuse, and take from the top what is live and readable, as many as are wanted; give trails that met others."""
        with timed(trails, "fuse", lambda trail: len(trail.ranked)):
            for trail in trails:
                trail.ranked, trail.found = _fused(trail), []
                trail.dropped.clear()
        dropped = dict.fromkeys(map(id, trails), 0)
        with timed(trails, "manifest", lambda trail: len(trail.found)):
            short, at = trails, 0
            while short:
                # The best are nearly always live, so looking further down is nearly always needless.
                step = max(trail.wanted for trail in short)
                slices = [(trail, trail.ranked[at : at + step]) for trail in short]
                candidates = [each for _, ranked in slices for each in ranked]
                live = await self._attempt(short, "manifest", read_live(self._roots, candidates))
                if live is None:
                    break
                for trail, ranked in slices:
                    dropped[id(trail)] += _take_live(trail, ranked, live)
                at += step
                short = [trail for trail in short if len(trail.found) < trail.wanted and at < len(trail.ranked)]
        return [trail for trail in trails if dropped[id(trail)]]

    async def _locate(self, trail: Trail) -> bool:
        """Read where the hits stand; tell whether the revision of some candidates is gone by now."""
        hits = [(found.chunk_id, found.document) for found in trail.found]
        with timed([trail], "locate", lambda _: len(trail.found)):
            around = await self._attempt([trail], "locate", read_around(self._roots, hits)) or {}
        for found in trail.found:
            found.near = around.get(found.root.root_id, ())
        there = [found for found in trail.found if any(entry.chunk_id == found.chunk_id for entry in found.near)]
        _drop(trail, "locate", "its place in the document was not read", there)
        is_lost = trail.replaced or len(there) < len(trail.found)
        trail.found = there
        return is_lost

    async def _load(self, trails: list[Trail]) -> None:
        """Read rows and vectors of the best candidates; drop repeated texts."""
        wanted: dict[ChunkId, None] = {}
        for trail in trails:
            wanted.update(dict.fromkeys(found.chunk_id for found in trail.found))
        with timed(trails, "load", lambda trail: len(trail.found)):
            fetched = await self._attempt(trails, "load", self._rows.fetch(list(wanted)))
        rows = fetched or {}
        for trail in trails:
            there = [found for found in trail.found if found.chunk_id in rows]
            trail.replaced = fetched is not None and len(there) < len(trail.found)
            _drop(trail, "load", "its row was not read", there)
            trail.found, trail.loaded = there, rows
            for found in trail.found:
                found.row, found.vector = rows[found.chunk_id]
            kept = [trail.found[place] for place in deduplicate([found.content.text for found in trail.found])]
            _drop(trail, "load", "a better candidate has the same text", kept)
            trail.found = kept

    async def _rerank(self, trail: Trail) -> None:
        """Rescore the best candidates; each reranker of the chain steps in for the one before it."""
        head = trail.found[: trail.knobs.rerank_candidates]
        trail.head = head
        if not head or trail.knobs.reranker is RerankerChoice.NONE:
            return
        for name in _CHAIN[trail.knobs.reranker]:
            scores = await self._scores(trail, name, head)
            if scores is not None:
                trail.reranker = name
                break
        else:
            return
        for found, score in zip(head, scores, strict=True):
            found.reranked = score
        left_out = sum(score is None for score in scores)
        if left_out:
            trail.unranked += left_out
            trail.notice(
                "rerank",
                NoticeKind.SKIPPED,
                f"{left_out} of {len(head)} candidates were not reranked: the deadline of "
                f"{trail.knobs.deadline_ms} ms left no time",
            )

    async def _scores(self, trail: Trail, name: str, head: Sequence[Found]) -> list[float | None] | None:
        if name == COSINE:
            with timed([trail], "rerank", lambda _: len(head)):
                return _cosines(trail, head)
        reranker = self._rerankers.get(name)
        if reranker is None:
            if name in _asked_for(trail.knobs.reranker):
                trail.notice("rerank", NoticeKind.DEGRADED, _MISSING[name])
            return None
        # Two at once on the same cores would both be late; others compute elsewhere.
        async with self._turn if name == LOCAL else nullcontext():
            budget_s = trail.remaining_s(self._now()) - RESERVE_S
            if budget_s < LEAST_STEP_S:
                trail.notice("rerank", NoticeKind.SKIPPED, f"no time was left for the {name} reranker")
                return None
            started = self._clock_ns()
            scores = await self._attempt([trail], "rerank", reranker.score(_pairs(trail, head), budget_s=budget_s))
            trail.note("rerank", started, self._clock_ns(), sum(score is not None for score in scores or ()))
            return scores

    def _select(self, trail: Trail) -> None:
        """Order by final score, apply the threshold, then diversify down to the limit."""
        with timed([trail], "diversify", lambda _: len(trail.found)):
            _score(trail)
            passed = [found for found in trail.found if found.score >= trail.knobs.min_score]
            if len(passed) < len(trail.found):
                trail.notice(
                    "threshold",
                    NoticeKind.DROPPED,
                    f"{len(trail.found) - len(passed)} candidates are below min_score {trail.knobs.min_score}",
                )
                _drop(trail, "threshold", "its score is below min_score", passed)
            trail.found = _diversified(trail, passed)

    async def _augment(self, trail: Trail) -> None:
        """Read what stands around the hits."""
        if trail.remaining_s(self._now()) < LEAST_STEP_S:
            trail.notice("augment", NoticeKind.SKIPPED, "no time was left for sections and neighbours")
            return
        wanted = dict.fromkeys(self._composer.surroundings(trail))
        with timed([trail], "augment", lambda _: len(trail.found)):
            trail.around = await self._attempt([trail], "augment", self._rows.passages(list(wanted))) or {}

    async def _attempt(self, trails: Sequence[Trail], stage: str, call: Awaitable[T]) -> T | None:
        """Await within the time that is left; on failure say so in the results and go on without."""
        if not trails:
            return await call
        # A step that others wait for too may take what the most patient one has.
        remaining_s = max(trail.remaining_s(self._now()) for trail in trails)
        try:
            async with asyncio.timeout(max(remaining_s, RESERVE_S)):
                return await call
        except self._failures as error:
            reason = "no answer within the deadline" if isinstance(error, TimeoutError) else str(error)
            for trail in trails:
                trail.notice(stage, NoticeKind.DEGRADED, f"{stage} failed: {reason}")
            return None


REMOTE = "remote"
LOCAL = "local"
COSINE = "cosine"
_CHAIN = {
    RerankerChoice.AUTO: (REMOTE, LOCAL, COSINE),
    RerankerChoice.REMOTE: (REMOTE, LOCAL, COSINE),
    RerankerChoice.LOCAL: (LOCAL, COSINE),
    RerankerChoice.COSINE: (COSINE,),
}
_PROBABILITIES = {REMOTE, LOCAL}
_MISSING = {
    REMOTE: "no remote reranker: set FREKI_REMOTE_RERANKER__URL",
    LOCAL: "no reranker: cosine gives scores, hybrid search the order; set FREKI_MODELS__RERANKER",
}


def _asked_for(choice: RerankerChoice) -> tuple[str, ...]:
    """Name the rerankers whose absence is worth telling."""
    return (LOCAL,) if choice is RerankerChoice.AUTO else _CHAIN[choice][:1]


def _take_live(trail: Trail, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> int:
    """Add to the found what is live and what the asker may read; count what is not live."""
    # Rows are rewritten before the root when access changes: the root is what decides.
    allowed = {*trail.query.principals, EVERYONE}
    trail.roots.update((key, document.root) for key, document in live.items())
    dead, hidden = [], []
    for each in ranked:
        document = live.get(each.root_id)
        if document is None or each.chunk_id not in document.parts:
            dead.append(each.chunk_id)
        elif not allowed.intersection(document.root.principals):
            hidden.append(each.chunk_id)
        elif len(trail.found) < trail.wanted:
            trail.found.append(Found(each.chunk_id, document, fused=each.fused, dense=each.dense, lexical=each.lexical))
    if dead:
        trail.notice("manifest", NoticeKind.DROPPED, f"{len(dead)} candidates are not of a live revision")
    trail.drop("manifest", "it is not of a live revision", dead)
    trail.drop("manifest", "the asker may not read it any more", hidden)
    return len(dead)


def _drop(trail: Trail, stage: str, reason: str, kept: Sequence[Found]) -> None:
    """Remember which of the found are not among those that are kept."""
    if len(kept) < len(trail.found):
        stay = {found.chunk_id for found in kept}
        trail.drop(stage, reason, (found.chunk_id for found in trail.found if found.chunk_id not in stay))


def _scope(trail: Trail) -> Scope:
    return Scope(
        tenant=trail.query.tenant,
        principals=trail.query.principals,
        levels=trail.analysis.levels,
        filters=trail.query.filters,
    )


def _fused(trail: Trail) -> list[Ranked]:
    """Fuse all rankings once, and keep what each retriever said."""
    rankings = [*trail.dense, *trail.lexical]
    if trail.knobs.fusion is Fusion.RRF:
        hits = reciprocal_rank_fusion(rankings, k=trail.knobs.rrf_k)
    else:
        # Where one kind of retriever failed, the other counts alone.
        alpha = trail.analysis.alpha if trail.lexical and trail.dense else 0.5
        shares = ((alpha, trail.dense), (1 - alpha, trail.lexical))
        weights = [share / len(variants) for share, variants in shares for _ in variants]
        hits = weighted_fusion(rankings, weights=weights)
    dense = _best(trail.dense)
    lexical = _best(trail.lexical)
    owners = {hit.chunk_id: hit.root_id for ranking in rankings for hit in ranking}
    return [
        Ranked(hit.chunk_id, owners[hit.chunk_id], hit.score, dense.get(hit.chunk_id), lexical.get(hit.chunk_id))
        for hit in hits
    ]


def _best(rankings: Sequence[Sequence[Candidate]]) -> dict[ChunkId, float]:
    """Give each chunk the best score that any variant gave it."""
    best: dict[ChunkId, float] = {}
    for ranking in rankings:
        for hit in ranking:
            best[hit.chunk_id] = max(hit.score, best.get(hit.chunk_id, hit.score))
    return best


def _cosines(trail: Trail, head: Sequence[Found]) -> list[float | None] | None:
    """Score by the vectors that are there anyway; not possible where the question has none."""
    if not len(trail.vectors):
        return None
    question = trail.vectors[0]
    return [None if found.vector is None else float(found.vector @ question) for found in head]


def _pairs(trail: Trail, head: Sequence[Found]) -> list[RerankPair]:
    cosines = _cosines(trail, head) or [None] * len(head)
    most = max((found.lexical or 0.0 for found in head), default=0.0)
    # Reciprocal ranks sum up to some hundredths: rerankers are promised 0..1.
    best = head[0].fused if trail.knobs.fusion is Fusion.RRF else 1.0
    return [
        RerankPair(
            query=trail.variants[0],
            query_language=trail.analysis.language,
            heading=next((heading for heading in reversed(found.content.heading_path) if heading), ""),
            text=situated(found.content.context, found.content.text),
            language=found.content.language,
            fused=found.fused / best,
            lexical=(found.lexical or 0.0) / most if most > 0 else 0.0,
            cosine=cosine or 0.0,
        )
        for found, cosine in zip(head, cosines, strict=True)
    ]


def _diversified(trail: Trail, found: list[Found]) -> list[Found]:
    if not found:
        return []
    relevance = np.array([each.score for each in found])
    if trail.reranker in _PROBABILITIES:
        # Most are close to 0, where a small difference of probability is a large one of evidence.
        likely = np.clip(relevance, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        relevance = np.log(likely / (1 - likely))
    order = maximal_marginal_relevance(
        relevance,
        np.array([each.vector for each in found], dtype=np.float32),
        limit=trail.knobs.top_k,
        trade_off=trail.knobs.mmr_lambda,
    )
    return [found[place] for place in order]


def _score(trail: Trail) -> None:
    """Set the final scores, best first: reranked candidates before those that the reranker did not reach.

    Cosine as the last resort sets no order: it is part of the hybrid score already, and alone it ranks worse.
    """
    last_resort = trail.reranker == COSINE and trail.knobs.reranker is not RerankerChoice.COSINE
    reranked = [] if last_resort else [found.reranked for found in trail.found if found.reranked is not None]
    lowest = min(reranked, default=1.0)
    for found in trail.found:
        if found.reranked is not None and not last_resort:
            found.score = found.reranked
        else:
            # In the fused order, and at most as good as the worst that the reranker saw.
            found.score = lowest * (found.fused if lowest >= 0 else 2 - found.fused)
    trail.found.sort(key=lambda found: (found.reranked is None, -found.score, -found.fused, found.chunk_id))
