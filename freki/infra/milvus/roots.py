"""Roots, manifest pages and watermarks in Milvus."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

from freki.infra.milvus.connection import MilvusConnection
from freki.infra.milvus.filters import document_expression, listed
from freki.infra.milvus.keys import checked_key, checked_long_key
from freki.infra.milvus.layout import DOCUMENTS, MANIFESTS, PLACEHOLDER, Row, size_of
from freki.infra.milvus.rows import ROOT, heads_of, mark_of, mark_row, named_in, page_of, page_row, root_of, root_row
from freki.infra.milvus.store import BATCH_KEYS, batched
from freki.infra.milvus.watermarks import IDLE_MS, WATERMARK, farthest, last_watermarks, writer_of
from freki.schemas import ChunkId, RootId, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.index import CommitId, ManifestPage, PageHead, PageId, Place, Root, RowId, Watermark, standing

SCANNED_ROOTS = 400
"""Roots per read; this and the next two are about 60 MB at their largest, and messages above 64 MiB are refused."""
SCANNED_PAGES = 100
"""Manifest pages per read."""
SCANNED_PLACES = 1000
"""Manifest pages without positions per read."""
SOUGHT_SOURCES = 1000
"""Source addresses per read: at most 2 MB of expression."""
SCANNED_WATERMARKS = 10_000
"""Watermarks per read: every answer reads them all, and each further read would be a further wait."""
TAKEN_OVER = 150
"""Maximum watermarks taken over at once: two rows of each, and one of this process, fit one write."""
ROOTS_ONLY = f'record == "{ROOT}"'
_URI = re.compile(r"[A-Za-z0-9._~:/%-]+")
_WATERMARKS = f'record == "{WATERMARK}"'
ROOT_FIELDS = ["id", "key", "record", "body", "attributes"]
_PAGE_FIELDS = [field for field in MANIFESTS.fields if field not in {"named", "placeholder"}]
_HEAD_FIELDS = ["id", "root_id", "version", "edition", "attempt", "part", "cut", "is_mark", "row_ids"]


class MilvusRoots(MilvusConnection):
    """Satisfies Roots of `streams.ports`."""

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Return the current root of each document, deleted ones included."""
        every = await self.commits(root_ids)
        return {root_id: root for root_id, roots in every.items() if (root := standing(roots)) is not None}

    async def commits(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[Root]]:
        """Return all roots of documents, outranked ones included."""
        found: dict[RootId, list[Root]] = {checked_key(root_id): [] for root_id in root_ids}
        for batch in batched(sorted(found), SCANNED_ROOTS):
            condition = f"key in {listed(batch)}"
            async for rows in self._store.scan(DOCUMENTS, condition, ROOT_FIELDS, by="id", size=2 * SCANNED_ROOTS):
                for root in await self._roots_of(rows):
                    found[root.root_id].append(root)
        return found

    async def roots_from(self, source_uris: Collection[str]) -> Sequence[Root]:
        """Return the current roots of live documents with one of these sources, of any tenant, ordered by root id.

        The store selects them; sources are not indexed, so it compares all roots. Raises Rejected for an address with
        other characters than those of `Path.as_uri`.
        """
        found: set[RootId] = set()
        for batch in batched(sorted(set(source_uris)), SOUGHT_SOURCES):
            sought = ", ".join(f'"{_checked_uri(uri)}"' for uri in batch)
            condition = f'{ROOTS_ONLY} and deleted == false and body["source_uri"] in [{sought}]'
            async for rows in self._store.scan(DOCUMENTS, condition, ["id", "key"], by="key"):
                found.update(RootId(row["key"]) for row in rows)
        # One of these may be an outranked root of its document.
        roots = await self.roots(sorted(found))
        return [roots[key] for key in sorted(roots) if roots[key].source_uri in source_uris]

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        """Return manifest pages; missing ones are absent."""
        keys = [checked_long_key(page_id) for page_id in page_ids]
        rows = await self._store.lookup(MANIFESTS, keys, _PAGE_FIELDS, size=SCANNED_PAGES)
        if self._sealer is not None:
            rows = await self._sealer.unseal_pages(rows)
        return {page.page_id: page for page in map(page_of, rows)}

    async def naming(
        self, root_ids: Sequence[RootId], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[PageId, Mapping[ChunkId, Place]]:
        """Return what the manifest pages name that name any of these chunks, of documents, of any revision.

        The store selects the pages: reading whole manifests takes thirty times as long.
        """
        found: dict[PageId, dict[ChunkId, Place]] = {}
        keys, wanted = sorted(map(checked_key, root_ids)), set(map(checked_key, chunk_ids))
        if not wanted or not keys:
            return found
        fields = ["id", "named"]
        for batch in batched(keys, BATCH_KEYS):
            condition = f"root_id in {listed(batch)} and array_contains_any(chunk_ids, {listed(wanted)})"
            async for rows in self._store.scan(MANIFESTS, condition, fields, by="id", size=SCANNED_PLACES):
                large = [PageId(row["id"]) for row in rows if not row["named"]]
                found |= {PageId(row["id"]): _places(row["id"], named_in(row)) for row in rows if row["named"]}
                for page_id, page in (await self.pages(large)).items():
                    named = [(entry.chunk_id, entry.row_id) for entry in page.entries]
                    found[page_id] = _places(page_id, named)
        return found

    async def page_heads(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[PageHead]]:
        """Return all manifest pages of documents, whether a root names them or not, and marks whose page is gone."""
        rows = [row async for row in self._rows_of(MANIFESTS, root_ids, _HEAD_FIELDS, size=SCANNED_PLACES)]
        return {root_id: [] for root_id in root_ids} | heads_of(rows)

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they have no effect until a root names them."""
        rows = [page_row(page) for page in pages]
        if self._sealer is not None:
            for row in rows:
                size_of(MANIFESTS, row)
            await self._sealer.seal_pages(rows)
        await self._store.upsert(MANIFESTS, rows)

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Mark pages as checked: a root may name them."""
        await self._store.upsert(MANIFESTS, [mark_row(page) for page in pages])

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots and watermarks: readers now see each revision as a whole. Watermarks never decrease."""
        laid_out = {root.commit_id: root_row(root) for root in roots}
        if self._sealer is not None:
            await self._sealer.seal_roots(list(laid_out.values()))
        async with self._watermarks.writing:
            marks = [self._watermarks.row(self._watermarks.advanced(mark)) for mark in watermarks]
            await self._store.upsert(DOCUMENTS, [*laid_out.values(), *marks])

    async def discard(self, pages: Sequence[PageId], commits: Sequence[CommitId] = ()) -> None:
        """Delete pages and roots; absent ones are ignored."""
        keys = [checked_long_key(page_id) for page_id in pages]
        await self._store.delete(MANIFESTS, [*keys, *map(mark_of, pages)])
        await self._store.delete(DOCUMENTS, map(checked_long_key, commits))

    async def watermarks(self) -> Sequence[Watermark]:
        """Return the watermark of each partition."""
        pages = self._store.scan(DOCUMENTS, _WATERMARKS, ["id", "body"], by="id", size=SCANNED_WATERMARKS)
        chosen = farthest(last_watermarks([row async for page in pages for row in page]).values())
        return [chosen[partition] for partition in sorted(chosen)]

    async def all_roots(
        self, after: RootId | None = None, *, tenant: TenantId | None = None, prefix: str = ""
    ) -> AsyncIterator[Root]:
        """Yield the current root of every document, in ascending order of root ids.

        after: only those above it; tenant: None: of all tenants; prefix: only of documents whose id begins with it.
        Roots committed meanwhile may be missing.
        """
        condition = " and ".join(filter(None, (ROOTS_ONLY, document_expression(tenant, prefix))))
        pages = self._store.scan(DOCUMENTS, condition, ROOT_FIELDS, by="key", size=SCANNED_ROOTS, after=after or "")
        async for page in pages:
            by_document: defaultdict[RootId, list[Root]] = defaultdict(list)
            for root in await self._roots_of(page):
                by_document[root.root_id].append(root)
            for root_id in sorted(by_document):
                if (counts := standing(by_document[root_id])) is not None:
                    yield counts

    async def _roots_of(self, rows: Sequence[Row]) -> list[Root]:
        return list(map(root_of, rows if self._sealer is None else await self._sealer.unseal_roots(rows)))

    async def take_over_watermarks(self, now: Timestamp) -> int:
        """Add the commits of processes that were idle for a day to those of this process; return of how many.

        Every answer reads the watermarks of all processes. Of the partitions that this process commits to only: two
        that took over the same one at the same moment would both count it. One write adds them here and sets theirs to
        0: a reader that counted them twice would take later commits for older ones.
        """
        before = Timestamp(now - IDLE_MS)
        fields = [field for field in DOCUMENTS.fields if field != "placeholder"]
        pages = self._store.scan(DOCUMENTS, _WATERMARKS, fields, by="id", size=SCANNED_WATERMARKS)
        rows = [row async for page in pages for row in page]
        idle = {
            key: mark
            for key, mark in last_watermarks(rows).items()
            if mark.committed_at < before
            and self._watermarks.is_in_use(mark.partition, now=now)
            and not self._watermarks.wrote(key)
        }
        taken = {key: idle[key] for key in sorted(idle)[:TAKEN_OVER]}
        if not taken:
            return 0
        emptied = [
            {**row, "body": {**row["body"], "commits": 0}, "placeholder": PLACEHOLDER}
            for row in rows
            if writer_of(row) in taken
        ]
        async with self._watermarks.writing:
            merged = [self._watermarks.added(mark) for mark in farthest(taken.values()).values()]
            await self._store.upsert(DOCUMENTS, [*map(self._watermarks.row, merged), *emptied])
        # One that was written again meanwhile stays.
        await self._store.delete(DOCUMENTS, [row["id"] for row in emptied], f"searchable_at < {before:d}")
        return len(taken)


def _checked_uri(uri: str) -> str:
    # The body of a root is not escaped: these characters end no literal.
    if not _URI.fullmatch(uri):
        raise Rejected(f"{uri[:200]!r} is no address of a file")
    return uri


def _places(page: str, named: Sequence[tuple[ChunkId, RowId]]) -> dict[ChunkId, Place]:
    """Return the places of the chunks of a page."""
    return {chunk_id: Place(PageId(page), row_id, index, len(named)) for index, (chunk_id, row_id) in enumerate(named)}
