"""Answer batches of queries.

For the whole batch, with one call of a model or the store per step: parse → wait → embed, type by examples → search
(dense and BM25 at once), fuse, match (late interaction), keep live, load → widen (search variants, then the same).
For each query by itself: exact → rerank → select → locate → expand → look beyond → augment → recheck
(roots that were read some time ago; objections) → compose → explain.
A step that fails or finds no time is left out, and a notice in the result says so: there is always an answer.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from freki.operators.detect_language import load_languages
from freki.operators.rephrase import load_synonyms
from freki.operators.step_budget import OptionalStep, affordable
from freki.schemas import ChunkKind, ContextQuery, ContextResult, Notice, NoticeKind, QueryId, StageTime, TenantId
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import QueryEmbedding
from freki.schemas.index import Watermark
from freki.schemas.names import record
from freki.streams.observe.meters import Meters
from freki.streams.ports import Embedder, EmbedTexts
from freki.streams.retrieve.budget.admit import AdmissionControl
from freki.streams.retrieve.budget.attempts import FINISHING, LEAVING, LOOKING_UP, RECHECK, SEARCHING, Attempts
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.candidates import LoadedCandidates, LocatedHits, QueryCandidates, Retrieval, nothing_found
from freki.streams.retrieve.chunk_reader import ChunkReader, as_named
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels, Stores
from freki.streams.retrieve.explainer import Explainer
from freki.streams.retrieve.parsed_query import EmbeddedQuery, ParsedQuery
from freki.streams.retrieve.search_result import variant_of
from freki.streams.retrieve.steps.compose import NO_ROOM, Composer
from freki.streams.retrieve.steps.compose import STEP as COMPOSE
from freki.streams.retrieve.steps.exact import STEP as EXACT
from freki.streams.retrieve.steps.exact import apply_exact
from freki.streams.retrieve.steps.expand import EXPAND, Expansion
from freki.streams.retrieve.steps.filtered_out import LOOK_BEYOND, FilteredOutCounter
from freki.streams.retrieve.steps.judged import Judgements
from freki.streams.retrieve.steps.live import may_send
from freki.streams.retrieve.steps.locate import STEP as LOCATE
from freki.streams.retrieve.steps.locate import locate, still_allowed, still_standing
from freki.streams.retrieve.steps.query_embeddings import EmbedQueries, QueryEmbeddings
from freki.streams.retrieve.steps.query_parser import QueryParser
from freki.streams.retrieve.steps.rerank import STEP as RERANK
from freki.streams.retrieve.steps.rerank import Reranking
from freki.streams.retrieve.steps.search import Search, Searcher
from freki.streams.retrieve.steps.select import THRESHOLD, select
from freki.streams.retrieve.steps.surround import AUGMENT, Surround
from freki.streams.retrieve.steps.variants import VariantMaker
from freki.streams.retrieve.steps.wait import wait_for_versions
from freki.streams.retrieve.steps.widen import Widener

MAX_TRIES = 3
"""Attempts to locate hits whose documents are replaced meanwhile; after the last one lost hits are left out."""
_REPEATED = (EXACT, RERANK, THRESHOLD, LOCATE, EXPAND, LOOK_BEYOND, AUGMENT, RECHECK)
"""Steps that run again with each attempt: only what the last one misses is told."""
CANDIDATES_DIVISOR = 4
"""Divisor of the number of candidates for a query without time for all of them."""
WORTH = {AUGMENT: 0.15, EXPAND: 0.01}
"""Share of queries for which a step adds the whole section with the answer to the context: docs/queries.md."""

Answered = tuple[int, ContextResult, Retrieval]
"""Place of a query in its batch, its result, and all that was retrieved for it."""
OnStep = Callable[[QueryId, StageTime], None]
"""Hears of each step of a query as soon as it has ended."""


@record
class _ComposedAnswer:
    """An answer that is ready to be sent."""

    answered: Answered
    retrieval: Retrieval
    """The retrieval before the result was composed."""
    notices: slice
    """Notices in the log of the query that composing added."""
    checked_ns: int
    """Time at which its documents were last checked, by the clock of the query."""


class Retriever:
    """Finds context for queries."""

    def __init__(
        self,
        models: RetrievalModels,
        stores: Stores,
        defaults: QueryDefaults,
        clocks: Clocks,
        *,
        judgements: Judgements | None = None,
        meters: Meters | None = None,
    ) -> None:
        embedder, now = models.embedder, clocks.now
        self._embedder, self._stores, self._now, self._judgements = embedder, stores, now, judgements

        def clock_s() -> float:
            return clocks.ns() / 1e9

        self._estimates = Estimates(clock_s)
        self._in_flight = InFlight(now)
        self._admission = AdmissionControl(
            deadline_ms=defaults.options.deadline_ms,
            estimates=self._estimates,
            in_flight=self._in_flight,
            now=now,
            clock_s=clock_s,
        )
        attempts = Attempts(
            now=now,
            clock_s=clock_s,
            estimates=self._estimates,
            in_flight=self._in_flight,
            meters=meters or Meters(),
        )
        self._attempts = attempts
        self._parse = QueryParser(
            defaults=defaults.options,
            profiles=defaults.profiles,
            analyse_text=defaults.analyse_text,
            clock_ns=clocks.ns,
            left_out=defaults.left_out,
        )
        self._embed_examples = models.embed_examples or _embedding(embedder)
        self._has_one_embedder = embedder.of(ChunkKind.PROSE) is embedder
        self._embed = EmbedQueries(QueryEmbeddings(embedder, models.embeddings), attempts)
        self._searcher = Searcher(stores, attempts, late_interaction=models.late_interaction)
        self._read = ChunkReader(stores, attempts)
        self._widen = Widener(
            searcher=self._searcher,
            embed=self._embed,
            variants=VariantMaker(defaults.analyse_text, defaults.thesaurus),
            rewriter=models.rewriter,
            attempts=attempts,
        )
        self._rerank = Reranking(models.rerankers, attempts=attempts, in_flight=self._in_flight)
        self._expand = Expansion(stores, attempts)
        self._count_filtered_out = FilteredOutCounter(stores, attempts)
        self._surround = Surround(stores.rows, attempts)
        self._composer = Composer(
            count_tokens=embedder.count_tokens, generation=stores.generation, strong=stores.strong, now=now
        )
        self._explain = Explainer(stores, attempts)

    def close(self) -> None:
        """End, once nothing is answered."""
        self._attempts.close()

    def take_over(self, defaults: QueryDefaults) -> None:
        """Answer queries that are parsed from now on by other defaults of options, and other profiles."""
        self._parse.take_over(defaults.options, defaults.profiles)
        self._admission.deadline_ms = defaults.options.deadline_ms

    def answer(
        self, asked: Sequence[tuple[ContextQuery, str]], *, on_step: OnStep | None = None
    ) -> AsyncGenerator[Answered, None]:
        """Answer valid queries, given with their trace ids, as `answer_parsed` does."""
        return self.answer_parsed([self.parse(query, trace_id) for query, trace_id in asked], on_step=on_step)

    async def answer_parsed(
        self, parsed: Sequence[ParsedQuery], *, on_step: OnStep | None = None
    ) -> AsyncGenerator[Answered, None]:
        """Answer queries; yield each answer as soon as it is there.

        The steps up to widening run for the whole batch; then each query is finished by itself, the most urgent first,
        so that no answer waits for the reranking of all others. A query whose deadline comes before is answered without
        hits rather than late.
        """
        if on_step is not None:
            for each in parsed:
                each.log.listen(partial(on_step, each.query.query_id))
        progress = {place: nothing_found(EmbeddedQuery.of(query, None, {})) for place, query in enumerate(parsed)}
        waiting = dict(enumerate(parsed))
        self._in_flight.begin(parsed)
        looking_up = asyncio.create_task(self._look_up(parsed, progress))
        tasks: list[asyncio.Task[Any]] = [looking_up]
        try:
            async for place in self._overdue(waiting, looking_up):
                late, _ = self._composer.compose(progress[place], ())
                self._in_flight.end([waiting.pop(place)])
                yield place, late, progress[place]
            if not waiting:
                return
            watermarks, found = await looking_up
            widened = self._widening([place for place in waiting if self._widen.wants(found[place])], found, tasks)
            urgent = sorted(waiting, key=lambda place: self._attempts.remaining_s(found[place].query))
            finishing = [
                asyncio.create_task(
                    self._finish(
                        place,
                        found[place],
                        watermarks,
                        widened=widened.get(place),
                    )
                )
                for place in urgent
            ]
            tasks += finishing
            for finished in asyncio.as_completed(finishing):
                yield await self._as_of_now(await finished, watermarks)
        finally:
            self._in_flight.end(parsed)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def parse(self, query: ContextQuery, trace_id: str) -> ParsedQuery:
        """Parse a query."""
        return self._parse(query, trace_id, self._now())

    def spare_s(self, queries: Sequence[ParsedQuery]) -> float:
        """Return the seconds until the first of these queries must be answered."""
        return min(self._attempts.spare_s(query, before=LEAVING) for query in queries)

    async def warm_up(self) -> None:
        """Learn the types of queries, and ask once, so that no query waits for files, models and connections."""
        loading = (asyncio.to_thread(load_synonyms), asyncio.to_thread(load_languages))
        await asyncio.gather(*loading, self._parse.learn(self._embed_examples))
        probe = ContextQuery(
            query_id=QueryId("warm-up"), tenant=TenantId("warm-up"), text="Was ist das?", asked_at=self._now()
        )
        async for _ in self.answer([(probe, "")]):
            pass

    def learn_sending(self, seconds: float) -> None:
        """Learn how long a result took to be sent."""
        self._estimates.learn("send", seconds)

    def refusals(self, queries: Sequence[ContextQuery]) -> list[str | None]:
        """Return for each query, in the order of arrival, why there is no time to answer it, or None."""
        return self._admission.refusals(queries)

    def refusal(self, query: ContextQuery, notice: Notice, *, trace_id: str) -> ContextResult:
        """Return the result of a query that breaks a rule, that failed, or that there is no time for."""
        return self._composer.refuse(query, notice, trace_id=trace_id)

    async def _look_up(
        self, parsed: Sequence[ParsedQuery], progress: dict[int, Retrieval]
    ) -> tuple[Sequence[Watermark], list[QueryCandidates]]:
        """Run the steps of the whole batch; keep in `progress` what late answers can tell."""
        for query in parsed:
            await wait_for_versions(self._stores.roots, self._attempts, self._in_flight, query)
        with self._admission.counted(len(parsed)):
            # Watermarks first: commits after them may be missing from the search.
            texts = [[query.text] if query.is_embedded else [] for query in parsed]
            watermarks, embeddings = await asyncio.gather(self._searcher.watermarks(parsed), self._embed(parsed, texts))
            queries = [
                self._with_fewer_candidates(self._embedded(query, next(iter(own), None)))
                for query, own in zip(parsed, embeddings, strict=True)
            ]
            progress.update((place, nothing_found(query)) for place, query in enumerate(queries))
            found = await self._candidates([Search(query=query, variants=[variant_of(query)]) for query in queries])
        return watermarks, [
            QueryCandidates(query=query, candidates=candidates)
            for query, candidates in zip(queries, found, strict=True)
        ]

    def _embedded(self, parsed: ParsedQuery, embedding: QueryEmbedding | None) -> EmbeddedQuery:
        """Type a query by examples, and look up the judgements on similar queries."""
        vector = None if embedding is None else embedding.vector
        typed = self._parse.as_of_now(self._parse.by_examples(parsed, vector))
        if typed.query.feedback and self._judgements is None:
            typed.log.notice("feedback", NoticeKind.SKIPPED, "judgements are not read: set FREKI_FEEDBACK__READ=true")
        boosts: Mapping[str, float] = {}
        if self._judgements is not None and typed.options.feedback and vector is not None:
            boosts = self._judgements.boosts(typed.query.tenant, vector, now=self._now())
        # Of several embedders each has a centre of its own.
        centre = self._parse.centre(typed) if self._has_one_embedder else None
        return replace(EmbeddedQuery.of(typed, embedding, boosts), centre=centre)

    def _with_fewer_candidates(self, query: EmbeddedQuery) -> EmbeddedQuery:
        """Search less deep where time is short, which costs the least quality of all savings (docs/tuning.md)."""
        if query.is_read or query.options.candidates is not None:
            return query
        usual = query.options.depth
        fewer = max(usual // CANDIDATES_DIVISOR, query.wanted)
        if fewer >= usual or self._attempts.spare_s(query, before=(*SEARCHING, AUGMENT, *FINISHING)) > 0:
            return query
        query.log.notice("search", NoticeKind.SKIPPED, f"{fewer} instead of {usual} candidates, for lack of time")
        return replace(query, options=replace(query.options, candidates=fewer))

    async def _candidates(self, searches: Sequence[Search]) -> list[LoadedCandidates]:
        """Search for candidates, or read the chunks that queries name."""
        named = [place for place, search in enumerate(searches) if search.query.is_read]
        searched = [place for place, search in enumerate(searches) if not search.query.is_read]
        found: dict[int, LoadedCandidates] = {}
        if named:
            read = await self._read([searches[place].query for place in named])
            found |= dict(zip(named, read, strict=True))
        if searched:
            candidates, _ = await self._searcher.candidates([searches[place] for place in searched])
            found |= dict(zip(searched, candidates, strict=True))
        return [found[place] for place in range(len(searches))]

    async def _overdue(self, waiting: Mapping[int, ParsedQuery], work: asyncio.Future[Any]) -> AsyncIterator[int]:
        """Yield the places of queries that must be answered before the work is done."""
        while waiting:
            spare_s, place = min(
                (self._attempts.spare_s(query, before=LEAVING), place) for place, query in waiting.items()
            )
            done, _ = await asyncio.wait({work}, timeout=max(0.0, spare_s))
            if done:
                return
            message = "searching failed: no answer within the deadline"
            waiting[place].log.notice("search", NoticeKind.DEGRADED, message)
            yield place

    async def _finish(
        self,
        place: int,
        found: QueryCandidates,
        watermarks: Sequence[Watermark],
        *,
        widened: Callable[[], Awaitable[LoadedCandidates]] | None,
    ) -> _ComposedAnswer:
        """Run the steps of one query, with the candidates of further searches if there are any."""
        query = found.query
        # What searching took is also how long the last look at roots may take.
        searched = self._learn(query)
        candidates = found.candidates if widened is None else await widened()
        retrieval = await self._retrieval(query, candidates)
        finished = await self._compose(place, retrieval, watermarks)
        self._learn(query, after=searched)
        return finished

    async def _compose(self, place: int, retrieval: Retrieval, watermarks: Sequence[Watermark]) -> _ComposedAnswer:
        """Compose the result of a retrieval whose hits stand, with its explanation where one is asked for."""
        query = retrieval.query
        log, checked_ns = query.log, query.log.clock_ns()
        while True:
            before = len(log.notices)
            result, omitted = self._composer.compose(retrieval, watermarks)
            history = retrieval.hits.history.dropping(COMPOSE, NO_ROOM, omitted)
            composed = replace(retrieval, hits=replace(retrieval.hits, history=history))
            notices = slice(before, len(log.notices))
            self._in_flight.end([query])
            if not query.query.explain and not query.query.expect:
                break
            explanation = await self._explain(composed)
            # What was expected may have been looked up for seconds.
            standing = await self._standing(retrieval)
            checked_ns = log.clock_ns()
            if standing is retrieval:
                result = replace(result, explanation=explanation, stages=log.times())
                break
            # Notices of the composed result go with it; those of looking up and of the last look at documents stay.
            del log.notices[notices]
            retrieval = standing
        return _ComposedAnswer(
            answered=(place, result, composed), retrieval=retrieval, notices=notices, checked_ns=checked_ns
        )

    async def _as_of_now(self, finished: _ComposedAnswer, watermarks: Sequence[Watermark]) -> Answered:
        """Return an answer, composed again where a document went while others were sent, or the process stood still."""
        log = finished.retrieval.query.log
        if may_send(finished.checked_ns, now_ns=log.clock_ns()):
            return finished.answered
        standing = await self._standing(finished.retrieval)
        if standing is finished.retrieval:
            return finished.answered
        del log.notices[finished.notices]
        return (await self._compose(finished.answered[0], standing, watermarks)).answered

    def _learn(self, query: EmbeddedQuery, *, after: int = 0) -> int:
        """Learn how long the steps of a query took, after the first ones; return how many there are by now."""
        for run in query.log.runs[after:]:
            self._estimates.learn(run.step, (run.ended_ns - run.started_ns) / 1e9)
        return len(query.log.runs)

    async def _retrieval(self, query: EmbeddedQuery, candidates: LoadedCandidates) -> Retrieval:
        """Choose hits and read what is shown around them; search again if documents were replaced meanwhile."""
        tries = 1
        while True:
            extras = self._affordable(query)
            if query.is_read:
                selection = as_named(candidates)
            else:
                ranked = await self._rerank(query, apply_exact(query, candidates), extras)
                selection = select(query, ranked, unrelated=self._embedder.unrelated)
            hits = await locate(self._stores, self._attempts, query, selection)
            retrieval = await self._surrounded(query, hits, extras)
            again = (*LOOKING_UP, *FINISHING)
            if not retrieval.hits.is_lost or tries == MAX_TRIES or self._attempts.spare_s(query, before=again) <= 0:
                return retrieval
            query = retrieval.query
            for step in _REPEATED:
                query.log.retract(step)
            variants = [each.variant for each in candidates.search.variants]
            search = Search(query=query, variants=variants, roots=candidates.search.roots, bypass_cache=True)
            (candidates,) = await self._candidates([search])
            tries += 1

    async def _surrounded(self, query: EmbeddedQuery, hits: LocatedHits, extras: frozenset[str]) -> Retrieval:
        """Read what is shown around hits, then leave out those whose documents do not stand any more."""
        further = await self._expand(query, hits, extras)
        excluded = await self._count_filtered_out(query, hits)
        surroundings = await self._surround(query, hits, further, extras)
        # Last of all: what is read before may take any time.
        return await self._standing(
            Retrieval(query=query, hits=hits, further=further, surroundings=surroundings, excluded=excluded)
        )

    async def _standing(self, retrieval: Retrieval) -> Retrieval:
        """Leave out hits that do not stand any more, or that objections leave out by now, with their further chunks.

        Returns the same if all stay.
        """
        hits = await still_standing(self._stores, self._attempts, retrieval.query, retrieval.hits)
        query = self._parse.as_of_now(retrieval.query)
        hits = still_allowed(query, hits)
        if hits is retrieval.hits:
            return retrieval
        shown = {each.root.root_id for each in hits.found}
        further = [each for each in retrieval.further if each.root.root_id in shown]
        return replace(retrieval, query=query, hits=hits, further=further)

    def _widening(
        self, wanting: Sequence[int], found: Sequence[QueryCandidates], tasks: list[asyncio.Task[Any]]
    ) -> Mapping[int, Callable[[], Awaitable[LoadedCandidates]]]:
        """Begin the further searches of queries; return how to wait for those of each."""
        widened: dict[int, Callable[[], Awaitable[LoadedCandidates]]] = {}
        for group in self._widen.together([found[place] for place in wanting]):
            places = [wanting[at] for at in group]
            task = asyncio.create_task(self._widen([found[place] for place in places]))
            tasks.append(task)
            widened |= {place: partial(self._widen.in_time, found[place], task, at) for at, place in enumerate(places)}
        return widened

    def _affordable(self, query: EmbeddedQuery) -> frozenset[str]:
        """Choose the steps that improve the answer most for the time they take; reranking has the rest."""
        steps = [
            OptionalStep(name, worth, self._estimates.careful_s(name))
            for name, worth in WORTH.items()
            if name != EXPAND or query.options.expand_documents
        ]
        return affordable(steps, budget_s=self._attempts.spare_s(query, before=FINISHING))


def _embedding(embedder: Embedder) -> EmbedTexts:
    async def embed(texts: Sequence[str]) -> Floats:
        return (await embedder.embed_queries(texts)).vectors

    return embed
