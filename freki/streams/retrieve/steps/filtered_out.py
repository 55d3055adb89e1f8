"""Learns what to say where little is found."""

from collections.abc import Collection
from dataclasses import replace

from freki.schemas import RootId, may_read
from freki.streams.ports import ChunkSearch, Roots
from freki.streams.retrieve.budget.attempts import LEAVING, Attempts
from freki.streams.retrieve.query_state import QueryState, timed
from freki.streams.retrieve.steps.search import scope_of
from freki.streams.retrieve.steps.surround import AUGMENT

LOOK_BEYOND = "look beyond"


class FilteredOutCounter:
    """Asks the store once more, without the filters of the query and with its rights."""

    def __init__(self, *, search: ChunkSearch, roots: Roots, strong: bool, attempts: Attempts) -> None:
        self._search = search
        self._roots = roots
        self._strong = strong
        self._attempts = attempts

    async def look_beyond(self, state: QueryState) -> None:
        """Count the documents that the filters kept from being found, where they left less than was asked for."""
        if len(state.found) >= state.options.top_k or not state.query.filters or not len(state.vectors):
            return
        if self._attempts.spare_s(state, before=(AUGMENT, *LEAVING, LOOK_BEYOND)) <= 0:
            return
        with timed([state], LOOK_BEYOND, lambda state: state.excluded):
            state.excluded = await self._attempts([state], LOOK_BEYOND, self._excluded(state)) or 0

    async def _excluded(self, state: QueryState) -> int:
        scopes = [replace(scope_of(state), filters=())]
        (ranking,) = await self._search.dense(state.vectors[:1], scopes, limit=state.options.depth, strong=self._strong)
        met = {each.root_id for found in (*state.dense, *state.lexical) for each in found}
        return await self._readable({each.root_id for each in ranking} - met, state.query.principals)

    async def _readable(self, root_ids: Collection[RootId], principals: Collection[str]) -> int:
        """Count those that are live; rows may still name readers that the root does not, and the root decides."""
        roots = await self._roots.roots(sorted(root_ids))
        return sum(not root.deleted and may_read(principals, root.principals) for root in roots.values())
