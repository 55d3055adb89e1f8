"""Search variants of a query if the first search is not enough."""

import asyncio
import heapq
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import replace

from freki.operators.weak_ranking import PLACE, looks_weak
from freki.schemas import NoticeKind, Widening, WidenWhen
from freki.schemas.arrays import Floats
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieve.candidates import LoadedCandidates, QueryCandidates
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.search_result import QueryVariant
from freki.streams.retrieve.steps.query_embeddings import EmbedQueries
from freki.streams.retrieve.steps.rewrite import STEP, Rewriter, is_written
from freki.streams.retrieve.steps.search import Search, Searcher
from freki.streams.retrieve.steps.variants import VariantMaker, of_kind, share_weight


class Widener:
    """Makes variants of queries, searches all of them in one call, and fuses once for each query."""

    def __init__(
        self,
        *,
        searcher: Searcher,
        embed: EmbedQueries,
        variants: VariantMaker,
        rewriter: Rewriter | None,
        attempts: Attempts,
    ) -> None:
        self._searcher = searcher
        self._embed = embed
        self._variants = variants
        self._rewriter = rewriter
        self._attempts = attempts

    def wants(self, given: QueryCandidates) -> bool:
        """Return whether further searches may be wanted, and whether there is time for them."""
        kinds = kinds_of(given)
        if not kinds:
            return False
        # Further searches take about as long as the first ones.
        if self._attempts.spare_s(given.query, before=(*LOOKING_UP, *FINISHING)) > 0:
            return True
        if not any(map(is_written, kinds)) and not self.by_rule(given):
            # The rules are quick, and most questions have no word to correct: nothing was missed.
            return False
        message = f"the deadline of {given.query.options.deadline_ms} ms left no time for further searches"
        given.query.log.notice(STEP, NoticeKind.SKIPPED, message)
        return False

    def together(self, given: Sequence[QueryCandidates]) -> list[list[int]]:
        """Return the places of queries that are widened in one call: those that wait for no language model.

        One that does is widened by itself: neither do others wait for its model, nor has it only the time of others.
        """
        waiting = [place for place, each in enumerate(given) if any(map(is_written, kinds_of(each)))]
        others = [place for place in range(len(given)) if place not in waiting]
        return [*([others] if others else []), *([place] for place in waiting)]

    async def __call__(self, given: Sequence[QueryCandidates]) -> list[LoadedCandidates]:
        """Return the candidates of all variants; those of the first search where there are none or it fails."""
        first = [each.candidates for each in given]
        variants = await self._all_variants(given)
        places = [place for place, own in enumerate(variants) if own]
        if not places:
            return first
        embedded = await self._embedded([given[place].query for place in places], [variants[place] for place in places])
        searches = [
            Search(
                query=given[place].query,
                variants=own,
                searched=given[place].candidates.search.variants,
                roots=given[place].candidates.search.roots,
            )
            for place, own in zip(places, embedded, strict=True)
        ]
        candidates, is_complete = await self._searcher.candidates(searches)
        if not is_complete:
            return first
        by_place = dict(zip(places, candidates, strict=True))
        return [by_place.get(place, each) for place, each in enumerate(first)]

    async def in_time(
        self, given: QueryCandidates, widening: Awaitable[Sequence[LoadedCandidates]], place: int
    ) -> LoadedCandidates:
        """Return the candidates at a place of a call for several queries.

        Each waits as long as its own deadline allows, and has those of its first search after that.
        """
        try:
            async with asyncio.timeout(self._attempts.spare_s(given.query, before=FINISHING)):
                return (await asyncio.shield(widening))[place]
        except TimeoutError:
            given.query.log.notice(STEP, NoticeKind.DEGRADED, "further searches were given up: they took too long")
            return given.candidates

    async def _all_variants(self, given: Sequence[QueryCandidates]) -> list[list[QueryVariant]]:
        """Make the variants of each query, with their weights."""
        made: list[list[QueryVariant]] = [[] for _ in given]
        with timed([each.query.log for each in given], STEP, lambda place: len(made[place])):
            by_rule = [self.by_rule(each) for each in given]
            written = await self._written(given)
            made[:] = [
                share_weight(of_kind(each.query, [*ruled, *own]))
                for each, ruled, own in zip(given, by_rule, written, strict=True)
            ]
        return made

    def by_rule(self, given: QueryCandidates) -> list[QueryVariant]:
        """Make the variants that need no language model."""
        return [
            variant
            for kind in kinds_of(given)
            if not is_written(kind)
            for variant in self._variants.by_rule(given.query, given.candidates, kind)
        ]

    async def _written(self, given: Sequence[QueryCandidates]) -> list[list[QueryVariant]]:
        """Make the variants that a language model writes."""
        made: list[list[QueryVariant]] = [[] for _ in given]
        asked = [(place, kind) for place, each in enumerate(given) for kind in kinds_of(each) if is_written(kind)]
        if self._rewriter is None:
            for place, kind in asked:
                message = f"no {kind.lower()}: set FREKI_LLM__URL and FREKI_LLM__MODEL"
                given[place].query.log.notice(STEP, NoticeKind.SKIPPED, message)
            return made
        texts = await self._rewriter([(given[place].query, kind) for place, kind in asked], self._attempts)
        for (place, kind), own in zip(asked, texts, strict=True):
            made[place] += self._variants.of_texts(given[place].query, kind, own)
        return made

    async def _embedded(
        self, queries: Sequence[EmbeddedQuery], variants: Sequence[Sequence[QueryVariant]]
    ) -> list[list[QueryVariant]]:
        """Add vectors to the variants that are to be searched by one."""
        lacking = [[each.text for each in own if each.embeds and each.vector is None] for own in variants]
        embedded = await self._embed(queries, lacking)
        return [
            _with_vectors(own, (each.vector for each in made)) for own, made in zip(variants, embedded, strict=True)
        ]


def _with_vectors(variants: Sequence[QueryVariant], vectors: Iterator[Floats]) -> list[QueryVariant]:
    return [
        replace(each, vector=next(vectors, None)) if each.embeds and each.vector is None else each for each in variants
    ]


def kinds_of(given: QueryCandidates) -> list[Widening]:
    """Return the kinds of variants that the first search calls for."""
    options = given.query.options
    kinds = list(dict.fromkeys(options.widen))
    # The order itself may have been moved by judgements.
    scores = heapq.nlargest(PLACE, (each.fused for each in given.candidates.search.ranked))
    if options.widen_when is WidenWhen.ALWAYS or looks_weak(scores):
        return kinds
    # An unknown word calls for corrections by itself, and without one there is no such variant.
    return [kind for kind in kinds if kind is Widening.SPELLING]
