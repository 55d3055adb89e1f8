"""Find further chunks of the documents that the best hits are of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from freki.schemas import ChunkId, ChunkKind, Filter, FilterOperator, NoticeKind, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, ManifestEntry, Root, places_in
from freki.streams.retrieve.budget.attempts import LEAVING, Attempts
from freki.streams.retrieve.candidates import Further, LocatedHits
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.surround import AUGMENT

EXPAND = "expand"
DEPTH_FACTOR = 4
"""Search depth per chunk that may be shown: one document may have many similar chunks before those of the next."""


class Expansion:
    """Makes one search for all documents, within them and with the access rights of the query."""

    def __init__(self, stores: Stores, attempts: Attempts) -> None:
        self._stores = stores
        self._attempts = attempts

    async def __call__(self, query: EmbeddedQuery, hits: LocatedHits, extras: Collection[str]) -> Sequence[Further]:
        """Choose chunks of the best documents by their similarity to the query, in reading order."""
        roots = {root.root_id: root for root in hits.best_roots(query.options.expand_documents)}
        if not roots or not query.options.expand_chunks or query.vector is None:
            return ()
        if EXPAND not in extras or self._attempts.spare_s(query, before=(AUGMENT, *LEAVING)) <= 0:
            query.log.notice(EXPAND, NoticeKind.SKIPPED, "no time was left for further chunks of the documents")
            return ()
        further: Sequence[Further] = ()
        with timed([query.log], EXPAND, lambda _: len(further)):
            similar = await self._attempts([query], EXPAND, self._similar(query, query.vector, hits, roots))
            if similar is not None:
                further = await self._attempts([query], EXPAND, self._placed(query, hits, roots, similar)) or ()
        return further

    async def _similar(
        self, query: EmbeddedQuery, vector: Floats, hits: LocatedHits, roots: Mapping[RootId, Root]
    ) -> Mapping[RootId, Sequence[Candidate]]:
        """Search within the documents; return chunks that are similar enough and no hits, best first."""
        within = (
            Filter(
                field="document_id",
                operator=FilterOperator.IN,
                values=tuple(root.document_id for root in roots.values()),
            ),
            Filter(field="kind", operator=FilterOperator.NE, values=(ChunkKind.SUMMARY,)),
        )
        options = query.options
        limit = DEPTH_FACTOR * len(roots) * options.expand_chunks + len(hits.found)
        scopes = [replace(query.scope, filters=(*query.scope.filters, *within))]
        search, strong = self._stores.search, self._stores.strong
        (ranking,) = await search.dense(vector[None], scopes, limit=limit, strong=strong)
        hit_ids = {each.chunk_id for each in hits.found}
        chosen: dict[RootId, list[Candidate]] = {key: [] for key in roots}
        for each in ranking:
            is_similar = options.similarity(each.score) >= options.expand_similarity
            if is_similar and each.root_id in roots and each.chunk_id not in hit_ids:
                chosen[each.root_id].append(each)
        return {key: candidates[: options.expand_chunks] for key, candidates in chosen.items() if candidates}

    async def _placed(
        self,
        query: EmbeddedQuery,
        hits: LocatedHits,
        roots: Mapping[RootId, Root],
        chosen: Mapping[RootId, Sequence[Candidate]],
    ) -> list[Further]:
        """Add the places of chunks in the revision that the hits are of; chunks that are not live are left out."""
        entries = {entry.chunk_id: entry for each in hits.found for entry in each.near}
        far = [each.chunk_id for candidates in chosen.values() for each in candidates if each.chunk_id not in entries]
        if far:
            entries |= await self._far(roots, chosen, far)
        return [
            Further(roots[key], entry, similarity)
            for key, candidates in chosen.items()
            for entry, similarity in sorted(
                (
                    (entries[each.chunk_id], query.options.similarity(each.score))
                    for each in candidates
                    if each.chunk_id in entries
                ),
                key=lambda placed: placed[0].ordinal,
            )
        ]

    async def _far(
        self, roots: Mapping[RootId, Root], within: Iterable[RootId], chunk_ids: Sequence[ChunkId]
    ) -> dict[ChunkId, ManifestEntry]:
        """Read only the manifest pages that name these chunks."""
        naming = await self._stores.roots.naming(list(within), chunk_ids)
        wanted = {place.page_id for key in within for place in places_in(roots[key], naming).values()}
        pages = await self._stores.roots.pages(sorted(wanted))
        return {entry.chunk_id: entry for page in pages.values() for entry in page.entries}
