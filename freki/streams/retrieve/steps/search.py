"""Find candidates for several queries: search both retrievers, fuse, match, keep live chunks, load their rows."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from freki.operators.centre_queries import centre_queries
from freki.schemas import RootId
from freki.schemas.index import Candidate, Root, Watermark
from freki.schemas.names import record
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, SHARE, Alternatives, Attempts
from freki.streams.retrieve.candidates import LoadedCandidates
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery, ParsedQuery
from freki.streams.retrieve.query_log import QueryLog, timed
from freki.streams.retrieve.search_result import QueryVariant, SearchedVariant, SearchResult
from freki.streams.retrieve.steps.keep_live import LiveCandidates, keep_live
from freki.streams.retrieve.steps.load import load

Call = Callable[[], Awaitable[list[list[Candidate]]]]
Asked = Sequence[tuple[EmbeddedQuery, QueryVariant]]


@record
class Search:
    """Variants of a query to search, beside those that were searched before."""

    query: EmbeddedQuery
    variants: Sequence[QueryVariant]
    searched: Sequence[SearchedVariant] = ()
    roots: Mapping[RootId, Root] = field(default_factory=dict)
    """Documents that were looked up before."""
    bypass_cache: bool = False
    """Is the search repeated because documents changed? Then no ranking that was kept will do."""


class Searcher:
    """Makes one call of each search for all queries together."""

    def __init__(self, stores: Stores, attempts: Attempts, *, late_interaction: bool) -> None:
        self._stores = stores
        self._attempts = attempts
        self._late_interaction = late_interaction

    async def watermarks(self, queries: Sequence[ParsedQuery]) -> Sequence[Watermark]:
        """Return how far the index is."""
        with timed([query.log for query in queries], "freshness", lambda _: 1):
            return await self._attempts(queries, "freshness", self._stores.search.watermarks(), share=SHARE) or ()

    async def candidates(self, searches: Sequence[Search]) -> tuple[list[LoadedCandidates], bool]:
        """Return the candidates of each query; the flag is False if live revisions or rows could not be read."""
        queries = [search.query for search in searches]
        found, is_live = await self._find(searches)
        loaded, is_loaded = await load(self._stores.rows, self._attempts, queries, found)
        return loaded, is_live and is_loaded

    async def _find(self, searches: Sequence[Search]) -> tuple[list[LiveCandidates], bool]:
        """Search and keep live candidates, once more for queries whose documents changed in between."""
        found, is_live = await self._live(searches)
        left = (*LOOKING_UP, *FINISHING)
        moved = [
            place
            for place, each in enumerate(found)
            if is_live and each.has_moved and self._attempts.spare_s(searches[place].query, before=left) > 0
        ]
        if moved:
            again = [_all_variants(searches[place], found[place].search) for place in moved]
            second, is_live = await self._live(again)
            for place, each in zip(moved, second, strict=True):
                # What was found at first is live; a second look that fails says nothing of it.
                if is_live and each.search.is_answered:
                    found[place] = each
        return found, is_live

    async def _live(self, searches: Sequence[Search]) -> tuple[list[LiveCandidates], bool]:
        results = await self._search(searches)
        queries = [search.query for search in searches]
        return await keep_live(self._stores, self._attempts, queries, results, late_interaction=self._late_interaction)

    async def _search(self, searches: Sequence[Search]) -> list[SearchResult]:
        """Search the variants of all queries by both retrievers at once."""
        asked = [(search.query, variant) for search in searches for variant in search.variants]
        bypass_cache = any(search.bypass_cache for search in searches)
        # What one of them found is an answer: the other may not take all of its time.
        both = Alternatives()
        searching = (
            self._dense(asked, both, bypass_cache=bypass_cache),
            self._lexical(asked, both, bypass_cache=bypass_cache),
        )
        dense, lexical = await asyncio.gather(*searching)
        searched = iter(
            SearchedVariant(variant=variant, dense=dense.get(place), lexical=lexical.get(place))
            for place, (_, variant) in enumerate(asked)
        )
        return [
            SearchResult(variants=[*search.searched, *(next(searched) for _ in search.variants)], roots=search.roots)
            for search in searches
        ]

    async def _dense(self, asked: Asked, both: Alternatives, *, bypass_cache: bool) -> dict[int, list[Candidate]]:
        """Search by vectors; return rankings by place of the variant, none if the search failed."""
        places = [place for place, (_, variant) in enumerate(asked) if variant.vector is not None]
        vectors = np.array([asked[place][1].vector for place in places], dtype=np.float32)
        centres = [asked[place][0].centre for place in places]
        sought = centre_queries(vectors, centres)
        search = partial(self._stores.search.dense, sought.vectors, bypass_cache=bypass_cache)
        found = await self._rankings("search.dense", asked, places, search, both)
        for at, place in enumerate(places):
            if place in found and centres[at] is not None:
                found[place] = [replace(each, score=sought.score(at, each.score)) for each in found[place]]
        return found

    async def _lexical(self, asked: Asked, both: Alternatives, *, bypass_cache: bool) -> dict[int, list[Candidate]]:
        """Search by BM25; the query itself also without terms."""
        places = [place for place, (_, variant) in enumerate(asked) if variant.terms or variant.kind is None]
        search = partial(
            self._stores.search.lexical, [asked[place][1].terms for place in places], bypass_cache=bypass_cache
        )
        return await self._rankings("search.lexical", asked, places, search, both)

    async def _rankings(
        self,
        step: str,
        asked: Asked,
        places: Sequence[int],
        search: Callable[..., Awaitable[list[list[Candidate]]]],
        both: Alternatives,
    ) -> dict[int, list[Candidate]]:
        if not places:
            return {}
        depth = max(query.options.depth for query, _ in asked)
        queries = list({query.log: query for query in (asked[place][0] for place in places)}.values())
        variants: Counter[QueryLog] = Counter(asked[place][0].log for place in places)
        scopes = [asked[place][0].scope for place in places]
        with timed([query.log for query in queries], step, lambda at: variants[queries[at].log]):
            call = search(scopes, limit=depth, strong=self._stores.strong)
            rankings = await self._attempts(queries, step, call, alternatives=both) or ()
        if len(places) == len(rankings) == len(asked) and all(rankings):
            both.answered()
        return {
            place: ranking[: asked[place][0].options.depth] for place, ranking in zip(places, rankings, strict=False)
        }


def _all_variants(search: Search, before: SearchResult) -> Search:
    """Search all variants again."""
    variants = [each.variant for each in before.variants]
    return Search(query=search.query, variants=variants, roots=before.roots, bypass_cache=True)
