"""Answers batches of queries: as far as loading, each step takes all of them and makes one model or store call.

analyse → embed → search (dense and BM25 at once) → fuse what is live → load, then each by itself: rerank → diversify →
locate → augment → assemble. A step that fails or finds no time is left out and named in the result: there is always an
answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from freki.operators.analyse_text import query_terms
from freki.operators.identify import root_id
from freki.schemas import ContextQuery, ContextResult, NoticeKind, QueryId, TenantId, Timestamp
from freki.schemas.index import Watermark
from freki.streams.ports import AnalyseText, ChunkRows, ChunkSearch, Embedder, Reranker, Roots
from freki.streams.retrieval.attempts import RESERVE_S, Attempts
from freki.streams.retrieval.compose import Composer
from freki.streams.retrieval.knobs import Knobs
from freki.streams.retrieval.rerank import Reranking
from freki.streams.retrieval.search import Searcher
from freki.streams.retrieval.select import select
from freki.streams.retrieval.surround import Surroundings
from freki.streams.retrieval.trail import Trail
from freki.streams.retrieval.understand import Understanding

# How long to wait between looks at a document that must become fresher.
FLOOR_POLL_S = 0.02
# A document that is replaced again and again: after this many looks its hits are left out.
MOST_TRIES = 3


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
        self._understand = Understanding(defaults=defaults, analyse_text=analyse_text, clock_ns=clock_ns)
        self._roots = roots
        self._now = now
        self._clock_ns = clock_ns
        self._attempts = Attempts(failures=failures, now=now)
        self._searcher = Searcher(
            embedder=embedder, search=search, rows=rows, roots=roots, strong=strong, attempts=self._attempts
        )
        self._rerank = Reranking(rerankers, attempts=self._attempts)
        self._composer = Composer(count_tokens=embedder.count_tokens, generation=generation, strong=strong, now=now)
        self._surroundings = Surroundings(roots=roots, rows=rows, composer=self._composer, attempts=self._attempts)

    async def answer(
        self, asked: Sequence[tuple[ContextQuery, str]]
    ) -> AsyncGenerator[tuple[int, ContextResult, Trail], None]:
        """Answer valid queries, given with their trace ids; each result comes as soon as it is there.

        Before it stands its query's place, after it its trail. What all need is done for all at once; then each is
        finished by itself, the most urgent first, so that no answer waits for the reranking of all the others.
        """
        received_at = self._now()
        started = self._clock_ns()
        trails = [self._understand(query, trace_id, received_at) for query, trace_id in asked]
        for trail in trails:
            trail.note("analyse", started, self._clock_ns(), 1)
        for trail in trails:
            await self._wait_for_floor(trail)
        # The watermarks first: what is committed after them may be missing from the search.
        watermarks, _ = await asyncio.gather(self._searcher.watermarks(trails), self._searcher.embed(trails))
        await self._searcher.find(trails)
        await self._searcher.load(trails)
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
            select(trail)
            if not await self._surroundings.locate(trail) or self._attempts.remaining_s(trail) <= RESERVE_S:
                break
            await self._searcher.find([trail])
            await self._searcher.load([trail])
        await self._surroundings.augment(trail)
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

    async def _wait_for_floor(self, trail: Trail) -> None:
        """Wait until the index holds the versions that the query asks for, as long as its deadline allows."""
        floors = {root_id(trail.query.tenant, floor.document_id): floor for floor in trail.query.at_least}
        if not floors:
            return
        started = self._clock_ns()
        while floors:
            roots = await self._attempts([trail], "wait", self._roots.roots(list(floors)))
            if roots is None:
                break
            floors = {
                key: floor for key, floor in floors.items() if key not in roots or roots[key].version < floor.version
            }
            if not floors or self._attempts.remaining_s(trail) < RESERVE_S + FLOOR_POLL_S:
                break
            await asyncio.sleep(FLOOR_POLL_S)
        for floor in floors.values():
            trail.notice(
                "wait",
                NoticeKind.FRESHNESS,
                f"document {floor.document_id!r} is not at version {floor.version} yet: ask again, or allow more time",
            )
        trail.note("wait", started, self._clock_ns(), len(trail.query.at_least))
