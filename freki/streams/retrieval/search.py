"""Finds candidates for a batch of queries: both searches at once, one fusion, what is live of the best, their rows."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from freki.operators.fold import fold
from freki.operators.fuse import (
    Hit,
    Scale,
    arctangent,
    from_floor,
    min_max,
    reciprocal_rank_fusion,
    saturation,
    standardised_fusion,
    unit,
    weighted_fusion,
)
from freki.schemas import ChunkId, Fusion, NoticeKind, RootId, may_read
from freki.schemas.index import Candidate, Rank, RowId, Scope, Watermark
from freki.streams.ports import ChunkRows, ChunkSearch, Roots
from freki.streams.retrieval.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieval.live import LiveDocument, read_live
from freki.streams.retrieval.query_vectors import QueryVectors
from freki.streams.retrieval.trail import Found, Ranked, Trail, Way, timed

Call = Callable[[], Awaitable[list[list[Candidate]]]]


class Searcher:
    """Each step takes all queries and makes one call of the model, or one call each of the store's searches."""

    def __init__(  # noqa: PLR0913 - each is one thing from outside
        self,
        *,
        embed: QueryVectors,
        search: ChunkSearch,
        rows: ChunkRows,
        roots: Roots,
        strong: bool,
        attempts: Attempts,
    ) -> None:
        self._embed = embed
        self._search = search
        self._rows = rows
        self._roots = roots
        self._strong = strong
        self._attempts = attempts

    async def embed(self, trails: list[Trail]) -> None:
        """Give every way that has none its vector."""
        lacking = {id(trail): [way for way in trail.ways if way.embeds and way.vector is None] for trail in trails}
        trails = [trail for trail in trails if lacking[id(trail)]]
        asked = [(trail, way) for trail in trails for way in lacking[id(trail)]]
        if not asked:
            return
        with timed(trails, "embed", lambda trail: len(lacking[id(trail)])):
            call = self._embed([way.text for _, way in asked], [trail.query for trail, _ in asked])
            vectors = await self._attempts(trails, "embed", call)
        for (_, way), vector in zip(asked, () if vectors is None else vectors, strict=False):
            way.vector = vector

    async def watermarks(self, trails: list[Trail]) -> Sequence[Watermark]:
        """Read how far the index is."""
        with timed(trails, "freshness", lambda _: 1):
            return await self._attempts(trails, "freshness", self._search.watermarks()) or ()

    async def find(self, trails: list[Trail], *, first: int = 0) -> bool:
        """Search the ways from the given one on, fuse all, and keep what is live; tell whether that could be looked up.

        Where a document changed in between, all ways are searched once more.
        """
        await self._search_both(trails, first=first)
        met = await self._keep_live(trails)
        again = (*LOOKING_UP, *FINISHING)
        moved = [trail for trail in met or () if self._attempts.spare_s(trail, before=again) > 0]
        if moved:
            await self._search_both(moved)
            met = await self._keep_live(moved)
        return met is not None

    async def load(self, trails: list[Trail]) -> bool:
        """Read rows and vectors of the best candidates, and fold those that say the same; tell whether that worked."""
        wanted: dict[RowId, None] = {}
        for trail in trails:
            wanted.update(dict.fromkeys(found.row_id for found in trail.found))
        with timed(trails, "load", lambda trail: len(trail.found)):
            fetched = await self._attempts(trails, "load", self._rows.fetch(list(wanted)))
        rows = fetched or {}
        for trail in trails:
            there = [found for found in trail.found if found.row_id in rows]
            trail.replaced = fetched is not None and len(there) < len(trail.found)
            trail.keep_only("load", "its row was not read", there)
            trail.loaded = {found.chunk_id: rows[found.row_id] for found in there}
            for found in there:
                found.row, found.vector = rows[found.row_id]
            _fold(trail)
            trail.left("load")
        return fetched is not None

    async def _search_both(self, trails: list[Trail], *, first: int = 0) -> None:
        ways = [(trail, way) for trail in trails for way in trail.ways[first:]]
        for _, way in ways:
            way.dense = way.lexical = None
        depth = max((trail.knobs.depth for trail in trails), default=0)

        async def dense() -> None:
            asked = [(trail, way) for trail, way in ways if way.vector is not None]
            vectors = np.array([way.vector for _, way in asked], dtype=np.float32)
            scopes = [scope_of(trail) for trail, _ in asked]
            call = partial(self._search.dense, vectors, scopes, limit=depth, strong=self._strong)
            for (trail, way), ranking in zip(asked, await self._rankings("dense", asked, call), strict=False):
                way.dense = ranking[: trail.knobs.depth]

        async def lexical() -> None:
            asked = [(trail, way) for trail, way in ways if way.terms or way.kind is None]
            terms, scopes = [way.terms for _, way in asked], [scope_of(trail) for trail, _ in asked]
            call = partial(self._search.lexical, terms, scopes, limit=depth, strong=self._strong)
            for (trail, way), ranking in zip(asked, await self._rankings("lexical", asked, call), strict=False):
                way.lexical = ranking[: trail.knobs.depth]

        await asyncio.gather(dense(), lexical())

    async def _rankings(self, name: str, asked: Sequence[tuple[Trail, Way]], call: Call) -> Sequence[list[Candidate]]:
        """Make one call for all ways; give a ranking for each, or none at all where it failed."""
        if not asked:
            return ()
        ways = Counter(id(trail) for trail, _ in asked)
        trails = list({id(trail): trail for trail, _ in asked}.values())
        with timed(trails, f"search.{name}", lambda trail: ways[id(trail)]):
            return await self._attempts(trails, f"search.{name}", call()) or ()

    async def _keep_live(self, trails: list[Trail]) -> list[Trail] | None:
        """Fuse, and take from the top what is live and readable, as many as are wanted.

        Gives the trails that met others; null where that could not be looked up.
        """
        started = trails[0].clock_ns()
        for trail in trails:
            trail.ranked, trail.found = fused(trail), []
            trail.dropped.clear()
        ended = trails[0].clock_ns()
        with timed(trails, "manifest", lambda trail: len(trail.found)):
            dropped = await self._take_best(trails)
            for trail in trails:
                # Counted now: what the asker may not read is no longer among it.
                trail.note("fuse", started, ended, len(trail.ranked))
        return None if dropped is None else [trail for trail, dead in zip(trails, dropped, strict=True) if dead]

    async def _take_best(self, trails: list[Trail]) -> list[int] | None:
        """Take what is live and readable from the top of each ranking; count what is not live, by trail."""
        at, dropped = [0] * len(trails), [0] * len(trails)
        short = list(range(len(trails)))
        while short:
            # The best are nearly always live, so looking further down is nearly always needless.
            slices = {place: trails[place].ranked[at[place] : at[place] + trails[place].wanted] for place in short}
            candidates = [each for ranked in slices.values() for each in ranked]
            live = await self._attempts(
                [trails[place] for place in short], "manifest", read_live(self._roots, candidates)
            )
            if live is None:
                return None
            for place, ranked in slices.items():
                if _hide(trails[place], ranked, live):
                    at[place] = dropped[place] = 0
                    continue
                dropped[place] += _take_live(trails[place], ranked, live)
                at[place] += len(ranked)
            short = [
                place
                for place in short
                if len(trails[place].found) < trails[place].wanted and at[place] < len(trails[place].ranked)
            ]
        for place, trail in enumerate(trails):
            dropped[place] += _keep_newest(trail)
        for trail, dead in zip(trails, dropped, strict=True):
            if dead:
                trail.notice("manifest", NoticeKind.DROPPED, f"{dead} candidates are not of a live revision")
        return dropped


