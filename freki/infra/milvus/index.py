"""The index of one generation in Milvus: chunk rows, roots with their manifests, and search over them."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np

from freki.infra.milvus.collections import open_collections
from freki.infra.milvus.filters import listed, scope_expression
from freki.infra.milvus.layout import CHUNKS, DOCUMENTS, MANIFESTS, PLACEHOLDER, Layout, Row, size_of
from freki.infra.milvus.rows import (
    ROOT,
    STORED,
    WATERMARK,
    Floats,
    checked_key,
    checked_long_key,
    chunk_of,
    chunk_row,
    farthest,
    heads_of,
    last_watermarks,
    mark_of,
    mark_row,
    page_of,
    page_row,
    revision_of,
    root_of,
    root_row,
    stored_of,
    watermark_row,
    writer_of,
)
from freki.infra.milvus.shards import Shard, shard_of, shards_of
from freki.infra.milvus.store import BATCH_KEYS, MAX_LIMIT, Store, batched, together
from freki.infra.settings.sections import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkId, RootId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.index import (
    Candidate,
    CommitId,
    Generation,
    IndexedChunk,
    ManifestPage,
    PageHead,
    PageId,
    Passage,
    Place,
    Root,
    RowHead,
    RowId,
    Scope,
    Statistics,
    StoredRow,
    Watermark,
    standing,
)

# Of the largest rows, so many are about 60 MB; messages above 64 MiB are refused.
FETCHED_CHUNKS = 200
SCANNED_ROOTS = 400
SCANNED_PAGES = 100
SCANNED_PLACES = 1000
SCANNED_ROWS = 5_000
# Watermarks: two rows of each, and one of the process that takes them over, fit one write.
TAKEN_OVER = 150

_ROOTS = f'record == "{ROOT}"'
_WATERMARKS = f'record == "{WATERMARK}"'
_ROOT_FIELDS = ["id", "key", "record", "body", "attributes"]
_PAGE_FIELDS = [field for field in MANIFESTS.fields if field != "placeholder"]
_HEAD_FIELDS = ["id", "root_id", "version", "edition", "attempt", "part", "cut", "is_mark", "row_ids"]


class MilvusIndex:
    """Satisfies ChunkRows, Roots and ChunkSearch of `streams.ports`, on Milvus and on Milvus Lite alike.

    Entering creates what is missing, within a second or two, and raises Misconfigured if the generation's name belongs
    to an index that was made with something else. All reads see what was written before, but for searches that ask
    for less. After a restart of the store, calls succeed again by themselves.

    No row that counts is ever replaced by another one: Milvus has no compare-and-set, and Milvus Lite replaces a row
    by removing the old one and writing the new one, visibly and as two transactions.
    """

    def __init__(self, settings: MilvusSettings, generation: Generation, calls: Calls | None = None) -> None:
        self._store = Store(settings, generation.name, calls or Calls())
        self._generation = generation
        self._shards = shards_of(generation)
        self._partition_key = settings.partition_key
        self._writer = uuid4().hex
        self._watermarks: dict[int, Watermark] = {}
        """As this process wrote them last."""

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

    async def stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[StoredRow]]:
        """Find the rows of chunks, by whomever they were written; chunks without rows are absent."""
        found: defaultdict[ChunkId, list[StoredRow]] = defaultdict(list)
        for _, row in await self._rows_with_chunks(chunk_ids, list(STORED)):
            found[ChunkId(row["chunk_id"])].append(stored_of(row))
        return dict(found)

    async def fetch(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
        """Read rows with their vectors, shape (width,), which are 0 but for the numbers of their embedder."""
        rows = await self._chunk_rows(row_ids, CHUNKS.fields, size=FETCHED_CHUNKS)
        read = ((shard, *chunk_of(row)) for shard, row in rows)
        return {chunk.row_id: (chunk, shard.widened(vector)) for shard, chunk, vector in read}

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Read texts with their headings and contexts, which is a third of the work of `fetch`."""
        fields = ["row_id", "text", "heading_path", "context", "context_key"]
        rows = await self._chunk_rows(row_ids, fields, size=FETCHED_CHUNKS)
        return {
            RowId(row["row_id"]): Passage(
                text=row["text"],
                heading_path=tuple(row["heading_path"]),
                context=row["context"],
                context_key=row["context_key"],
            )
            for _, row in rows
        }

    async def upsert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write rows; vectors: (rows, width), finite, of which each row's embedder has its part.

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

    async def rows_of(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[RowHead]]:
        """List every chunk row of documents, live or not, however many."""
        found: dict[RootId, list[RowHead]] = {checked_key(root_id): [] for root_id in root_ids}

        async def collect(shard: Shard) -> None:
            fields = ["row_id", "root_id", "version", "edition"]
            async for row in self._rows_of(shard.layout, found, fields, size=MAX_LIMIT):
                head = RowHead(row_id=RowId(row["row_id"]), version=row["version"], edition=row["edition"])
                found[row["root_id"]].append(head)

        await together(map(collect, self._shards))
        return found

    async def delete(self, row_ids: Sequence[RowId]) -> None:
        """Remove rows; absent ones are fine."""
        keys = [checked_long_key(row_id) for row_id in row_ids]
        for shard in self._shards:
            await self._store.delete(shard.layout, keys)

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Read the root of each document that counts, also deleted ones."""
        every = await self.commits(root_ids)
        return {root_id: root for root_id, roots in every.items() if (root := standing(roots)) is not None}

    async def commits(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[Root]]:
        """Read all roots of documents, also those that do not count any more."""
        found: dict[RootId, list[Root]] = {checked_key(root_id): [] for root_id in root_ids}
        for batch in batched(sorted(found), SCANNED_ROOTS):
            condition = f"key in {listed(batch)}"
            async for rows in self._store.scan(DOCUMENTS, condition, _ROOT_FIELDS, by="id", size=2 * SCANNED_ROOTS):
                for root in map(root_of, rows):
                    found[root.root_id].append(root)
        return found

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        """Read manifest pages; missing ones are missing."""
        keys = [checked_long_key(page_id) for page_id in page_ids]
        rows = await self._store.lookup(MANIFESTS, keys, _PAGE_FIELDS, size=SCANNED_PAGES)
        return {page.page_id: page for page in map(page_of, rows)}

    async def places(
        self, roots: Sequence[Root], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[RootId, Mapping[ChunkId, Place]]:
        """Tell which of these chunks the manifests of these roots name, on which page, and by which row.

        The store picks the pages: reading the whole manifests of what a search found takes thirty times as long.
        """
        found: dict[RootId, dict[ChunkId, Place]] = {root.root_id: {} for root in roots}
        wanted, named = set(chunk_ids), {page_id for root in roots for page_id in root.pages}
        if not wanted or not named:
            return found
        fields = ["id", "root_id", "chunk_ids", "row_ids"]
        revisions = [revision_of(root.root_id, root.version) for root in roots]
        for batch in batched(sorted(revisions), BATCH_KEYS):
            condition = f"revision in {listed(batch)} and array_contains_any(chunk_ids, {listed(wanted)})"
            async for rows in self._store.scan(MANIFESTS, condition, fields, by="id", size=SCANNED_PLACES):
                for row in rows:
                    if row["id"] in named:
                        found[RootId(row["root_id"])] |= {
                            ChunkId(chunk_id): Place(PageId(row["id"]), RowId(row_id))
                            for chunk_id, row_id in zip(row["chunk_ids"], row["row_ids"], strict=True)
                            if chunk_id in wanted
                        }
        return found

    async def page_heads(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[PageHead]]:
        """List all manifest pages of documents, whether a root names them or not."""
        rows = [row async for row in self._rows_of(MANIFESTS, root_ids, _HEAD_FIELDS, size=SCANNED_PLACES)]
        return {root_id: [] for root_id in root_ids} | heads_of(rows)

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they count for nothing until a root names them."""
        await self._store.upsert(MANIFESTS, [page_row(page) for page in pages])

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Note of pages that a root may name them."""
        await self._store.upsert(MANIFESTS, [mark_row(page) for page in pages])

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots: from here readers see their revisions, each as a whole. Watermarks never fall back."""
        laid_out = {root.commit_id: root_row(root) for root in roots}
        marks = [self._advanced(mark) for mark in watermarks]
        rows = [*laid_out.values(), *(watermark_row(mark, writer=self._writer) for mark in marks)]
        await self._store.upsert(DOCUMENTS, rows)

    async def discard(self, pages: Sequence[PageId], commits: Sequence[CommitId] = ()) -> None:
        """Remove pages and roots; absent ones are fine."""
        keys = [checked_long_key(page_id) for page_id in pages]
        await self._store.delete(MANIFESTS, [*keys, *map(mark_of, pages)])
        await self._store.delete(DOCUMENTS, map(checked_long_key, commits))

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
            self._rows_with_chunks(chunk_ids, ["row_id", "chunk_id", "root_id"], condition=scope_expression(scope))
            for chunk_ids, scope in zip(wanted, scopes, strict=True)
        )
        return [{ChunkId(row["chunk_id"]): RootId(row["root_id"]) for _, row in rows} for rows in found]

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""
        pages = self._store.scan(DOCUMENTS, _WATERMARKS, ["id", "body"], by="id", size=SCANNED_ROOTS)
        chosen = farthest(last_watermarks([row async for page in pages for row in page]).values())
        return [chosen[partition] for partition in sorted(chosen)]

    async def all_roots(self) -> AsyncIterator[Root]:
        """Read the root of every document that counts, in no order; what is committed meanwhile may be missing."""
        async for page in self._store.scan(DOCUMENTS, _ROOTS, _ROOT_FIELDS, by="key", size=SCANNED_ROOTS):
            by_document: defaultdict[RootId, list[Root]] = defaultdict(list)
            for root in map(root_of, page):
                by_document[root.root_id].append(root)
            for roots in by_document.values():
                if (counts := standing(roots)) is not None:
                    yield counts

    async def all_rows(self) -> AsyncIterator[Sequence[tuple[RootId, RowHead]]]:
        """List every chunk row, in pages and no order; what is written meanwhile may be missing."""
        fields = ["row_id", "root_id", "version", "edition"]
        for shard in self._shards:
            async for page in self._store.scan(shard.layout, 'row_id != ""', fields, by="row_id", size=SCANNED_ROWS):
                yield [
                    (row["root_id"], RowHead(row_id=row["row_id"], version=row["version"], edition=row["edition"]))
                    for row in page
                ]

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
        """Forget deletions that became visible before then and left nothing else behind; returns how many."""
        condition = f"{_ROOTS} and deleted == true and searchable_at < {before:d}"
        purged = 0
        async for page in self._store.scan(DOCUMENTS, condition, _ROOT_FIELDS, by="key", size=SCANNED_ROOTS):
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

    async def _take_over_watermarks(self, before: Timestamp) -> None:
        """Add the commits of processes that wrote none since then to those of this process.

        That is one write, in which theirs become 0: whoever read a sum that counts them twice would take the commits
        after it for older ones.
        """
        fields = [field for field in DOCUMENTS.fields if field != "placeholder"]
        pages = self._store.scan(DOCUMENTS, _WATERMARKS, fields, by="id", size=SCANNED_ROOTS)
        rows = [row async for page in pages for row in page]
        last = last_watermarks(rows)
        idle = (key for key, mark in last.items() if mark.committed_at < before and not self._is_own(key))
        taken = {key: last[key] for key in sorted(idle)[:TAKEN_OVER]}
        emptied = [
            {**row, "body": {**row["body"], "commits": 0}, "placeholder": PLACEHOLDER}
            for row in rows
            if writer_of(row) in taken
        ]
        merged = [self._added(theirs) for theirs in farthest(taken.values()).values()]
        await self._store.upsert(DOCUMENTS, [*(watermark_row(mark, writer=self._writer) for mark in merged), *emptied])
        # One that writes again meanwhile keeps its row.
        await self._store.delete(DOCUMENTS, [row["id"] for row in emptied], f"searchable_at < {before:d}")

    def _is_own(self, key: str) -> bool:
        return key.endswith(f":{self._writer}")

    def _added(self, theirs: Watermark) -> Watermark:
        """Add a watermark to that of this process; one commit more where its rows would not take turns."""
        own = self._watermarks.get(theirs.partition, replace(theirs, commits=0))
        turn = 1 if theirs.commits % 2 == 0 else 0
        added = farthest([own, theirs, replace(theirs, commits=turn)])[theirs.partition]
        self._watermarks[theirs.partition] = added
        return added

    def _advanced(self, mark: Watermark) -> Watermark:
        """Count one more commit of this process, and never fall back."""
        before = self._watermarks.get(mark.partition, mark)
        after = farthest([replace(before, commits=before.commits + 1), replace(mark, commits=0)])[mark.partition]
        self._watermarks[mark.partition] = after
        return after

    async def _chunk_rows(
        self, row_ids: Sequence[RowId], fields: Sequence[str], *, size: int
    ) -> list[tuple[Shard, Row]]:
        """Read chunk rows by key: a key does not say in which shard they stand, and there are few."""
        keys = [checked_long_key(row_id) for row_id in row_ids]
        found = await together(self._store.lookup(shard.layout, keys, fields, size=size) for shard in self._shards)
        return [(shard, row) for shard, rows in zip(self._shards, found, strict=True) for row in rows]

    async def _rows_with_chunks(
        self, chunk_ids: Sequence[ChunkId], fields: Sequence[str], *, condition: str = ""
    ) -> list[tuple[Shard, Row]]:
        """Read the rows of chunks that meet a condition."""
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

    async def _rankings(
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
                rankings[position] = _ranking(hits)
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


def _ranking(hits: Iterable[Row]) -> list[Candidate]:
    """Order hits, each chunk once: while a document changes, several rows may hold it."""
    best: dict[ChunkId, Candidate] = {}
    for hit in sorted(map(_candidate, hits), key=_best_first):
        best.setdefault(hit.chunk_id, hit)
    return list(best.values())


def _best_first(hit: Candidate) -> tuple[float, ChunkId]:
    return -hit.score, hit.chunk_id


def _candidate(hit: Row) -> Candidate:
    return Candidate(chunk_id=hit["entity"]["chunk_id"], root_id=hit["entity"]["root_id"], score=hit["distance"])
