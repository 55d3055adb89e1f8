"""Answers batches of queries: as far as loading, each step takes all of them and makes one model or store call.

analyse → embed, and type by examples → search (dense and BM25 at once) → fuse what is live → load → widen (search what
else the question may be called, fuse and load again), then each by itself: exact → rerank → diversify → locate →
expand → augment → assemble. A step that fails or finds no time is left out and named in the result: there is always an
answer.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from freki.operators.analyse_text import query_terms
from freki.operators.identify import root_id
from freki.operators.step_budget import OptionalStep, affordable
from freki.schemas import (
    ContextQuery,
    ContextResult,
    Notice,
    NoticeKind,
    QueryId,
    RequestKind,
    TenantId,
    Timestamp,
    may_read,
)
from freki.schemas.arrays import Floats
from freki.schemas.index import Watermark
from freki.schemas.query_options import QueryOptions
from freki.streams.observe.meters import Meters
from freki.streams.ports import AnalyseText, Cache, ChunkRows, ChunkSearch, Embedder, Reranker, Roots
from freki.streams.retrieve.budget.admit import Admission
from freki.streams.retrieve.budget.attempts import FINISHING, LEAVING, LOOKING_UP, Attempts
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.chunk_reader import ChunkReader
from freki.streams.retrieve.explainer import Explainer
from freki.streams.retrieve.profiles import ReaderProfile
from freki.streams.retrieve.query_state import QueryState
from freki.streams.retrieve.steps.compose import Composer
from freki.streams.retrieve.steps.exact import keep_exact
from freki.streams.retrieve.steps.expand import EXPAND, Expansion
from freki.streams.retrieve.steps.filtered_out import FilteredOutCounter
from freki.streams.retrieve.steps.judged import Judgements
from freki.streams.retrieve.steps.query_parser import QueryParser
from freki.streams.retrieve.steps.query_vectors import QueryVectors
from freki.streams.retrieve.steps.rerank import Reranking
from freki.streams.retrieve.steps.rewrite import Rewriter
from freki.streams.retrieve.steps.search import Searcher
from freki.streams.retrieve.steps.select import select
from freki.streams.retrieve.steps.surround import AUGMENT, Surroundings
from freki.streams.retrieve.steps.widen import Widener

# How long to wait between looks at a document that must become fresher.
FLOOR_POLL_S = 0.02
# A document that is replaced again and again: after this many looks its hits are left out.
MOST_TRIES = 3
# Of how many questions a step puts the whole section that answers them into the context: docs/queries.md.
WORTH = {AUGMENT: 0.15, EXPAND: 0.01}


class Retriever:
    """Finds context for questions.

    Failures in `failures` are those of the outside world: steps fail open on them. Those of them in `outages` tell that
    something is down: after some in a row, it is left alone for a while.
    """

    def __init__(  # noqa: PLR0913 - each is one thing from outside
        self,
        *,
        embedder: Embedder,
        vectors: Cache[Floats] | None = None,
        search: ChunkSearch,
        rows: ChunkRows,
        roots: Roots,
        rerankers: Sequence[Reranker],
        defaults: QueryOptions,
        generation: str,
        strong: bool,
        failures: tuple[type[Exception], ...],
        outages: tuple[type[Exception], ...] = (),
        now: Callable[[], Timestamp],
        clock_ns: Callable[[], int],
        analyse_text: AnalyseText = query_terms,
        rewriter: Rewriter | None = None,
        profiles: Mapping[str, ReaderProfile] | None = None,
        judgements: Judgements | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._judgements = judgements
        self._unrelated = embedder.unrelated
        self._embedder = embedder
        self._parse_query = QueryParser(
            defaults=defaults, profiles=profiles or {}, analyse_text=analyse_text, clock_ns=clock_ns
        )
        self._roots = roots
        self._now = now
        self._clock_ns = clock_ns
        self._estimates = Estimates(lambda: now() / 1000)
        self._in_flight = InFlight(now)
        self._attempts = Attempts(
            failures=failures,
            outages=outages,
            now=now,
            estimates=self._estimates,
            in_flight=self._in_flight,
            meters=meters or Meters(),
        )
        self._searcher = Searcher(
            embed=QueryVectors(embedder, vectors),
            search=search,
            rows=rows,
            roots=roots,
            strong=strong,
            attempts=self._attempts,
        )
        self._read = ChunkReader(search=search, rows=rows, roots=roots, attempts=self._attempts)
        self._admission = Admission(
            deadline_ms=defaults.deadline_ms, estimates=self._estimates, in_flight=self._in_flight, now=now
        )
        self._widen = Widener(
            searcher=self._searcher, analyse_text=analyse_text, attempts=self._attempts, rewriter=rewriter
        )
        self._rerank = Reranking(rerankers, attempts=self._attempts, in_flight=self._in_flight)
        self._explain = Explainer(search, roots, strong=strong, attempts=self._attempts)
        self._composer = Composer(count_tokens=embedder.count_tokens, generation=generation, strong=strong, now=now)
        self._expansion = Expansion(search=search, roots=roots, strong=strong, attempts=self._attempts)
        self._filtered_out = FilteredOutCounter(search=search, roots=roots, strong=strong, attempts=self._attempts)
        self._surroundings = Surroundings(roots=roots, rows=rows, composer=self._composer, attempts=self._attempts)

    async def answer(
        self, asked: Sequence[tuple[ContextQuery, str]]
    ) -> AsyncGenerator[tuple[int, ContextResult, QueryState], None]:
        """Answer valid queries, given with their trace ids; each result comes as soon as it is there.

        Before it stands its query's place, after it its state. What all need is done for all at once; then each is
        finished by itself, the most urgent first, so that no answer waits for the reranking of all the others. One
        whose time is over before leaves with nothing rather than late.
        """
        states = [self.begin(query, trace_id) for query, trace_id in asked]
        self._in_flight.begin(states)
        waiting = dict(enumerate(states))
        looking_up = asyncio.create_task(self._look_up(states))
        tasks: list[asyncio.Task[Any]] = [looking_up]
        try:
            async for place in self._overdue(waiting, looking_up):
                late = waiting.pop(place)
                result = self._composer.compose(late, ())
                self._in_flight.end([late])
                yield place, result, late
            if not waiting:
                return
            watermarks = await looking_up
            wanting = {place: state for place, state in waiting.items() if self._widen.wants(state)}
            widening = asyncio.create_task(self._widen(list(wanting.values())))
            urgent = sorted(waiting.items(), key=lambda each: self._attempts.remaining_s(each[1]))
            finishing = [
                asyncio.create_task(
                    self._finish(place, state, watermarks, after=widening if place in wanting else None)
                )
                for place, state in urgent
            ]
            tasks += [widening, *finishing]
            for finished in asyncio.as_completed(finishing):
                yield await finished
        finally:
            self._in_flight.end(states)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, states: list[QueryState]) -> Sequence[Watermark]:
        """Do what all queries need at once."""
        for state in states:
            await self._wait_for_floor(state)
        with self._admission.counted(len(states)):
            # The watermarks first: what is committed after them may be missing from the search.
            watermarks, _ = await asyncio.gather(self._searcher.watermarks(states), self._searcher.embed(states))
            self._parse_query.by_examples(states)
            self._judge(states)
            await self._find(states)
        return watermarks

    def _judge(self, states: Sequence[QueryState]) -> None:
        """Look up what users of the tenant said on questions like these."""
        for state in states:
            if self._judgements is not None and state.options.feedback and len(state.vectors):
                state.boosts = self._judgements.boosts(state.query.tenant, state.vectors[0], now=self._now())

    async def _find(self, states: list[QueryState]) -> None:
        """Search for candidates and load them, or read the chunks that are named."""
        named = [state for state in states if state.query.kind is RequestKind.CHUNK_READ]
        if named:
            await self._read(named)
        searched = [state for state in states if state.query.kind is not RequestKind.CHUNK_READ]
        if searched:
            await self._searcher.find(searched)
            await self._searcher.load(searched)

    async def _overdue(self, waiting: Mapping[int, QueryState], work: asyncio.Future[Any]) -> AsyncIterator[int]:
        """Name the places of those that have to leave before the work is done, as long as any are waiting."""
        while waiting:
            spare_s, place = min(
                (self._attempts.spare_s(state, before=LEAVING), place) for place, state in waiting.items()
            )
            done, _ = await asyncio.wait({work}, timeout=max(0.0, spare_s))
            if done:
                return
            waiting[place].notice("search", NoticeKind.DEGRADED, "searching failed: no answer within the deadline")
            # Where candidates stand has not been read yet.
            waiting[place].keep_only("search", "the deadline came first", ())
            yield place

    def begin(self, query: ContextQuery, trace_id: str) -> QueryState:
        """Read from a question what it wants."""
        started = self._clock_ns()
        state = self._parse_query(query, trace_id, self._now())
        state.note("analyse", started, self._clock_ns(), 1)
        return state

    async def _finish(
        self, place: int, state: QueryState, watermarks: Sequence[Watermark], after: asyncio.Task[None] | None
    ) -> tuple[int, ContextResult, QueryState]:
        """Choose the hits among what was found; once more where a document was replaced while it was being read.

        after: what else is being done for this query and others.
        """
        if after is not None:
            await asyncio.shield(after)
        state.extras = self._affordable(state)
        again = (*LOOKING_UP, *FINISHING)
        for tries in range(1, MOST_TRIES + 1):
            if state.query.kind is not RequestKind.CHUNK_READ:
                keep_exact(state)
                await self._rerank(state)
                select(state, unrelated=self._unrelated)
            is_lost = await self._surroundings.locate(state)
            if not is_lost or tries == MOST_TRIES or self._attempts.spare_s(state, before=again) <= 0:
                break
            await self._find([state])
        await self._expansion.expand(state)
        await self._filtered_out.look_beyond(state)
        await self._surroundings.augment(state)
        result = self._composer.compose(state, watermarks)
        self._in_flight.end([state])
        if state.query.explain or state.query.expect:
            result = replace(result, explanation=await self._explain(state))
        for run in state.stages:
            self._estimates.learn(run.stage, (run.ended_ns - run.started_ns) / 1e9)
        return place, result, state

    def _affordable(self, state: QueryState) -> frozenset[str]:
        """Choose what improves the answer most for the time that it takes; reranking has the rest."""
        steps = [
            OptionalStep(name, worth, self._estimates.careful_s(name))
            for name, worth in WORTH.items()
            if name != EXPAND or state.options.expand_documents
        ]
        return affordable(steps, budget_s=self._attempts.spare_s(state, before=FINISHING))

    async def warm_up(self) -> None:
        """Learn the types of questions; ask something: else the first waits for word lists, models and connections."""
        await self._parse_query.learn(self._embedder)
        probe = ContextQuery(
            query_id=QueryId("warm-up"), tenant=TenantId("warm-up"), text="Was ist das?", asked_at=self._now()
        )
        async for _ in self.answer([(probe, "")]):
            pass

    def learn_sending(self, seconds: float) -> None:
        """Take into account how long a result took to leave."""
        self._estimates.learn("send", seconds)

    def refusals(self, queries: Sequence[ContextQuery]) -> list[str | None]:
        """Tell of each query, in the order of arrival, why there is no time left to answer it; None where there is."""
        return self._admission.refusals(queries)

    def refusal(self, query: ContextQuery, notice: Notice, *, trace_id: str) -> ContextResult:
        """Answer a query that breaks a rule, or that there is no time for."""
        return self._composer.refuse(query, notice, trace_id=trace_id)

    async def _wait_for_floor(self, state: QueryState) -> None:
        """Wait until the index holds the versions that the query asks for, as long as its deadline allows."""
        floors = {root_id(state.query.tenant, floor.document_id): floor for floor in state.query.at_least}
        if not floors:
            return
        started = self._clock_ns()
        self._in_flight.end([state])
        while floors:
            roots = await self._attempts([state], "wait", self._roots.roots(list(floors)))
            if roots is None:
                break
            # What the asker may not read is waited for like what does not exist.
            floors = {
                key: floor
                for key, floor in floors.items()
                if key not in roots
                or not may_read(state.query.principals, roots[key].principals)
                or roots[key].version < floor.version
            }
            if not floors or self._attempts.spare_s(state, before=(*LOOKING_UP, *FINISHING)) < FLOOR_POLL_S:
                break
            await asyncio.sleep(FLOOR_POLL_S)
        self._in_flight.begin([state])
        for floor in floors.values():
            state.notice(
                "wait",
                NoticeKind.FRESHNESS,
                f"document {floor.document_id!r} is not at version {floor.version} yet: ask again, or allow more time",
            )
        state.note("wait", started, self._clock_ns(), len(state.query.at_least))
