"""The connection to the store, and to the collections of one generation."""

from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Self

from freki.infra.milvus.collections import open_collections
from freki.infra.milvus.escape import checked_key
from freki.infra.milvus.filters import listed
from freki.infra.milvus.layout import DOCUMENTS, Layout, Row
from freki.infra.milvus.shards import Shard, shards_of
from freki.infra.milvus.store import BATCH_KEYS, MilvusStore, batched
from freki.infra.milvus.watermarks import WatermarkWriter
from freki.infra.settings import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkId, RootId
from freki.schemas.index import Generation

SCANNED_ROWS = 5_000
"""Chunk rows without vectors per read."""


class MilvusConnection:
    """An async context manager that is connected to the collections of one generation."""

    def __init__(self, settings: MilvusSettings, generation: Generation, calls: Calls | None = None) -> None:
        self._store = MilvusStore(settings, generation.name, calls or Calls())
        self._generation = generation
        self._shards = shards_of(generation)
        self._partition_key = settings.partition_key
        self._watermarks = WatermarkWriter()

    async def __aenter__(self) -> Self:
        self._store.open()
        try:
            # A store that does not answer at all is told sooner than one that loads.
            await self._store.has(DOCUMENTS)
            await self._store.identify()
            await open_collections(self._store, self._generation, partition_key=self._partition_key)
        except BaseException:
            await self._store.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.close()

    async def check(self) -> None:
        """Raise Unavailable or Rejected if the store does not answer."""
        await self._store.has(DOCUMENTS)

    async def _rows_with_chunks(
        self, chunk_ids: Sequence[ChunkId], fields: Sequence[str], *, condition: str = ""
    ) -> list[tuple[Shard, Row]]:
        """Return the rows of chunks that meet a condition."""
        keys = sorted({checked_key(chunk_id) for chunk_id in chunk_ids})
        found: list[tuple[Shard, Row]] = []
        for batch in batched(keys, SCANNED_ROWS):
            which = f"chunk_id in {listed(batch)}" + (f" and {condition}" if condition else "")
            for shard in self._shards:
                async for page in self._store.scan(shard.layout, which, fields, by="row_id", size=3 * SCANNED_ROWS):
                    found += [(shard, row) for row in page]
        return found

    async def _rows_of(
        self, layout: Layout, roots: Iterable[RootId], fields: Sequence[str], *, size: int
    ) -> AsyncIterator[Row]:
        for batch in batched([checked_key(root_id) for root_id in roots], BATCH_KEYS):
            async for page in self._store.scan(layout, f"root_id in {listed(batch)}", fields, by=layout.key, size=size):
                for row in page:
                    yield row
