"""The connection to the store, and to the collections of one generation."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Self
from urllib.parse import urlsplit

from freki.infra.keys import KeyService, key_service
from freki.infra.milvus.collections import check_plain, open_collections, open_keys
from freki.infra.milvus.data_keys import DataKeys
from freki.infra.milvus.filters import listed
from freki.infra.milvus.keys import checked_key
from freki.infra.milvus.layout import DOCUMENTS, Layout, Row
from freki.infra.milvus.sealing import Sealer
from freki.infra.milvus.shards import Shard, shards_of
from freki.infra.milvus.store import BATCH_KEYS, MilvusStore, batched
from freki.infra.milvus.watermarks import WatermarkWriter
from freki.infra.settings import EncryptionSettings, MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkId, RootId
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.index import Generation

SCANNED_ROWS = 5_000
"""Chunk rows without vectors per read."""


async def check_listens(settings: MilvusSettings) -> None:
    """Raise Unavailable at once where nothing listens at the address of the store."""
    address = urlsplit(settings.uri)
    try:
        async with asyncio.timeout(settings.timeout_s):
            _, connection = await asyncio.open_connection(address.hostname, address.port)
    except OSError as error:  # a timeout is one
        raise Unavailable(f"nothing listens at FREKI_MILVUS__URI={settings.uri}: {error}") from error
    connection.close()


class MilvusConnection:
    """An async context manager that is connected to the collections of one generation."""

    def __init__(
        self,
        settings: MilvusSettings,
        generation: Generation,
        calls: Calls | None = None,
        *,
        encryption: EncryptionSettings | None = None,
        creates: bool = True,
    ) -> None:
        """Name the collections; creates: whether entering creates missing ones, or raises Rejected."""
        self._store = MilvusStore(settings, generation.name, calls or Calls())
        self._generation = generation
        self._creates = creates
        self._shards = shards_of(generation)
        self._partition_key = settings.partition_key
        self._watermarks = WatermarkWriter()
        wanted = encryption or EncryptionSettings()
        service: KeyService | None = key_service(wanted)
        self._keys = (
            None if service is None else DataKeys(self._store, service, cache_s=wanted.cache_s, most=wanted.cache_keys)
        )
        self._sealer = None if self._keys is None else Sealer(self._keys)

    async def __aenter__(self) -> Self:
        self._store.open()
        try:
            # A store that does not answer at all is told sooner than one that loads.
            self._check_is_there(is_there=await self._store.has(DOCUMENTS))
            await self._store.identify()
            await self._open_sealer()
            await open_collections(
                self._store, self._generation, partition_key=self._partition_key, creates=self._creates
            )
        except BaseException:
            await self._store.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    def _check_is_there(self, *, is_there: bool) -> None:
        if not is_there and not self._creates:
            raise Rejected(f"the generation {self._generation.name} is not in the store: it was dropped")

    async def _open_sealer(self) -> None:
        if self._sealer is None or self._keys is None:
            await check_plain(self._store)
            return
        self._sealer.has_plain = await open_keys(self._store, self._generation, self._keys)
        await self._sealer.open()

    async def destroy_keys(self, root_ids: Sequence[RootId]) -> int:
        """Destroy the data keys of documents that have no rows to be read any more; return their number.

        Copies of these rows, in backups and in files that the store has not removed yet, then cannot be read.
        """
        return 0 if self._sealer is None else await self._sealer.destroy_keys(root_ids)

    async def take_keys(self, root_ids: Sequence[RootId]) -> Sequence[Row]:
        """Destroy the data keys of documents; return them, to be put back."""
        return [] if self._sealer is None else await self._sealer.take_keys(root_ids)

    async def put_back_keys(self, taken: Sequence[Row], *, of: Collection[RootId]) -> None:
        """Put back the data keys of some documents."""
        if self._sealer is not None:
            await self._sealer.put_back_keys([row for row in taken if row["root_id"] in of])

    async def rewrap_keys(self) -> int:
        """Wrap all data keys by the current version of the key, while workers run; return how many were not."""
        return 0 if self._sealer is None else await self._sealer.rewrap()

    async def key_versions(self) -> Mapping[int, int]:
        """Return the number of data keys by the version of the key that wraps them."""
        return {} if self._sealer is None else await self._sealer.key_versions()

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
