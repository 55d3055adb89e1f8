"""The log of generations, and the generations that the store holds."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from freki.infra.milvus.collections import open_log
from freki.infra.milvus.data_keys import take_keys
from freki.infra.milvus.filters import listed
from freki.infra.milvus.index import statistics_of
from freki.infra.milvus.keys import checked_key
from freki.infra.milvus.layout import CHUNKS, DOCUMENTS, GENERATIONS, KEYS, MANIFESTS, PLACEHOLDER, Layout, Row
from freki.infra.milvus.store import BATCH_KEYS, MilvusStore, batched
from freki.infra.settings import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkKind, RootId, Timestamp
from freki.schemas.index import GenerationEntry, Statistics

_FIELDS = [column.name for column in GENERATIONS.columns if column.name != "placeholder"]


class MilvusGenerations:
    """Satisfies GenerationLog of `streams.ports`; entering creates the log if it is missing."""

    def __init__(self, settings: MilvusSettings, calls: Calls | None = None) -> None:
        self._settings = settings
        self._log = MilvusStore(settings, None, calls or Calls())

    async def __aenter__(self) -> Self:
        self._log.open()
        try:
            # A store that does not answer at all is told sooner than one that loads.
            await self._log.has(GENERATIONS)
            await open_log(self._log)
        except BaseException:
            await self._log.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
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
        prefix, names = f"{self._settings.collection_prefix}_", await self._log.names()
        # Those of a generation whose removal was interrupted, also by an earlier release, are not all there.
        found: dict[str, Layout] = {}
        for layout in (DOCUMENTS, MANIFESTS):
            suffix = f"_{layout.name}"
            own = [name for name in names if name.startswith(prefix) and name.endswith(suffix)]
            found |= {
                name: _of(name, layout) for name in (each.removeprefix(prefix).removesuffix(suffix) for each in own)
            }
        stored: dict[str, Mapping[str, Any]] = {}
        for name in sorted(found):
            made_for = await self._made_for(found[name])
            # Another prefix may begin with this one.
            if made_for.get("name") == name:
                stored[name] = made_for
        return stored

    async def sizes(self, generation: str) -> Statistics:
        """Return the number of rows of a stored generation by kind; none where its removal was interrupted."""
        layouts, documents = await self._stored_layouts(generation), _of(generation, DOCUMENTS)
        if documents not in layouts:
            return Statistics(documents=0, deleted=0, chunks=0)
        chunks = [layout for layout in layouts if layout.is_searched]
        for layout in (documents, *chunks):
            await self._log.index_and_load(layout, ())
        return await statistics_of(self._log, documents, chunks)

    async def drop(self, generation: str) -> None:
        """Delete all collections of a generation; absent ones are ignored.

        The one with roots goes first: without rows and pages, those that are left would count as indexed documents.
        """
        for layout in await self._stored_layouts(generation):
            await self._log.drop(layout)

    async def count_rows(self, generation: str, root_ids: Sequence[RootId]) -> Mapping[str, int]:
        """Return the number of rows of documents by collection of a generation; deleted roots do not count."""
        counts: Counter[str] = Counter()
        keys = list(map(checked_key, root_ids))
        for layout in await self._stored_layouts(generation):
            await self._log.index_and_load(layout, ())
            roots = layout.columns is DOCUMENTS.columns
            for batch in batched(keys, BATCH_KEYS):
                condition = f"key in {listed(batch)} and deleted == false" if roots else f"root_id in {listed(batch)}"
                counts[self._log.name(layout)] += await self._log.count(layout, condition)
        return counts

    async def is_encrypted(self, generation: str) -> bool:
        """Return whether a stored generation has data keys."""
        return await self._log.has(_of(generation, KEYS))

    async def destroy_keys(self, generation: str, root_ids: Sequence[RootId]) -> int:
        """Destroy the data keys of documents of a stored generation; return their number."""
        keys = _of(generation, KEYS)
        if not root_ids or not await self._log.has(keys):
            return 0
        await self._log.index_and_load(keys, ())
        return len({row["key_id"] for row in await take_keys(self._log, keys, root_ids)})

    async def _made_for(self, layout: Layout) -> Mapping[str, Any]:
        with suppress(ValueError):
            made_for = json.loads(await self._log.description(layout))
            return made_for if isinstance(made_for, dict) else {}
        return {}

    async def _stored_layouts(self, generation: str) -> list[Layout]:
        """Return the collections that a generation has, that of roots first, those of chunk rows next."""
        names = set(await self._log.names())
        first = _of(generation, CHUNKS)
        prefix, kinds = f"{self._log.name(first)}_", {kind.value.lower() for kind in ChunkKind}
        # Further shards are named by kinds of chunks; a longer name of a generation may begin like them.
        rests = sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
        shards = [first._replace(name=f"{first.name}_{rest}") for rest in rests if set(rest.split("_")) <= kinds]
        layouts = [_of(generation, DOCUMENTS), *shards, first, _of(generation, KEYS), _of(generation, MANIFESTS)]
        return [layout for layout in layouts if self._log.name(layout) in names]


def _of(generation: str, layout: Layout) -> Layout:
    """Return a collection of a generation, as the collections that all share are named."""
    return layout._replace(name=f"{generation}_{layout.name}")


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
