"""Chunk rows in Milvus, in one collection per embedder."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import numpy as np

from freki.infra.milvus.connection import SCANNED_ROWS, MilvusConnection
from freki.infra.milvus.keys import checked_key, checked_long_key
from freki.infra.milvus.layout import CHUNKS, Layout, Row, size_of
from freki.infra.milvus.rows import CONTENT, STORED, chunk_of, chunk_row, content_of, heading_path_of, stored_of
from freki.infra.milvus.shards import Shard, shard_of
from freki.infra.milvus.store import MAX_LIMIT, together
from freki.schemas import ChunkId, RootId
from freki.schemas.arrays import Floats
from freki.schemas.errors import Rejected
from freki.schemas.index import ChunkContent, IndexedChunk, Passage, RowHead, RowId, StoredRow

FETCHED_CHUNKS = 200
"""Chunk rows per read: about 60 MB at their largest; messages above 64 MiB are refused."""

FETCHED_CODES = 1_000
"""Match codes per read: 66 MB at their largest."""


class MilvusChunkRows(MilvusConnection):
    """Satisfies ChunkRows of `streams.ports`."""

    async def stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[StoredRow]]:
        """Return all rows of the given chunks, whoever wrote them; chunks without rows are absent."""
        found: defaultdict[ChunkId, list[StoredRow]] = defaultdict(list)
        for _, row in await self._rows_with_chunks(chunk_ids, list(STORED)):
            found[ChunkId(row["chunk_id"])].append(stored_of(row))
        return dict(found)

    async def fetch(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
        """Return rows with their vectors, shape (width,), which are 0 outside the block of their embedder."""
        rows = await self._opened(await self._chunk_rows(row_ids, CHUNKS.fields, size=FETCHED_CHUNKS))
        read = ((shard, *chunk_of(row)) for shard, row in rows)
        return {chunk.row_id: (chunk, shard.widened(vector)) for shard, chunk, vector in read}

    async def contents(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[ChunkContent, Floats]]:
        """Return what ranking and answers read, with vectors as `fetch` gives them; takes half of its time."""
        fields = ["row_id", "root_id", *CONTENT, "dense"]
        rows = await self._opened(await self._chunk_rows(row_ids, fields, size=FETCHED_CHUNKS))
        return {
            RowId(row["row_id"]): (content_of(row), shard.widened(np.asarray(row["dense"], dtype=np.float32)))
            for shard, row in rows
        }

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Return texts with headings and contexts; takes a third of the time of `fetch`."""
        fields = ["row_id", "root_id", "text", "heading_path", "context", "context_key"]
        rows = await self._opened(await self._chunk_rows(row_ids, fields, size=FETCHED_CHUNKS))
        return {
            RowId(row["row_id"]): Passage(
                text=row["text"],
                heading_path=heading_path_of(row),
                context=row["context"],
                context_key=row["context_key"],
            )
            for _, row in rows
        }

    async def match_codes(self, row_ids: Sequence[RowId]) -> Mapping[RowId, str]:
        """Return what late interaction compares of rows, empty for rows without token vectors."""
        fields = ["row_id", "root_id", "match_code"]
        rows = await self._opened(await self._chunk_rows(row_ids, fields, size=FETCHED_CODES))
        return {RowId(row["row_id"]): row["match_code"] for _, row in rows}

    async def insert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write rows with keys that no row has; vectors: (rows, width), finite; a row uses the block of its embedder.

        Raises Rejected, before anything is written, if a row or the matrix does not fit the store.
        """
        check_vectors(vectors, (len(rows), self._generation.width))
        laid_out: dict[str, tuple[Layout, list[Row]]] = {}
        for row, vector in zip(rows, vectors, strict=True):
            shard = shard_of(self._shards, row.kind)
            _, written = laid_out.setdefault(shard.layout.name, (shard.layout, []))
            written.append(chunk_row(row, vector[shard.block]))
        if self._sealer is not None:
            # What only fits because it is compressed could not be imported anywhere else.
            _check_sizes(laid_out.values())
            await self._sealer.seal_chunks([row for _, written in laid_out.values() for row in written])
        if len(laid_out) > 1:
            # Each write checks only its own rows, so check all before the first.
            _check_sizes(laid_out.values())
        # Sequentially: a write cancelled because another one failed might still take effect later.
        for layout, written in laid_out.values():
            await self._store.insert(layout, written)

    async def rows_of(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[RowHead]]:
        """Return all chunk rows of documents, live or not."""
        found: dict[RootId, list[RowHead]] = {checked_key(root_id): [] for root_id in root_ids}

        async def collect(shard: Shard) -> None:
            fields = ["row_id", "root_id", "version", "edition"]
            async for row in self._rows_of(shard.layout, found, fields, size=MAX_LIMIT):
                head = RowHead(row_id=RowId(row["row_id"]), version=row["version"], edition=row["edition"])
                found[row["root_id"]].append(head)

        await together(map(collect, self._shards))
        return found

    async def delete(self, row_ids: Sequence[RowId]) -> None:
        """Delete rows; absent ones are ignored."""
        keys = [checked_long_key(row_id) for row_id in row_ids]
        for shard in self._shards:
            await self._store.delete(shard.layout, keys)

    async def all_rows(self) -> AsyncIterator[Sequence[tuple[RootId, RowHead]]]:
        """Yield all chunk rows in pages, unordered; rows written meanwhile may be missing."""
        fields = ["row_id", "root_id", "version", "edition"]
        for shard in self._shards:
            async for page in self._store.scan(shard.layout, 'row_id != ""', fields, by="row_id", size=SCANNED_ROWS):
                yield [
                    (row["root_id"], RowHead(row_id=row["row_id"], version=row["version"], edition=row["edition"]))
                    for row in page
                ]

    async def _opened(self, rows: Sequence[tuple[Shard, Row]]) -> list[tuple[Shard, Row]]:
        """Return rows decrypted, without those whose keys were destroyed."""
        if self._sealer is None:
            return list(rows)
        shards = {row["row_id"]: shard for shard, row in rows}
        return [(shards[row["row_id"]], row) for row in await self._sealer.unseal_chunks(row for _, row in rows)]

    async def _chunk_rows(
        self, row_ids: Sequence[RowId], fields: Sequence[str], *, size: int
    ) -> list[tuple[Shard, Row]]:
        """Return chunk rows by key, looked up in every shard: keys do not name their shard, and shards are few."""
        keys = [checked_long_key(row_id) for row_id in row_ids]
        found = await together(
            self._store.lookup_searched(shard.layout, keys, fields, dim=shard.dim, size=size) for shard in self._shards
        )
        return [(shard, row) for shard, rows in zip(self._shards, found, strict=True) for row in rows]


def _check_sizes(laid_out: Iterable[tuple[Layout, Sequence[Row]]]) -> None:
    for layout, rows in laid_out:
        for row in rows:
            size_of(layout, row)


def check_vectors(vectors: Floats, shape: tuple[int, int]) -> None:
    """Raise Rejected if the matrix has another shape or a value that is not finite: Milvus Lite accepts both."""
    if vectors.shape != shape:
        raise Rejected(f"vectors have the shape {vectors.shape}, not {shape}")
    if not np.isfinite(vectors).all():
        raise Rejected("a vector holds a value that is not finite")
