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
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieve.query_state import QueryState, QueryVariant, Ranked, ScoredChunk, timed
from freki.streams.retrieve.steps.live import LiveDocument, read_live
from freki.streams.retrieve.steps.query_vectors import QueryVectors

Call = Callable[[], Awaitable[list[list[Candidate]]]]


class Searcher:
    """Each step takes all queries and makes one call of the model, or one call each of the store's searches."""

    def __init__(
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

    async def embed(self, states: list[QueryState]) -> None:
        """Give every variant that has none its vector."""
        lacking = {
            id(state): [variant for variant in state.query_variants if variant.embeds and variant.vector is None]
            for state in states
        }
        states = [state for state in states if lacking[id(state)]]
        asked = [(state, variant) for state in states for variant in lacking[id(state)]]
        if not asked:
            return
        with timed(states, "embed", lambda state: len(lacking[id(state)])):
            call = self._embed([variant.text for _, variant in asked], [state.query for state, _ in asked])
            vectors = await self._attempts(states, "embed", call)
        for (_, variant), vector in zip(asked, () if vectors is None else vectors, strict=False):
            variant.vector = vector

    async def watermarks(self, states: list[QueryState]) -> Sequence[Watermark]:
        """Read how far the index is."""
        with timed(states, "freshness", lambda _: 1):
            return await self._attempts(states, "freshness", self._search.watermarks()) or ()

    async def find(self, states: list[QueryState], *, first: int = 0) -> bool:
        """Search the variants from the given one on, fuse all, keep what is live; tell whether that could be looked up.

        Where a document changed in between, all variants are searched once more.
        """
        await self._search_both(states, first=first)
        met = await self._keep_live(states)
        again = (*LOOKING_UP, *FINISHING)
        moved = [state for state in met or () if self._attempts.spare_s(state, before=again) > 0]
        if moved:
            await self._search_both(moved)
            met = await self._keep_live(moved)
        return met is not None

    async def load(self, states: list[QueryState]) -> bool:
        """Read rows and vectors of the best candidates, and fold those that say the same; tell whether that worked."""
        wanted: dict[RowId, None] = {}
        for state in states:
            wanted.update(dict.fromkeys(found.row_id for found in state.found))
        with timed(states, "load", lambda state: len(state.found)):
            fetched = await self._attempts(states, "load", self._rows.fetch(list(wanted)))
        rows = fetched or {}
        for state in states:
            there = [found for found in state.found if found.row_id in rows]
            state.replaced = fetched is not None and len(there) < len(state.found)
            state.keep_only("load", "its row was not read", there)
            state.loaded = {found.chunk_id: rows[found.row_id] for found in there}
            for found in there:
                found.row, found.vector = rows[found.row_id]
            _fold(state)
            state.left("load")
        return fetched is not None

    async def _search_both(self, states: list[QueryState], *, first: int = 0) -> None:
        variants = [(state, variant) for state in states for variant in state.query_variants[first:]]
        for _, variant in variants:
            variant.dense = variant.lexical = None
        depth = max((state.options.depth for state in states), default=0)

        async def dense() -> None:
            asked = [(state, variant) for state, variant in variants if variant.vector is not None]
            vectors = np.array([variant.vector for _, variant in asked], dtype=np.float32)
            scopes = [scope_of(state) for state, _ in asked]
            call = partial(self._search.dense, vectors, scopes, limit=depth, strong=self._strong)
            for (state, variant), ranking in zip(asked, await self._rankings("dense", asked, call), strict=False):
                variant.dense = ranking[: state.options.depth]

        async def lexical() -> None:
            asked = [(state, variant) for state, variant in variants if variant.terms or variant.kind is None]
            terms, scopes = [variant.terms for _, variant in asked], [scope_of(state) for state, _ in asked]
            call = partial(self._search.lexical, terms, scopes, limit=depth, strong=self._strong)
            for (state, variant), ranking in zip(asked, await self._rankings("lexical", asked, call), strict=False):
                variant.lexical = ranking[: state.options.depth]

        await asyncio.gather(dense(), lexical())

    async def _rankings(
        self, name: str, asked: Sequence[tuple[QueryState, QueryVariant]], call: Call
    ) -> Sequence[list[Candidate]]:
        """Make one call for all variants; give a ranking for each, or none at all where it failed."""
        if not asked:
            return ()
        variants = Counter(id(state) for state, _ in asked)
        states = list({id(state): state for state, _ in asked}.values())
        with timed(states, f"search.{name}", lambda state: variants[id(state)]):
            return await self._attempts(states, f"search.{name}", call()) or ()

    async def _keep_live(self, states: list[QueryState]) -> list[QueryState] | None:
        """Fuse, and take from the top what is live and readable, as many as are wanted.

        Gives the states that met others; null where that could not be looked up.
        """
        started = states[0].clock_ns()
        for state in states:
            state.ranked, state.found = fused(state), []
            state.dropped.clear()
        ended = states[0].clock_ns()
        with timed(states, "manifest", lambda state: len(state.found)):
            dropped = await self._take_best(states)
            for state in states:
                # Counted now: what the asker may not read is no longer among it.
                state.note("fuse", started, ended, len(state.ranked))
        return None if dropped is None else [state for state, dead in zip(states, dropped, strict=True) if dead]

    async def _take_best(self, states: list[QueryState]) -> list[int] | None:
        """Take what is live and readable from the top of each ranking; count what is not live, by state."""
        at, dropped = [0] * len(states), [0] * len(states)
        short = list(range(len(states)))
        while short:
            # The best are nearly always live, so looking further down is nearly always needless.
            slices = {place: states[place].ranked[at[place] : at[place] + states[place].wanted] for place in short}
            candidates = [each for ranked in slices.values() for each in ranked]
            live = await self._attempts(
                [states[place] for place in short], "manifest", read_live(self._roots, candidates)
            )
            if live is None:
                return None
            for place, ranked in slices.items():
                if _hide(states[place], ranked, live):
                    at[place] = dropped[place] = 0
                    continue
                dropped[place] += _take_live(states[place], ranked, live)
                at[place] += len(ranked)
            short = [
                place
                for place in short
                if len(states[place].found) < states[place].wanted and at[place] < len(states[place].ranked)
            ]
        for place, state in enumerate(states):
            dropped[place] += _keep_newest(state)
        for state, dead in zip(states, dropped, strict=True):
            if dead:
                state.notice("manifest", NoticeKind.DROPPED, f"{dead} candidates are not of a live revision")
        return dropped


def _hide(state: QueryState, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> bool:
    """Take out documents that the asker may not read, and fuse again: they must not move others, nor be counted.

    Rows name readers too, and search asks for those; while access changes, or where that was cut short, rows and root
    differ, and the root decides.
    """
    hidden = {
        each.root_id
        for each in ranked
        if each.root_id in live and not may_read(state.query.principals, live[each.root_id].root.principals)
    }
    if not hidden:
        return False
    chunk_ids = [each.chunk_id for each in state.ranked if each.root_id in hidden]
    for variant in state.query_variants:
        variant.dense, variant.lexical = _without(hidden, variant.dense), _without(hidden, variant.lexical)
    state.ranked, state.found = fused(state), []
    state.drop("manifest", "the asker may not read it any more", chunk_ids)
    return True


def _without(hidden: Collection[RootId], ranking: list[Candidate] | None) -> list[Candidate] | None:
    return None if ranking is None else [hit for hit in ranking if hit.root_id not in hidden]


def _take_live(state: QueryState, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> int:
    """Add what is live to the found; count what is not."""
    dead = []
    for each in ranked:
        document = live.get(each.root_id)
        if document is not None:
            state.roots[each.root_id] = document.root
        if document is None or each.chunk_id not in document.places:
            dead.append(each.chunk_id)
        elif len(state.found) < state.wanted and not _has_enough(state, each.root_id):
            state.found.append(ScoredChunk(each.chunk_id, document, each.fused, each.dense, each.lexical, each.variant))
    state.drop("manifest", "it is not of a live revision", dead)
    return len(dead)


def _keep_newest(state: QueryState) -> int:
    """Keep one revision of each document, of those that were live while the candidates were looked up."""
    newest: dict[RootId, Rank] = {}
    for found in state.found:
        rank = found.root.rank
        newest[found.root.root_id] = max(newest.get(found.root.root_id, rank), rank)
    older = [found.chunk_id for found in state.found if found.root.rank < newest[found.root.root_id]]
    state.drop("manifest", "it is not of a live revision", older)
    state.found = [found for found in state.found if found.root.rank == newest[found.root.root_id]]
    return len(older)


def _has_enough(state: QueryState, root_id: RootId) -> bool:
    """Tell whether a document that may have only some of the hits has its share of the candidates."""
    options = state.options
    most = max(options.per_document, state.wanted * options.per_document // options.top_k)
    return 0 < most <= sum(found.root.root_id == root_id for found in state.found)


def _fold(state: QueryState) -> None:
    """Let the best of candidates that say the same stand for all; all of them are live, and the asker may read them."""
    stands = fold([found.content.text for found in state.found], likeness=state.options.fold_at)
    for found, place in zip(state.found, stands, strict=True):
        if state.found[place] is not found:
            state.found[place].duplicates.append(found)
    kept = [found for place, found in enumerate(state.found) if stands[place] == place]
    state.keep_only("load", "a better candidate says the same", kept)


_SCALES: dict[Fusion, tuple[Scale, Scale]] = {
    Fusion.WEIGHTED: (min_max, min_max),
    Fusion.TMM: (from_floor(-1.0), from_floor(0.0)),
    Fusion.ARCTAN: (unit, arctangent),
}
"""Of dense and of BM25 scores."""


def scope_of(state: QueryState) -> Scope:
    """Say what the query may see, and wants to."""
    return Scope(
        tenant=state.query.tenant,
        principals=state.query.principals,
        levels=state.analysis.levels,
        filters=state.query.filters,
    )


def fused(state: QueryState) -> list[Ranked]:
    """Fuse all rankings once, and keep what each retriever said."""
    rankings = [*state.dense, *state.lexical]
    dense = _best(state.dense)
    lexical = _best(state.lexical)
    owners = {hit.chunk_id: hit.root_id for ranking in rankings for hit in ranking}
    variants = _first_variants(state)
    ranked = [
        Ranked(
            hit.chunk_id,
            owners[hit.chunk_id],
            hit.score,
            dense.get(hit.chunk_id),
            lexical.get(hit.chunk_id),
            variants[hit.chunk_id],
        )
        for hit in _hits(state, rankings)
    ]
    return _heeded(state, ranked) if state.boosts else ranked


def _heeded(state: QueryState, ranked: list[Ranked]) -> list[Ranked]:
    """Order by what users said too, or what they like would not even be reranked; scores stay."""
    best = ranked[0].fused if ranked else 0.0
    lifted = [(each.fused + best * state.lift(each.chunk_id, each.root_id), each) for each in ranked]
    return [each for _, each in sorted(lifted, key=lambda pair: (-pair[0], pair[1].chunk_id))]


def _hits(state: QueryState, rankings: Sequence[Sequence[Candidate]]) -> list[Hit]:
    if state.options.fusion is Fusion.RRF:
        return reciprocal_rank_fusion(rankings, k=state.options.rrf_k, weights=_weights(state, 1.0, 1.0))
    alpha = _alpha(state)
    state.analysis = replace(state.analysis, alpha=alpha)
    weights = _weights(state, alpha, 1 - alpha)
    if state.options.fusion is Fusion.ZSCORE:
        return standardised_fusion(rankings, weights=weights)
    of_dense, of_lexical = _SCALES[state.options.fusion]
    scales = [*[of_dense] * len(state.dense), *[of_lexical] * len(state.lexical)]
    return weighted_fusion(rankings, weights=weights, scales=scales)


def _alpha(state: QueryState) -> float:
    """Weigh dense search: as the query or the setting says, else less the better the words of the question match."""
    # Where one kind of retriever was not asked or failed, the other counts alone.
    if not (state.lexical and state.dense):
        return 1.0 if state.dense else 0.0
    given = state.options.alpha_for(keyword=state.analysis.keyword)
    if given is not None:
        return given
    best = max((hit.score for hit in state.query_variants[0].lexical or ()), default=0.0)
    return 1 - saturation(best, pivot=state.options.lexical_pivot)


def _weights(state: QueryState, dense: float, lexical: float) -> list[float]:
    """Share the weight of each retriever among its variants, by their own weights."""
    by_vector = [variant.weight for variant in state.query_variants if variant.dense is not None]
    by_terms = [variant.weight for variant in state.query_variants if variant.lexical is not None]
    return [
        share * weight / math.fsum(weights)
        for share, weights in ((dense, by_vector), (lexical, by_terms))
        for weight in weights
    ]


def _first_variants(state: QueryState) -> dict[ChunkId, int]:
    first: dict[ChunkId, int] = {}
    for place, variant in enumerate(state.query_variants):
        for hit in (*(variant.dense or ()), *(variant.lexical or ())):
            first.setdefault(hit.chunk_id, place)
    return first


def _best(rankings: Sequence[Sequence[Candidate]]) -> dict[ChunkId, float]:
    """Give each chunk the best score that any variant gave it."""
    best: dict[ChunkId, float] = {}
    for ranking in rankings:
        for hit in ranking:
            best[hit.chunk_id] = max(hit.score, best.get(hit.chunk_id, hit.score))
    return best