def _hide(trail: Trail, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> bool:
    """Take out documents that the asker may not read, and fuse again: they must not move others, nor be counted.

    Rows name readers too, and search asks for those; while access changes, or where that was cut short, rows and root
    differ, and the root decides.
    """
    hidden = {
        each.root_id
        for each in ranked
        if each.root_id in live and not may_read(trail.query.principals, live[each.root_id].root.principals)
    }
    if not hidden:
        return False
    chunk_ids = [each.chunk_id for each in trail.ranked if each.root_id in hidden]
    for way in trail.ways:
        way.dense, way.lexical = _without(hidden, way.dense), _without(hidden, way.lexical)
    trail.ranked, trail.found = fused(trail), []
    trail.drop("manifest", "the asker may not read it any more", chunk_ids)
    return True


def _without(hidden: Collection[RootId], ranking: list[Candidate] | None) -> list[Candidate] | None:
    return None if ranking is None else [hit for hit in ranking if hit.root_id not in hidden]


def _take_live(trail: Trail, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> int:
    """Add what is live to the found; count what is not."""
    dead = []
    for each in ranked:
        document = live.get(each.root_id)
        if document is not None:
            trail.roots[each.root_id] = document.root
        if document is None or each.chunk_id not in document.places:
            dead.append(each.chunk_id)
        elif len(trail.found) < trail.wanted and not _has_enough(trail, each.root_id):
            trail.found.append(Found(each.chunk_id, document, each.fused, each.dense, each.lexical, each.way))
    trail.drop("manifest", "it is not of a live revision", dead)
    return len(dead)


def _keep_newest(trail: Trail) -> int:
    """Keep one revision of each document, of those that were live while the candidates were looked up."""
    newest: dict[RootId, Rank] = {}
    for found in trail.found:
        rank = found.root.rank
        newest[found.root.root_id] = max(newest.get(found.root.root_id, rank), rank)
    older = [found.chunk_id for found in trail.found if found.root.rank < newest[found.root.root_id]]
    trail.drop("manifest", "it is not of a live revision", older)
    trail.found = [found for found in trail.found if found.root.rank == newest[found.root.root_id]]
    return len(older)


def _has_enough(trail: Trail, root_id: RootId) -> bool:
    """Tell whether a document that may have only some of the hits has its share of the candidates."""
    knobs = trail.knobs
    most = max(knobs.per_document, trail.wanted * knobs.per_document // knobs.top_k)
    return 0 < most <= sum(found.root.root_id == root_id for found in trail.found)


def _fold(trail: Trail) -> None:
    """Let the best of candidates that say the same stand for all; all of them are live, and the asker may read them."""
    stands = fold([found.content.text for found in trail.found], likeness=trail.knobs.fold_at)
    for found, place in zip(trail.found, stands, strict=True):
        if trail.found[place] is not found:
            trail.found[place].duplicates.append(found)
    kept = [found for place, found in enumerate(trail.found) if stands[place] == place]
    trail.keep_only("load", "a better candidate says the same", kept)


_SCALES: dict[Fusion, tuple[Scale, Scale]] = {
    Fusion.WEIGHTED: (min_max, min_max),
    Fusion.TMM: (from_floor(-1.0), from_floor(0.0)),
    Fusion.ARCTAN: (unit, arctangent),
}
"""Of dense and of BM25 scores."""


def scope_of(trail: Trail) -> Scope:
    """Say what the query may see, and wants to."""
    return Scope(
        tenant=trail.query.tenant,
        principals=trail.query.principals,
        levels=trail.analysis.levels,
        filters=trail.query.filters,
    )


def fused(trail: Trail) -> list[Ranked]:
    """Fuse all rankings once, and keep what each retriever said."""
    rankings = [*trail.dense, *trail.lexical]
    dense = _best(trail.dense)
    lexical = _best(trail.lexical)
    owners = {hit.chunk_id: hit.root_id for ranking in rankings for hit in ranking}
    ways = _first_ways(trail)
    ranked = [
        Ranked(
            hit.chunk_id,
            owners[hit.chunk_id],
            hit.score,
            dense.get(hit.chunk_id),
            lexical.get(hit.chunk_id),
            ways[hit.chunk_id],
        )
        for hit in _hits(trail, rankings)
    ]
    return _heeded(trail, ranked) if trail.boosts else ranked


def _heeded(trail: Trail, ranked: list[Ranked]) -> list[Ranked]:
    """Order by what users said too, or what they like would not even be reranked; scores stay."""
    best = ranked[0].fused if ranked else 0.0
    lifted = [(each.fused + best * trail.lift(each.chunk_id, each.root_id), each) for each in ranked]
    return [each for _, each in sorted(lifted, key=lambda pair: (-pair[0], pair[1].chunk_id))]


def _hits(trail: Trail, rankings: Sequence[Sequence[Candidate]]) -> list[Hit]:
    if trail.knobs.fusion is Fusion.RRF:
        return reciprocal_rank_fusion(rankings, k=trail.knobs.rrf_k, weights=_weights(trail, 1.0, 1.0))
    alpha = _alpha(trail)
    trail.analysis = replace(trail.analysis, alpha=alpha)
    weights = _weights(trail, alpha, 1 - alpha)
    if trail.knobs.fusion is Fusion.ZSCORE:
        return standardised_fusion(rankings, weights=weights)
    of_dense, of_lexical = _SCALES[trail.knobs.fusion]
    scales = [*[of_dense] * len(trail.dense), *[of_lexical] * len(trail.lexical)]
    return weighted_fusion(rankings, weights=weights, scales=scales)


def _alpha(trail: Trail) -> float:
    """Weigh dense search: as the query or the setting says, else less the better the words of the question match."""
    # Where one kind of retriever was not asked or failed, the other counts alone.
    if not (trail.lexical and trail.dense):
        return 1.0 if trail.dense else 0.0
    given = trail.knobs.alpha_for(keyword=trail.analysis.keyword)
    if given is not None:
        return given
    best = max((hit.score for hit in trail.ways[0].lexical or ()), default=0.0)
    return 1 - saturation(best, pivot=trail.knobs.lexical_pivot)


def _weights(trail: Trail, dense: float, lexical: float) -> list[float]:
    """Share the weight of each retriever among the ways that it went, by their own weights."""
    by_vector = [way.weight for way in trail.ways if way.dense is not None]
    by_terms = [way.weight for way in trail.ways if way.lexical is not None]
    return [
        share * weight / math.fsum(weights)
        for share, weights in ((dense, by_vector), (lexical, by_terms))
        for weight in weights
    ]


def _first_ways(trail: Trail) -> dict[ChunkId, int]:
    first: dict[ChunkId, int] = {}
    for place, way in enumerate(trail.ways):
        for hit in (*(way.dense or ()), *(way.lexical or ())):
            first.setdefault(hit.chunk_id, place)
    return first


def _best(rankings: Sequence[Sequence[Candidate]]) -> dict[ChunkId, float]:
    """Give each chunk the best score that any variant gave it."""
    best: dict[ChunkId, float] = {}
    for ranking in rankings:
        for hit in ranking:
            best[hit.chunk_id] = max(hit.score, best.get(hit.chunk_id, hit.score))
    return best
