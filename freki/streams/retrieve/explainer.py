"""Tells why each hit stands where it stands, and which step lost a document that was expected."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from freki.operators.identify import root_id
from freki.schemas import (
    ChunkId,
    ChunkStory,
    DocumentId,
    ExpectedDocument,
    Explanation,
    Filter,
    FilterOperator,
    Retrieved,
    RootId,
    StepRank,
    may_read,
)
from freki.schemas.index import Candidate, Scope
from freki.streams.ports import ChunkSearch, Roots
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.query_state import QueryState
from freki.streams.retrieve.steps.search import scope_of

ALL_LEVELS = (0, 1, 2)
FUSE = "fuse"
SEARCH = "search"
NOT_THERE = "nothing of it was found: it is not in the index, or the asker may not read it"
_LOSSES = {
    "load": "it stood too far down after fusion to be looked at closely",
    "rerank": "too many candidates answer the question better",
    "diversify": "it says what better hits say already, or too many candidates answer the question better",
    "locate": "its document was replaced while it was being read",
}
"""Why a step leaves out what it does not name a reason for."""


class Explainer:
    """Reads the state that a query leaves; asks the store only about documents that no search found."""

    def __init__(self, search: ChunkSearch, roots: Roots, *, strong: bool, attempts: Attempts) -> None:
        self._search = search
        self._roots = roots
        self._strong = strong
        self._attempts = attempts

    async def __call__(self, state: QueryState) -> Explanation:
        """Explain a result. Nothing is told of documents that the asker may not read, not even that they exist."""
        orders = _orders(state)
        return Explanation(
            hits=tuple(_story(state, orders, found.chunk_id, found.root.document_id) for found in state.found),
            expected=tuple([await self._expected(state, orders, each) for each in dict.fromkeys(state.query.expect)]),
        )

    async def _expected(self, state: QueryState, orders: "Orders", document_id: DocumentId) -> ExpectedDocument:
        key = root_id(state.query.tenant, document_id)
        chunks = dict.fromkeys(hit.chunk_id for ranking in _rankings(state) for hit in ranking if hit.root_id == key)
        if not chunks:
            lost_at, reason = await self._not_found(state, key, document_id)
            return ExpectedDocument(document_id=document_id, lost_at=lost_at, reason=reason, best=None)
        best = max((_story(state, orders, chunk_id, document_id) for chunk_id in chunks), key=_farthest)
        if len(best.ranks) == len(orders):
            reason = f"it is hit {best.ranks[-1].rank}"
            return ExpectedDocument(document_id=document_id, lost_at=None, reason=reason, best=best)
        lost_at = orders[len(best.ranks)][0]
        return ExpectedDocument(
            document_id=document_id, lost_at=lost_at, reason=_why(state, best.chunk_id, lost_at), best=best
        )

    async def _not_found(self, state: QueryState, key: RootId, document_id: DocumentId) -> tuple[str, str]:
        """Say why no search found a document, and which step that is."""
        if not await self._readable(state, key):
            return SEARCH, NOT_THERE
        of_it = Filter(field="document_id", operator=FilterOperator.EQ, values=(document_id,))
        scope = scope_of(state)
        nearest = await self._nearest(state, replace(scope, filters=(*scope.filters, of_it)))
        if nearest:
            return SEARCH, f"no chunk of it is among the first {state.options.depth} of a search; {'; '.join(nearest)}"
        if await self._nearest(state, replace(scope, filters=(of_it,), levels=ALL_LEVELS)):
            return "filter", "the filters of the question, or the levels that it looks at, leave it out"
        return SEARCH, NOT_THERE

    async def _readable(self, state: QueryState, key: RootId) -> bool:
        """Ask the root: while access changes, rows may say otherwise."""
        root = (await self._attempts([state], "explain", self._roots.roots([key])) or {}).get(key)
        return root is not None and may_read(state.query.principals, root.principals)

    async def _nearest(self, state: QueryState, scope: Scope) -> list[str]:
        """Tell of each search how near the best chunk in scope comes to the last one that was found."""
        told = []
        if len(state.vectors):
            call = self._search.dense(state.vectors[:1], [scope], limit=1, strong=self._strong)
            told += _compared("cosine", await self._attempts([state], "explain", call), state.dense)
        call = self._search.lexical([state.analysis.lexical], [scope], limit=1, strong=self._strong)
        return told + _compared("BM25", await self._attempts([state], "explain", call), state.lexical)


Orders = Sequence[tuple[str, Sequence[ChunkId]]]
"""What was left after each step, best first."""


def _orders(state: QueryState) -> Orders:
    fused = (FUSE, [ranked.chunk_id for ranked in state.ranked])
    return [fused, *state.orders.items(), ("hits", [found.chunk_id for found in state.found])]


def _rankings(state: QueryState) -> Iterable[Sequence[Candidate]]:
    return [*state.dense, *state.lexical]


def _story(state: QueryState, orders: Orders, chunk_id: ChunkId, document_id: DocumentId) -> ChunkStory:
    searches = (
        ("dense", [variant.dense for variant in state.query_variants]),
        ("bm25", [variant.lexical for variant in state.query_variants]),
    )
    return ChunkStory(
        chunk_id=chunk_id,
        document_id=document_id,
        retrieved=tuple(
            Retrieved(search=search, variant=variant, rank=rank, score=hit.score)
            for search, rankings in searches
            for variant, ranking in enumerate(rankings)
            for rank, hit in enumerate(ranking or (), start=1)
            if hit.chunk_id == chunk_id
        ),
        ranks=tuple(
            StepRank(step=step, rank=order.index(chunk_id) + 1, of=len(order))
            for step, order in orders
            if chunk_id in order
        ),
        rerank_score=next((found.reranked for found in state.head if found.chunk_id == chunk_id), None),
    )


def _farthest(story: ChunkStory) -> tuple[int, int]:
    """Order chunks of a document: by how many steps one survived, then by where it stood at last."""
    return len(story.ranks), -story.ranks[-1].rank if story.ranks else 0


def _why(state: QueryState, chunk_id: ChunkId, lost_at: str) -> str:
    said = [f"{stage}: {reason}" for (stage, reason), dropped in state.dropped.items() if chunk_id in dropped]
    return "; ".join(said) or _LOSSES.get(lost_at, f"the step {lost_at} left it out")


def _compared(
    measure: str, found: Sequence[Sequence[Candidate]] | None, rankings: Sequence[Sequence[Candidate]]
) -> list[str]:
    if not found or not found[0]:
        return []
    last = f", that of the last one found {rankings[0][-1].score:.3f}" if rankings and rankings[0] else ""
    return [f"its best {measure} is {found[0][0].score:.3f}{last}"]
