"""Finds further chunks of the documents that the best hits are of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from freki.schemas import ChunkId, ChunkKind, Filter, FilterOperator, NoticeKind, RootId
from freki.schemas.index import Candidate, ManifestEntry, Root
from freki.streams.ports import ChunkSearch, Roots
from freki.streams.retrieve.budget.attempts import LEAVING, Attempts
from freki.streams.retrieve.query_state import Further, QueryState, timed
from freki.streams.retrieve.steps.search import scope_of
from freki.streams.retrieve.steps.surround import AUGMENT

EXPAND = "expand"
# Of one document there may be more similar chunks than are shown of it, before those of the next.
DEPTH = 4


class Expansion:
    """Asks the store once for all documents, within them and with the rights of the query."""

    def __init__(self, *, search: ChunkSearch, roots: Roots, strong: bool, attempts: Attempts) -> None:
        self._search = search
        self._roots = roots
        self._strong = strong
        self._attempts = attempts

    async def expand(self, state: QueryState) -> None:
        """Choose chunks of the best documents by their similarity to the question, in reading order."""
        roots = {root.root_id: root for root in state.best_roots(state.options.expand_documents)}
        if not roots or not state.options.expand_chunks or not len(state.vectors):
            return
        if EXPAND not in state.extras or self._attempts.spare_s(state, before=(AUGMENT, *LEAVING)) <= 0:
            state.notice(EXPAND, NoticeKind.SKIPPED, "no time was left for further chunks of the documents")
            return
        with timed([state], EXPAND, lambda state: len(state.further)):
            similar = await self._attempts([state], EXPAND, self._similar(state, roots))
            if similar is not None:
                state.further = await self._attempts([state], EXPAND, self._placed(state, roots, similar)) or ()

    async def _similar(self, state: QueryState, roots: Mapping[RootId, Root]) -> Mapping[RootId, Sequence[Candidate]]:
        """Search within the documents; give what is similar enough and not a hit, best first."""
        scope = scope_of(state)
        within = (
            Filter(
                field="document_id",
                operator=FilterOperator.IN,
                values=tuple(root.document_id for root in roots.values()),
            ),
            Filter(field="kind", operator=FilterOperator.NE, values=(ChunkKind.SUMMARY,)),
        )
        limit = DEPTH * len(roots) * state.options.expand_chunks + len(state.found)
        scopes = [replace(scope, filters=(*scope.filters, *within))]
        (ranking,) = await self._search.dense(state.vectors[:1], scopes, limit=limit, strong=self._strong)
        hits = {found.chunk_id for found in state.found}
        chosen: dict[RootId, list[Candidate]] = {key: [] for key in roots}
        for each in ranking:
            similar = state.options.similarity(each.score) >= state.options.expand_similarity
            if similar and each.root_id in roots and each.chunk_id not in hits:
                chosen[each.root_id].append(each)
        return {key: candidates[: state.options.expand_chunks] for key, candidates in chosen.items() if candidates}

    async def _placed(
        self, state: QueryState, roots: Mapping[RootId, Root], chosen: Mapping[RootId, Sequence[Candidate]]
    ) -> list[Further]:
        """Say where chunks stand in the revision that the hits are of; those that are not live are left out."""
        entries = {entry.chunk_id: entry for found in state.found for entry in found.near}
        far = [each.chunk_id for candidates in chosen.values() for each in candidates if each.chunk_id not in entries]
        if far:
            entries |= await self._far(roots, chosen, far)
        return [
            Further(roots[key], entry, similarity)
            for key, candidates in chosen.items()
            for entry, similarity in sorted(
                (
                    (entries[each.chunk_id], state.options.similarity(each.score))
                    for each in candidates
                    if each.chunk_id in entries
                ),
                key=lambda placed: placed[0].ordinal,
            )
        ]

    async def _far(
        self, roots: Mapping[RootId, Root], within: Iterable[RootId], chunk_ids: Sequence[ChunkId]
    ) -> dict[ChunkId, ManifestEntry]:
        """Read the parts of manifests that name these chunks: of long documents, only those near the hits are read."""
        places = await self._roots.places([roots[key] for key in within], chunk_ids)
        wanted = {place.page_id for found in places.values() for place in found.values()}
        pages = await self._roots.pages(sorted(wanted))
        return {entry.chunk_id: entry for page in pages.values() for entry in page.entries}
