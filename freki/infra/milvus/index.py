"""The index of one generation in Milvus: chunk rows, roots with their manifests, and search over them."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, Self

import numpy as np

from freki.infra.calls import Calls
from freki.infra.errors import Rejected
from freki.infra.milvus.collections import open_collections
from freki.infra.milvus.filters import listed, literal, scope_expression
from freki.infra.milvus.layout import CHUNKS, DOCUMENTS, MANIFESTS, Layout, Row, size_of
from freki.infra.milvus.rows import (
    KNOWN,
    ROOT,
    WATERMARK,
    Floats,
    checked_key,
    chunk_of,
    chunk_row,
    known_of,
    newest,
    page_of,
    page_row,
    revision_of,
    root_of,
    root_row,
    slot_of,
    slots_of,
    watermark_key,
    watermark_of,
    watermark_row,
)
from freki.infra.milvus.shards import Shard, shard_of, shards_of
from freki.infra.milvus.store import BATCH_KEYS, Store, batched, together
from freki.infra.settings import MilvusSettings
from freki.schemas import ChunkId, RootId, Timestamp
from freki.schemas.index import (
    Candidate,
    Generation,
    IndexedChunk,
    KnownChunk,
    ManifestPage,
    Passage,
    Root,
    Scope,
    Statistics,
    Watermark,
)

# Of the largest rows, so many are about 60 MB; messages above 64 MiB are refused.
FETCHED_CHUNKS = 200
SCANNED_ROOTS = 400
SCANNED_PAGES = 100
SCANNED_PLACES = 1000
COMPARED_ROOTS = 32
"""Of which one condition names each with a version of its own."""

_ROOTS = f'record == "{ROOT}"'
_WATERMARKS = f'record == "{WATERMARK}"'
_SLOT_FIELDS = ["id", "key", "sequence", "record", "body", "attributes"]
_PAGE_FIELDS = [field for field in MANIFESTS.fields if field != "placeholder"]


class MilvusIndex:
    """Satisfies ChunkRows, Roots and ChunkSearch of `streams.ports`, on Milvus and on Milvus Lite alike.

    Entering creates what is missing, within a second or two, and raises Misconfigured if the generation's name belongs
    to an index that was made with something else. All reads see what was written before, but for searches that ask
    for less. After a restart of the store, calls succeed again by themselves.

    Milvus Lite replaces a row by removing the old one and writing the new one, visibly and as two transactions. A root
    must never be missing, so each has two slots: a commit writes the one that does not count, with the next sequence,
    and then clears the other. A chunk row that is replaced because its facets changed is missing for milliseconds.
    """

    def __init__(self, settings: MilvusSettings, generation: Generation, calls: Calls | None = None) -> None:
        self._store = Store(settings, generation.name, calls or Calls())
        self._generation = generation
        self._shards = shards_of(generation)
        self._partition_key = settings.partition_key

    async def __aenter__(self) -> Self:
        self._store.open()
        try:
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
        """Find out whether the store answers; raises Unavailable or Rejected where it does not."""
        await self._store.has(DOCUMENTS)

    async def known(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, KnownChunk]:
        """Tell which rows are there; absent ids are absent."""
        rows = await self._chunk_rows(chunk_ids, list(KNOWN), size=BATCH_KEYS)
        return {chunk.chunk_id: chunk for chunk in (known_of(row) for _, row in rows)}

    async def fetch(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, tuple[IndexedChunk, Floats]]:
        """Read rows with their vectors, shape (width,), which are 0 but for the numbers of their embedder."""
        rows = await self._chunk_rows(chunk_ids, CHUNKS.fields, size=FETCHED_CHUNKS)
        read = ((shard, *chunk_of(row)) for shard, row in rows)
        return {chunk.chunk_id: (chunk, shard.widened(vector)) for shard, chunk, vector in read}

    async def passages(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Passage]:
        """Read texts with their headings and contexts, which is a third of the work of `fetch`."""
        fields = ["chunk_id", "text", "heading_path", "context", "context_key"]
        rows = await self._chunk_rows(chunk_ids, fields, size=FETCHED_CHUNKS)
        return {
            ChunkId(row["chunk_id"]): Passage(
                text=row["text"],
                heading_path=tuple(row["heading_path"]),
                context=row["context"],
                context_key=row["context_key"],
            )
            for _, row in rows
        }

    async def upsert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write or replace rows by chunk id; vectors: (rows, width), finite, of which each row's embedder has its part.

        Raises Rejected, before anything is written, if a row or the matrix is not what the store takes.
        """
        check_vectors(vectors, (len(rows), self._generation.width))
        laid_out: dict[str, tuple[Layout, list[Row]]] = {}
        for row, vector in zip(rows, vectors, strict=True):
            shard = shard_of(self._shards, row.kind)
            _, written = laid_out.setdefault(shard.layout.name, (shard.layout, []))
            written.append(chunk_row(row, vector[shard.block]))
        if len(laid_out) > 1:
            # Each write checks its own rows only.
            for layout, written in laid_out.values():
                for each in written:
                    size_of(layout, each)
        # One after the other: a write that is cancelled because another failed might still land, who knows when.
        for layout, written in laid_out.values():
            await self._store.upsert(layout, written)

    async def ids_of(self, below: Mapping[RootId, int]) -> Mapping[RootId, set[ChunkId]]:
        """List every chunk row that versions below the given one wrote, live or not, however many."""
        found: dict[RootId, set[ChunkId]] = {root_id: set() for root_id in below}

        async def collect(shard: Shard) -> None:
            async for row in self._rows_of(shard.layout, below, ["chunk_id", "root_id", "version"]):
                if row["version"] < below[row["root_id"]]:
                    found[row["root_id"]].add(row["chunk_id"])

        await together(map(collect, self._shards))
        return found

    async def delete(self, chunk_ids: Sequence[ChunkId]) -> None:
        """Remove rows; absent ones are fine."""
        keys = [checked_key(chunk_id) for chunk_id in chunk_ids]
        for shard in self._shards:
            await self._store.delete(shard.layout, keys)

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Read roots as last committed, also deleted ones."""
        rows = newest(await self._slots(root_ids, _SLOT_FIELDS))
        return {root.root_id: root for root in map(root_of, rows.values())}

    async def pages(self, versions: Mapping[RootId, int]) -> Mapping[RootId, list[ManifestPage]]:
        """Read the manifest of one version a document, in order; missing pages are missing."""
        found: dict[RootId, list[ManifestPage]] = {root_id: [] for root_id in versions}
        for batch in batched([revision_of(*pair) for pair in versions.items()], BATCH_KEYS):
            condition = f"revision in {listed(batch)}"
            async for rows in self._store.scan(MANIFESTS, condition, _PAGE_FIELDS, by="id", size=SCANNED_PAGES):
                for page in map(page_of, rows):
                    found[page.root_id].append(page)
        return {root_id: sorted(pages, key=lambda page: page.part) for root_id, pages in found.items()}

    async def places(
        self, versions: Mapping[RootId, int], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[RootId, Mapping[ChunkId, int]]:
        """Tell which of these chunks the manifests of these versions name, and in which part.

        The store picks the pages: reading the whole manifests of what a search found takes thirty times as long.
        """
        found: dict[RootId, dict[ChunkId, int]] = {root_id: {} for root_id in versions}
        wanted = set(chunk_ids)
        if not wanted:
            return found
        fields = ["id", "root_id", "part", "chunk_ids"]
        for batch in batched([revision_of(*pair) for pair in versions.items()], BATCH_KEYS):
            condition = f"revision in {listed(batch)} and array_contains_any(chunk_ids, {listed(wanted)})"
            async for rows in self._store.scan(MANIFESTS, condition, fields, by="id", size=SCANNED_PLACES):
                for row in rows:
                    named = wanted.intersection(map(ChunkId, row["chunk_ids"]))
                    found[RootId(row["root_id"])].update(dict.fromkeys(named, int(row["part"])))
        return found

    async def parts(self, wanted: Sequence[tuple[RootId, int, int]]) -> Mapping[RootId, list[ManifestPage]]:
        """Read single pages, given by root, version and part, in order; missing ones are missing."""
        found: dict[RootId, list[ManifestPage]] = {root_id: [] for root_id, _, _ in wanted}
        keys = [f"{revision_of(root_id, version)}:{part}" for root_id, version, part in wanted]
        for page in map(page_of, await self._store.lookup(MANIFESTS, keys, _PAGE_FIELDS, size=SCANNED_PAGES)):
            found[page.root_id].append(page)
        return {root_id: sorted(pages, key=lambda page: page.part) for root_id, pages in found.items()}

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they count for nothing until the root of their version is committed."""
        await self._store.upsert(MANIFESTS, [page_row(page) for page in pages])

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots: from here readers see their versions, each root atomically; the last one of an id counts."""
        lay_out: dict[str, Callable[..., Row]] = {root.root_id: partial(root_row, root) for root in roots}
        lay_out |= {watermark_key(mark.partition): partial(watermark_row, mark) for mark in watermarks}
        before = newest(await self._slots(lay_out, ["id", "key", "sequence"]))
        rows = [
            row(slot=1 - slot_of(before[key]), sequence=before[key]["sequence"] + 1)
            if key in before
            else row(slot=0, sequence=1)
            for key, row in lay_out.items()
        ]
        await self._store.upsert(DOCUMENTS, rows)
        await self._store.delete(DOCUMENTS, [row["id"] for row in before.values()])

    async def promised(self, above: Mapping[RootId, int]) -> Mapping[RootId, set[ChunkId]]:
        """Name the chunks on pages of versions above the given one."""
        found: dict[RootId, set[ChunkId]] = {checked_key(root_id): set() for root_id in above}
        for batch in batched(list(above.items()), COMPARED_ROOTS):
            conditions = [f"(root_id == {literal(root_id)} and version > {version:d})" for root_id, version in batch]
            fields = ["id", "root_id", "chunk_ids"]
            async for rows in self._store.scan(
                MANIFESTS, f"({' or '.join(conditions)})", fields, by="id", size=SCANNED_PLACES
            ):
                for row in rows:
                    found[RootId(row["root_id"])].update(map(ChunkId, row["chunk_ids"]))
        return found

    async def sweep_pages(self, below: Mapping[RootId, int]) -> None:
        """Remove all pages of versions below the given one."""
        rows = self._rows_of(MANIFESTS, below, ["id", "root_id", "version"])
        await self._store.delete(MANIFESTS, [row["id"] async for row in rows if row["version"] < below[row["root_id"]]])

    async def dense(
        self, vectors: Floats, scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, width). Queries of equal scope share a call a shard."""
        check_vectors(vectors, (len(scopes), self._generation.width))
        return _merged(
            await together(
                self._rankings(
                    shard, "dense", dict(enumerate(vectors[:, shard.block])), scopes, limit=limit, strong=strong
                )
                for shard in self._shards
            ),
            limit,
        )

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms; an empty text finds nothing. Queries of equal scope share a call a shard.

        Each shard counts how rare a word is in its own rows, as shards of any search engine do.
        """
        asked = {position: text for position, text in enumerate(texts) if text.strip()}
        return _merged(
            await together(
                self._rankings(shard, "sparse", asked, scopes, limit=limit, strong=strong) for shard in self._shards
            ),
            limit,
        )

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Tell which of the wanted chunks a scope may see, each list in its own."""
        found = await together(
            self._chunk_rows(chunk_ids, ["chunk_id", "root_id"], size=BATCH_KEYS, condition=scope_expression(scope))
            for chunk_ids, scope in zip(wanted, scopes, strict=True)
        )
        return [{ChunkId(row["chunk_id"]): RootId(row["root_id"]) for _, row in rows} for rows in found]

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""
        rows = [row async for page in self._slotted(_WATERMARKS) for row in page]
        return sorted(map(watermark_of, rows), key=lambda mark: mark.partition)

    async def all_roots(self) -> AsyncIterator[Root]:
        """Read every root, in no order; what is committed meanwhile may be missing."""
        async for page in self._slotted(_ROOTS):
            for row in page:
                yield root_of(row)

    async def statistics(self) -> Statistics:
        """Count; a document that is just being committed may count twice."""
        documents, deleted, *chunks = await together(
            [
                self._store.count(DOCUMENTS, f"{_ROOTS} and deleted == false"),
                self._store.count(DOCUMENTS, f"{_ROOTS} and deleted == true"),
                *(self._store.count(shard.layout, "") for shard in self._shards),
            ]
        )
        return Statistics(documents=documents, deleted=deleted, chunks=sum(chunks))

    async def purge_deleted(self, before: Timestamp) -> int:
        """Forget deletions that became visible before then; returns how many."""
        condition = f"deleted == true and searchable_at < {before:d}"
        purged = 0
        async for page in self._store.scan(DOCUMENTS, f"{_ROOTS} and {condition}", ["id", "key"], by="key"):
            slots = await self._slots([row["key"] for row in page], ["id", "key"])
            # Of a commit that was cut short, the other slot may hold a live revision: the next commit clears it.
            alone = {key for key, count in Counter(row["key"] for row in slots).items() if count == 1}
            forgotten = [row["id"] for row in page if row["key"] in alone]
            await self._store.delete(DOCUMENTS, forgotten, condition)
            purged += len(forgotten)
        return purged

    async def _chunk_rows(
        self, chunk_ids: Sequence[ChunkId], fields: Sequence[str], *, size: int, condition: str = ""
    ) -> list[tuple[Shard, Row]]:
        """Read chunk rows by id: an id does not say in which shard they stand, and there are few."""
        keys = [checked_key(chunk_id) for chunk_id in chunk_ids]
        found = await together(
            self._store.lookup(shard.layout, keys, fields, size=size, condition=condition) for shard in self._shards
        )
        return [(shard, row) for shard, rows in zip(self._shards, found, strict=True) for row in rows]

    async def _slots(self, keys: Iterable[str], fields: Sequence[str]) -> list[Row]:
        return await self._store.lookup(
            DOCUMENTS, [slot for key in keys for slot in slots_of(checked_key(key))], fields
        )

    async def _slotted(self, condition: str) -> AsyncIterator[Iterable[Row]]:
        """Read the rows that count, in pages."""
        async for page in self._store.scan(DOCUMENTS, condition, _SLOT_FIELDS, by="key", size=SCANNED_ROOTS):
            yield newest(page).values()

    async def _rows_of(self, layout: Layout, roots: Iterable[RootId], fields: Sequence[str]) -> AsyncIterator[Row]:
        for batch in batched([checked_key(root_id) for root_id in roots], BATCH_KEYS):
            async for page in self._store.scan(layout, f"root_id in {listed(batch)}", fields, by=layout.key):
                for row in page:
                    yield row

    async def _rankings(  # noqa: PLR0913 - what a search is
        self,
        shard: Shard,
        column: str,
        asked: Mapping[int, Any],
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,
    ) -> list[list[Candidate]]:
        """Search a shard for what is asked, by position, one call for each different scope."""
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for position in asked:
            groups[scope_expression(scopes[position])].append(position)
        answers = await together(
            self._store.search(
                shard.layout,
                column,
                [asked[position] for position in positions],
                condition,
                limit=limit,
                strong=strong,
            )
            for condition, positions in groups.items()
        )
        rankings: list[list[Candidate]] = [[] for _ in scopes]
        for positions, found in zip(groups.values(), answers, strict=True):
            for position, hits in zip(positions, found, strict=True):
                rankings[position] = sorted(map(_candidate, hits), key=_best_first)
        return rankings


def check_vectors(vectors: Floats, shape: tuple[int, int]) -> None:
    """Raise Rejected if the matrix has another shape or holds what is no number: Milvus Lite would take both."""
    if vectors.shape != shape:
        raise Rejected(f"vectors have the shape {vectors.shape}, not {shape}")
    if not np.isfinite(vectors).all():
        raise Rejected("a vector holds what is no finite number")


def _merged(shards: Sequence[list[list[Candidate]]], limit: int) -> list[list[Candidate]]:
    """Make one ranking a query of those of all shards."""
    if len(shards) == 1:
        return shards[0]
    return [sorted(chain(*rankings), key=_best_first)[:limit] for rankings in zip(*shards, strict=True)]


def _best_first(hit: Candidate) -> tuple[float, ChunkId]:
    return -hit.score, hit.chunk_id


def _candidate(hit: Row) -> Candidate:
    return Candidate(chunk_id=hit["entity"]["chunk_id"], root_id=hit["entity"]["root_id"], score=hit["distance"])
