"""The index of one generation in Milvus: chunk rows, roots with their manifests, and search over them."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from freki.infra.milvus.chunk_rows import MilvusChunkRows
from freki.infra.milvus.filters import listed
from freki.infra.milvus.layout import DOCUMENTS, Layout
from freki.infra.milvus.roots import ROOT_FIELDS, ROOTS_ONLY, SCANNED_ROOTS, MilvusRoots
from freki.infra.milvus.search import MilvusSearch
from freki.infra.milvus.store import MilvusStore, together
from freki.schemas import RootId, Timestamp
from freki.schemas.index import Root, Statistics


async def statistics_of(store: MilvusStore, documents: Layout, chunks: Sequence[Layout]) -> Statistics:
    """Return the number of rows by kind; documents: the collection of roots, chunks: those of chunk rows."""
    live, deleted, *rows = await together(
        [
            store.count(documents, f"{ROOTS_ONLY} and deleted == false"),
            store.count(documents, f"{ROOTS_ONLY} and deleted == true"),
            *(store.count(layout, "") for layout in chunks),
        ]
    )
    return Statistics(documents=live, deleted=deleted, chunks=sum(rows))


class MilvusIndex(MilvusChunkRows, MilvusRoots, MilvusSearch):
    """Satisfies ChunkRows, Roots and ChunkSearch of `streams.ports`, on Milvus and on Milvus Lite alike.

    Entering creates missing collections within a second or two, and raises Misconfigured if the generation exists with
    other parameters. Reads see all earlier writes, except searches with `strong=False`. After a restart of the store,
    calls succeed again without reconnecting.

    A row that readers rely on is never overwritten: Milvus has no compare-and-set, and Milvus Lite replaces a row by
    deleting and inserting it in two visible transactions.
    """

    async def statistics(self) -> Statistics:
        """Return the number of rows by kind; a document that is being committed may count twice."""
        return await statistics_of(self._store, DOCUMENTS, [shard.layout for shard in self._shards])

    async def count_made_otherwise(self, fingerprints: Collection[str]) -> int:
        """Return the number of live documents with none of these fingerprints."""
        condition = f"{ROOTS_ONLY} and deleted == false and fingerprint not in {listed(fingerprints)}"
        return await self._store.count(DOCUMENTS, condition)

    async def purge_deleted(self, before: Timestamp, *, first: Callable[[Root], Awaitable[bool]] | None = None) -> int:
        """Delete the roots of documents deleted before then that have no other rows; return the number of documents.

        first: is called for each root before it goes; if it returns False, the roots of the document stay.
        """
        condition = f"{ROOTS_ONLY} and deleted == true and searchable_at < {before:d}"
        purged = 0
        async for page in self._store.scan(DOCUMENTS, condition, ROOT_FIELDS, by="key", size=SCANNED_ROOTS):
            forgotten = await self._old_deletions({RootId(row["key"]) for row in page}, before)
            if first is not None:
                kept = {root.root_id for root in forgotten if not await first(root)}
                # It may have taken long: a document that has come back meanwhile needs its data keys.
                forgotten = await self._old_deletions({root.root_id for root in forgotten} - kept, before)
            gone = {root.root_id for root in forgotten}
            # Keys first: whoever writes one of the documents once its roots are gone makes a new key.
            taken = await self.take_keys(sorted(gone))
            await self.discard([], [root.commit_id for root in forgotten])
            # Whoever had looked up a key before has written rows by now, or finds the roots gone and starts over.
            await self.put_back_keys(taken, of=await self._there(gone))
            purged += len(gone)
        return purged

    async def _there(self, root_ids: Collection[RootId]) -> set[RootId]:
        """Return the documents of which anything is there."""
        commits, others = await self._commits_and_others(root_ids)
        return {key for key, some in commits.items() if some} | others

    async def _commits_and_others(
        self, root_ids: Collection[RootId]
    ) -> tuple[Mapping[RootId, Sequence[Root]], set[RootId]]:
        """Return the roots of each document, and which documents have pages or rows."""
        keys = sorted(root_ids)
        commits, heads, rows = await self.commits(keys), await self.page_heads(keys), await self.rows_of(keys)
        return commits, {key for key in keys if heads[key] or rows[key]}

    async def _old_deletions(self, root_ids: Collection[RootId], before: Timestamp) -> list[Root]:
        """Return the roots of those documents of which nothing else is left."""
        commits, others = await self._commits_and_others(root_ids)
        return [
            root
            for key in sorted(commits.keys() - others)
            # An interrupted commit may leave an older live root, which would count once this one is deleted.
            if all(root.deleted and root.searchable_at < before for root in commits[key])
            for root in commits[key]
        ]
