"""The index of one generation in Milvus: chunk rows, roots with their manifests, and search over them."""

from freki.infra.milvus.chunk_rows import MilvusChunkRows
from freki.infra.milvus.layout import DOCUMENTS
from freki.infra.milvus.roots import ROOT_FIELDS, ROOTS_ONLY, SCANNED_ROOTS, MilvusRoots
from freki.infra.milvus.search import MilvusSearch
from freki.infra.milvus.store import together
from freki.schemas import RootId, Timestamp
from freki.schemas.index import Statistics


class MilvusIndex(MilvusChunkRows, MilvusRoots, MilvusSearch):
    """Satisfies ChunkRows, Roots and ChunkSearch of `streams.ports`, on Milvus and on Milvus Lite alike.

    Entering creates what is missing, within a second or two, and raises Misconfigured if the generation's name belongs
    to an index that was made with something else. All reads see what was written before, but for searches that ask
    for less. After a restart of the store, calls succeed again by themselves.

    No row that counts is ever replaced by another one: Milvus has no compare-and-set, and Milvus Lite replaces a row
    by removing the old one and writing the new one, visibly and as two transactions.
    """

    async def statistics(self) -> Statistics:
        """Count; a document that is just being committed may count twice."""
        documents, deleted, *chunks = await together(
            [
                self._store.count(DOCUMENTS, f"{ROOTS_ONLY} and deleted == false"),
                self._store.count(DOCUMENTS, f"{ROOTS_ONLY} and deleted == true"),
                *(self._store.count(shard.layout, "") for shard in self._shards),
            ]
        )
        return Statistics(documents=documents, deleted=deleted, chunks=sum(chunks))

    async def purge_deleted(self, before: Timestamp) -> int:
        """Forget deletions that became visible before then and left nothing else behind; returns how many."""
        condition = f"{ROOTS_ONLY} and deleted == true and searchable_at < {before:d}"
        purged = 0
        async for page in self._store.scan(DOCUMENTS, condition, ROOT_FIELDS, by="key", size=SCANNED_ROOTS):
            keys = sorted({RootId(row["key"]) for row in page})
            commits, heads, rows = await self.commits(keys), await self.page_heads(keys), await self.rows_of(keys)
            forgotten = [
                root.commit_id
                for key in keys
                if not heads[key]
                and not rows[key]
                # Of a commit that was cut short an older root may be there, which counts as soon as this one is gone.
                and all(root.deleted and root.searchable_at < before for root in commits[key])
                for root in commits[key]
            ]
            await self.discard([], forgotten)
            purged += len({commit_id.partition(":")[0] for commit_id in forgotten})
        await self._take_over_watermarks(before)
        return purged
