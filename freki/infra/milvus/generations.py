"""The log of generations, and the generations that the store holds."""

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

from freki.infra.milvus.collections import open_log
from freki.infra.milvus.layout import CHUNKS, DOCUMENTS, GENERATIONS, MANIFESTS, PLACEHOLDER, Layout, Row
from freki.infra.milvus.roots import ROOTS_ONLY
from freki.infra.milvus.store import MilvusStore
from freki.infra.settings import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkKind, Timestamp
from freki.schemas.index import GenerationEntry, Statistics

_FIELDS = [column.name for column in GENERATIONS.columns if column.name != "placeholder"]


class MilvusGenerations:
    """Satisfies GenerationLog of `streams.ports`; entering creates the log if it is missing."""

    def __init__(self, settings: MilvusSettings, calls: Calls | None = None) -> None:
        self._settings = settings
        self._calls = calls or Calls()
        self._log = MilvusStore(settings, None, self._calls)

    async def __aenter__(self) -> Self:
        self._log.open()
        try:
            await open_log(self._log)
        except BaseException:
            await self._log.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._log.close()

    async def entries(self) -> Sequence[GenerationEntry]:
        """Return all entries, unordered."""
        pages = self._log.scan(GENERATIONS, "at >= 0", _FIELDS, by="id")
        return [_entry_of(row) async for page in pages for row in page]

    async def append(self, entry: GenerationEntry) -> None:
        """Add an entry."""
        await self._log.upsert(GENERATIONS, [_row_of(entry)])

    async def remove(self, entries: Sequence[GenerationEntry]) -> None:
        """Remove entries; absent ones are ignored."""
        await self._log.delete(GENERATIONS, [each.entry_id for each in entries])

    async def stored(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters of each generation that the store holds, by its name, sorted."""
        suffix = f"_{DOCUMENTS.name}"
        prefix = f"{self._settings.collection_prefix}_"
        found = [name for name in await self._log.names() if name.startswith(prefix) and name.endswith(suffix)]
        stored: dict[str, Mapping[str, Any]] = {}
        for name in sorted(name.removeprefix(prefix).removesuffix(suffix) for name in found):
            made_for = await self._made_for(name)
            # Another prefix may begin with this one.
            if made_for.get("name") == name:
                stored[name] = made_for
        return stored

    async def sizes(self, generation: str) -> Statistics:
        """Return the number of rows of a stored generation by kind."""
        async with self._collections_of(generation) as store:
            shards = _shards_in(await store.names(), store.name(CHUNKS))
            for layout in (DOCUMENTS, CHUNKS, *shards):
                await store.index_and_load(layout, ())
            return Statistics(
                documents=await store.count(DOCUMENTS, f"{ROOTS_ONLY} and deleted == false"),
                deleted=await store.count(DOCUMENTS, f"{ROOTS_ONLY} and deleted == true"),
                chunks=sum([await store.count(layout, "") for layout in (CHUNKS, *shards)]),
            )

    async def drop(self, generation: str) -> None:
        """Delete all collections of a generation; absent ones are ignored. The one with roots goes last."""
        async with self._collections_of(generation) as store:
            there = set(await self._log.names())
            shards = _shards_in(there, store.name(CHUNKS))
            for layout in (*shards, CHUNKS, MANIFESTS, DOCUMENTS):
                if store.name(layout) in there:
                    await store.drop(layout)

    async def _made_for(self, generation: str) -> Mapping[str, Any]:
        async with self._collections_of(generation) as store:
            with suppress(ValueError):
                made_for = json.loads(await store.description(DOCUMENTS))
                return made_for if isinstance(made_for, dict) else {}
        return {}

    @asynccontextmanager
    async def _collections_of(self, generation: str) -> AsyncIterator[MilvusStore]:
        store = MilvusStore(self._settings, generation, self._calls)
        store.open()
        try:
            yield store
        finally:
            await store.close()


def _shards_in(names: Collection[str], chunks: str) -> list[Layout]:
    """Return the further shards of a generation, by the name of its first; they are named by kinds of chunks."""
    known = {kind.value.lower() for kind in ChunkKind}
    rests = sorted(name.removeprefix(f"{chunks}_") for name in names if name.startswith(f"{chunks}_"))
    return [Layout(f"{CHUNKS.name}_{rest}", ()) for rest in rests if set(rest.split("_")) <= known]


def _row_of(entry: GenerationEntry) -> Row:
    return {
        "id": entry.entry_id,
        "generation": entry.generation,
        "serves": entry.serves,
        "at": entry.at,
        "settings": dict(entry.settings),
        "placeholder": PLACEHOLDER,
    }


def _entry_of(row: Row) -> GenerationEntry:
    return GenerationEntry(
        entry_id=row["id"],
        generation=row["generation"],
        serves=row["serves"],
        at=Timestamp(row["at"]),
        settings=row["settings"],
    )
