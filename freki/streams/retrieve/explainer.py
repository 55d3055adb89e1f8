"""Explain the rank of each hit, and which step lost an expected document."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from freki.operators.distance import in_metric
from freki.operators.identify import root_id
from freki.schemas import (
    ChunkId,
    ChunkStory,
    DocumentId,
    ExpectedDocument,
    Explanation,
    Filter,
    FilterOperator,
    Metric,
    Retrieved,
    StepRank,
)
from freki.schemas.index import Candidate, Scope
from freki.streams.retrieve.budget.attempts import LEAVING, SHARE, Attempts
from freki.streams.retrieve.candidates import LocatedHits, Retrieval
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.losses import Orders, loss_in, orders_of
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed

ALL_LEVELS = (0, 1, 2)
STEP = "explain"
SEARCH = "search"
NOT_THERE = "nothing of it was found: it is not in the index, or the asker may not read it"
NO_WORD = "no word of the query is in it, and it was not searched by vector"
NO_ANSWER = "what became of it is not known: a call of the store failed"
NO_TIME = "what became of it is not known: the deadline left no time to look it up"


class Explainer:
    """Explains by the values of all steps; asks the store only about documents that are expected and no hit."""

    def __init__(self, stores: Stores, attempts: Attempts) -> None:
        self._stores = stores
        self._attempts = attempts

    async def __call__(self, retrieval: Retrieval) -> Explanation:
        """Explain a result. Nothing is told of documents that the principals may not read, not even their existence."""
        query = retrieval.query
        asked = tuple(dict.fromkeys(query.query.expect))
        with timed([query.log], STEP, lambda _: len(retrieval.hits.found) + len(asked)):
            return await self._explanation(query, retrieval.hits, asked)

    async def _explanation(self, query: EmbeddedQuery, hits: LocatedHits, asked: Sequence[DocumentId]) -> Explanation:
        orders, metric = orders_of(hits), query.options.metric
        unreadable = await self._unreadable(query, hits, asked)
        return Explanation(
            hits=tuple(_story(hits, orders, each.chunk_id, each.root.document_id, metric) for each in hits.found),
            expected=tuple(
                [
                    _undisclosed(each, unreadable[each])
                    if each in unreadable
                    else await self._expected(query, hits, each)
                    for each in asked
                ]
            ),
        )

    async def _unreadable(
        self, query: EmbeddedQuery, hits: LocatedHits, asked: Sequence[DocumentId]
    ) -> Mapping[DocumentId, str]:
        """Return the documents of which nothing may be told, and what is said instead.

        While access changes, rows and root differ, and the root decides: searches find rows that are not swept yet. A
        document is told of only once its root was seen; those of hits were. The one call of the store may end after
        the deadline.
        """
        shown = {each.root.root_id for each in hits.found}
        keys = {each: root_id(query.query.tenant, each) for each in asked}
        unseen = {each: key for each, key in keys.items() if key not in shown}
        if not unseen:
            return {}
        if self._attempts.spare_s(query, before=LEAVING) <= 0:
            return dict.fromkeys(unseen, NO_TIME)
        roots = await self._attempts([query], STEP, self._stores.roots.roots(list(unseen.values())), share=SHARE)
        if roots is None:
            return dict.fromkeys(unseen, NO_ANSWER)
        readable = {key for key, root in roots.items() if not root.deleted and query.may_show(root)}
        return {each: NOT_THERE for each, key in unseen.items() if key not in readable}

    async def _expected(self, query: EmbeddedQuery, hits: LocatedHits, document_id: DocumentId) -> ExpectedDocument:
        """Return what became of a document that the asker may read."""
        key = root_id(query.query.tenant, document_id)
        orders = orders_of(hits)
        rankings = (*hits.search.dense, *hits.search.lexical)
        chunks = dict.fromkeys(hit.chunk_id for ranking in rankings for hit in ranking if hit.root_id == key)
        if not chunks:
            lost_at, reason = await self._missed(query, hits, document_id)
            return ExpectedDocument(document_id=document_id, lost_at=lost_at, reason=reason, best=None)
        metric = query.options.metric
        best = max((_story(hits, orders, chunk_id, document_id, metric) for chunk_id in chunks), key=_farthest)
        if len(best.ranks) == len(orders):
            reason = f"it is hit {best.ranks[-1].rank}"
            return ExpectedDocument(document_id=document_id, lost_at=None, reason=reason, best=best)
        lost_at, reason = loss_in(hits)(best.chunk_id)
        return ExpectedDocument(document_id=document_id, lost_at=lost_at, reason=reason, best=best)

    async def _missed(self, query: EmbeddedQuery, hits: LocatedHits, document_id: DocumentId) -> tuple[str, str]:
        """Return what kept searches from a document that the asker may read, and why."""
        if self._attempts.spare_s(query, before=LEAVING) <= 0:
            return SEARCH, NO_TIME
        of_it = Filter(field="document_id", operator=FilterOperator.EQ, values=(document_id,))
        scope = query.scope
        nearest = await self._nearest(query, hits, replace(scope, filters=(*scope.filters, of_it)))
        if nearest:
            return SEARCH, f"no chunk of it is among the first {query.options.depth} of a search; {'; '.join(nearest)}"
        if nearest is not None:
            everywhere = replace(scope, filters=(of_it,), where=None, levels=ALL_LEVELS)
            nearest = await self._nearest(query, hits, everywhere)
        if nearest is None:
            return SEARCH, NO_ANSWER
        if nearest:
            return "filter", "the filters of the query, or the levels that it looks at, leave it out"
        return SEARCH, NO_WORD if query.vector is None else NOT_THERE

    async def _nearest(self, query: EmbeddedQuery, hits: LocatedHits, scope: Scope) -> list[str] | None:
        """Compare, for each search, the best chunk in scope with the last chunk found; None if that is not known."""
        told = []
        search, strong = self._stores.search, self._stores.strong
        if (centred := query.centred) is not None:
            call = search.dense(centred.vectors, [scope], limit=1, strong=strong)
            found = await self._attempts([query], STEP, call, share=SHARE)
            if found is None:
                return None
            near = [[replace(each, score=centred.score(0, each.score)) for each in ranking] for ranking in found]
            told += _compared("cosine", near, hits.search.dense)
        call = search.lexical([query.analysis.lexical], [scope], limit=1, strong=strong)
        found = await self._attempts([query], STEP, call, share=SHARE)
        if found is None:
            return told or None
        return told + _compared("BM25", found, hits.search.lexical)


def _undisclosed(document_id: DocumentId, reason: str) -> ExpectedDocument:
    return ExpectedDocument(document_id=document_id, lost_at=SEARCH, reason=reason, best=None)


def _story(hits: LocatedHits, orders: Orders, chunk_id: ChunkId, document_id: DocumentId, metric: Metric) -> ChunkStory:
    searches = (
        ("dense", [each.dense for each in hits.search.variants]),
        ("bm25", [each.lexical for each in hits.search.variants]),
    )
    return ChunkStory(
        chunk_id=chunk_id,
        document_id=document_id,
        retrieved=tuple(
            Retrieved(
                search=search,
                variant=variant,
                rank=rank,
                score=in_metric(hit.score, metric) if search == "dense" else hit.score,
            )
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
        rerank_score=next((each.reranked for each in hits.head if each.chunk_id == chunk_id), None),
    )


def _farthest(story: ChunkStory) -> tuple[int, int]:
    """Order the chunks of a document by the number of steps they survived, then by their last rank."""
    return len(story.ranks), -story.ranks[-1].rank if story.ranks else 0


def _compared(measure: str, found: Sequence[Sequence[Candidate]], rankings: Sequence[Sequence[Candidate]]) -> list[str]:
    if not found[0]:
        return []
    last = f", that of the last one found {rankings[0][-1].score:.3f}" if rankings and rankings[0] else ""
    return [f"its best {measure} is {found[0][0].score:.3f}{last}"]
