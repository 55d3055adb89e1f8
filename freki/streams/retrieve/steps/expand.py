"""Find further chunks of the documents that the best hits are of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from freki.schemas import ChunkId, ChunkKind, Filter, FilterOperator, NoticeKind, RequestKind, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, ManifestEntry, Root, places_in
from freki.streams.retrieve.budget.attempts import SHARE, SHOWING, Attempts
from freki.streams.retrieve.candidates import Further, LocatedHits
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.rerank import probability
from freki.streams.retrieve.steps.surround import AUGMENT

EXPAND = "expand"
_WITHOUT_VECTOR = {RequestKind.KEYWORD_SEARCH: "keyword search", RequestKind.CHUNK_READ: "read of chunks"}


class Expansion:
    """Searches within each document, with the access rights and filters of the query."""

    def __init__(self, stores: Stores, attempts: Attempts) -> None:
        self._stores = stores
        self._attempts = attempts

    async def __call__(self, query: EmbeddedQuery, hits: LocatedHits, extras: Collection[str]) -> Sequence[Further]:
        """Choose chunks of the best documents that fit the query well enough, in reading order.

        A document fits by its best hit. Of one that fits all chunks are taken, whatever they say by themselves: the
        other stations of a life have little in common with the query for them. If there are more than may be shown,
        the most similar are.
        """
        if hits.found and query.options.expand_documents and not query.is_embedded:
            kind = _WITHOUT_VECTOR[query.query.kind]
            message = f"further chunks are found by the vector of the query, and a {kind} has none: use RETRIEVE"
            query.log.notice(EXPAND, NoticeKind.SKIPPED, message)
            return ()
        roots = {root.root_id: root for root in _fitting_roots(query, hits)}
        if not roots or not query.options.expand_chunks or query.vector is None:
            return ()
        if EXPAND not in extras or self._attempts.spare_s(query, before=(AUGMENT, *SHOWING)) <= 0:
            query.log.notice(EXPAND, NoticeKind.SKIPPED, "no time was left for further chunks of the documents")
            return ()
        further: Sequence[Further] = ()
        with timed([query.log], EXPAND, lambda _: len(further)):
            similar = await self._attempts(
                [query], EXPAND, self._similar(query, query.vector, hits, roots), share=SHARE
            )
            if similar is not None:
                placed = self._placed(query, hits, roots, similar)
                further = await self._attempts([query], EXPAND, placed, share=SHARE) or ()
        return further

    async def _similar(
        self, query: EmbeddedQuery, vector: Floats, hits: LocatedHits, roots: Mapping[RootId, Root]
    ) -> Mapping[RootId, Sequence[Candidate]]:
        """Return the chunks of each document that are no hits, best first, as many as may be shown.

        There is a search for each document, so that a long one does not take the places of another.
        """
        options, every = query.options, query.scope
        other_than_summaries = Filter(field="kind", operator=FilterOperator.NE, values=(ChunkKind.SUMMARY,))
        scopes = [
            replace(every, filters=(*every.filters, _within(root), other_than_summaries)) for root in roots.values()
        ]
        rankings = await self._stores.search.dense(
            np.tile(vector, (len(scopes), 1)),
            scopes,
            limit=options.expand_chunks + len(hits.found),
            strong=self._stores.strong,
        )
        hit_ids = {each.chunk_id for each in hits.found}
        chosen = {
            key: [each for each in ranking if each.root_id == key and each.chunk_id not in hit_ids]
            for key, ranking in zip(roots, rankings, strict=True)
        }
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
        wanted = {place.page_id for key in within for place in places_in(roots[key], naming, set(chunk_ids)).values()}
        pages = await self._stores.roots.pages(sorted(wanted))
        return {entry.chunk_id: entry for page in pages.values() for entry in page.entries}


def _fitting_roots(query: EmbeddedQuery, hits: LocatedHits) -> list[Root]:
    """Return the best documents, best first, of which a hit reaches the threshold."""
    least = query.options.expand_similarity
    fitting = {each.root.root_id for each in hits.found if query.reaches(least, each.vector, probability(hits, each))}
    return [root for root in hits.best_roots(query.options.expand_documents) if root.root_id in fitting]


def _within(root: Root) -> Filter:
    return Filter(field="document_id", operator=FilterOperator.EQ, values=(root.document_id,))
