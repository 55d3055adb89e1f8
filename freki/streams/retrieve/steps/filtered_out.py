"""Count the documents that only the filters of a query keep from being found."""

from collections.abc import Collection
from dataclasses import replace

from freki.schemas import RootId
from freki.schemas.arrays import Floats
from freki.streams.retrieve.budget.attempts import SHARE, SHOWING, Attempts
from freki.streams.retrieve.candidates import LocatedHits
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.surround import AUGMENT

LOOK_BEYOND = "look beyond"


class FilteredOutCounter:
    """Searches once more without the filters of the query, with its access rights."""

    def __init__(self, stores: Stores, attempts: Attempts) -> None:
        self._stores = stores
        self._attempts = attempts

    async def __call__(self, query: EmbeddedQuery, hits: LocatedHits) -> int:
        """Return the number of documents that were filtered out; 0 if there are enough hits, or no time.

        Also 0 if the search by vectors failed: what meets the filters is known by what it found.
        """
        has_enough = len(hits.found) >= query.options.top_k
        if has_enough or not query.filtered_fields or (centred := query.centred) is None:
            return 0
        if hits.search.variants[0].dense is None:
            return 0
        if self._attempts.spare_s(query, before=(AUGMENT, *SHOWING, LOOK_BEYOND)) <= 0:
            return 0
        count = 0
        with timed([query.log], LOOK_BEYOND, lambda _: count):
            # By the same vector: another one finds other documents, whether they meet the filters or not.
            excluded = self._excluded(query, centred.vectors, hits)
            count = await self._attempts([query], LOOK_BEYOND, excluded, share=SHARE) or 0
        return count

    async def _excluded(self, query: EmbeddedQuery, vectors: Floats, hits: LocatedHits) -> int:
        scopes = [replace(query.scope, filters=(), where=None)]
        (ranking,) = await self._stores.search.dense(
            vectors, scopes, limit=query.options.depth, strong=self._stores.strong
        )
        found = {each.root_id for ranking in (*hits.search.dense, *hits.search.lexical) for each in ranking}
        return await self._readable({each.root_id for each in ranking} - found, query)

    async def _readable(self, root_ids: Collection[RootId], query: EmbeddedQuery) -> int:
        """Count live and readable documents by their roots: rows may still name readers that the root does not."""
        roots = await self._stores.roots.roots(sorted(root_ids))
        return sum(not root.deleted and query.may_show(root) for root in roots.values())
