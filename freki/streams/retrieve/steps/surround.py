"""Reads where hits stand and what stands around them."""

from freki.schemas import NoticeKind
from freki.streams.ports import ChunkRows, Roots
from freki.streams.retrieve.budget.attempts import LEAVING, Attempts
from freki.streams.retrieve.query_state import QueryState, timed
from freki.streams.retrieve.steps.compose import Composer
from freki.streams.retrieve.steps.live import read_around

AUGMENT = "augment"


class Surroundings:
    """Manifests say what stands around a hit, rows hold its text."""

    def __init__(self, *, roots: Roots, rows: ChunkRows, composer: Composer, attempts: Attempts) -> None:
        self._roots = roots
        self._rows = rows
        self._composer = composer
        self._attempts = attempts

    async def locate(self, state: QueryState) -> bool:
        """Read where the hits stand; tell whether the revision of some candidates is gone by now."""
        hits = [(found.chunk_id, found.document) for found in state.found]
        with timed([state], "locate", lambda _: len(state.found)):
            around = await self._attempts([state], "locate", read_around(self._roots, hits)) or {}
        for found in state.found:
            found.near = around.get(found.root.root_id, ())
        there = [found for found in state.found if any(entry.chunk_id == found.chunk_id for entry in found.near)]
        is_lost = state.replaced or len(there) < len(state.found)
        state.keep_only("locate", "its place in the document was not read", there)
        return is_lost

    async def augment(self, state: QueryState) -> None:
        """Read what stands around the hits."""
        if AUGMENT not in state.extras or self._attempts.spare_s(state, before=LEAVING) <= 0:
            state.notice(AUGMENT, NoticeKind.SKIPPED, "no time was left for sections and neighbours")
            return
        wanted = {entry.row_id: entry.chunk_id for entry in self._composer.surroundings(state)}
        with timed([state], AUGMENT, lambda _: len(state.found)):
            passages = await self._attempts([state], AUGMENT, self._rows.passages(list(wanted))) or {}
        state.around = {wanted[row_id]: passage for row_id, passage in passages.items()}
