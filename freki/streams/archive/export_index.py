"""Export: documents of an index into an archive, each as a whole, while workers change the index."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import numpy as np

from freki.schemas import RootId, Timestamp
from freki.schemas.archive import ArchiveManifest, LeftOut
from freki.schemas.errors import Rejected
from freki.schemas.index import ManifestPage, Root, RowId
from freki.streams.ports import ArchiveSink, PortableIndex

SLICE_CHUNKS = 1_000
"""Chunk rows read at a time; a larger document is read in several steps."""
SLICE_DOCUMENTS = 200
"""Maximum documents read at a time."""
ATTEMPTS = 20
"""Maximum number of times that a document is read while it keeps changing."""


class Exporter:
    """Reads roots, then the pages that they name, then the rows that these name.

    Rows, pages and roots are never changed, only added and, once superseded, deleted. So a document whose pages and
    rows are all found is one revision as a whole; one of which something is missing has a newer root and is read again.
    The watermarks in `ArchiveSink.start` were read before any root: a root that was committed before them is found, or
    one above it.
    """

    def __init__(
        self,
        *,
        index: PortableIndex,
        archive: ArchiveSink,
        now: Callable[[], Timestamp],
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Prepare; advance: called with the number of chunk rows written since the last call."""
        self._index = index
        self._archive = archive
        self._now = now
        self._advance = advance

    async def export(self) -> ArchiveManifest:
        """Write all documents after those that an interrupted run has written, and finish the archive.

        Raises Rejected if there is no document: a backup of a wrong or lost index must not replace others.
        """
        is_empty = self._archive.after is None
        async for roots in self._slices():
            is_empty = False
            await self._write(roots)
            await self._archive.end_documents(roots[-1].root_id)
        if is_empty:
            tenant = self._archive.start.tenant
            name = self._archive.start.generation.name
            whose = "no document" if tenant is None else f"no document of tenant {tenant!r}"
            raise Rejected(
                f"generation {name} holds {whose}: check FREKI_MILVUS__URI, FREKI_MILVUS__GENERATION and --tenant"
            )
        return await self._archive.finish(self._now())

    async def _slices(self) -> AsyncIterator[list[Root]]:
        tenant = self._archive.start.tenant
        batch: list[Root] = []
        chunks = 0
        async for root in self._index.all_roots(self._archive.after, tenant=tenant):
            if batch and (chunks + root.chunks > SLICE_CHUNKS or len(batch) == SLICE_DOCUMENTS):
                yield batch
                batch, chunks = [], 0
            batch.append(root)
            chunks += root.chunks
        if batch:
            yield batch

    async def _write(self, roots: Sequence[Root]) -> None:
        """Write documents, in the versions that these roots or their successors commit."""
        complete: dict[RootId, tuple[Root, Sequence[ManifestPage]]] = {}
        written: set[RowId] = set()
        left_out: list[LeftOut] = []
        pending = {root.root_id: root for root in roots}
        for _ in range(ATTEMPTS):
            pages, missing = await self._read(list(pending.values()), written)
            complete |= {key: (root, pages[key]) for key, root in pending.items() if key not in missing}
            current = await self._index.roots(list(missing)) if missing else {}
            # Without a newer root the rows are lost: reading again finds no more.
            left_out += [_left_out(pending[key], missing[key]) for key in missing if current.get(key) == pending[key]]
            pending = {key: root for key, root in current.items() if root != pending[key]}
            if not pending:
                break
        left_out += [_left_out(root, f"it changed {ATTEMPTS} times while it was read") for root in pending.values()]
        chosen = [complete[root.root_id] for root in roots if root.root_id in complete]
        await self._archive.add_documents(
            [root for root, _ in chosen], [page for _, pages in chosen for page in pages], left_out
        )

    async def _read(
        self, roots: Sequence[Root], written: set[RowId]
    ) -> tuple[Mapping[RootId, Sequence[ManifestPage]], Mapping[RootId, str]]:
        """Write the rows of documents that are not written yet.

        Return the pages of each document, and of those that are not complete what is missing.
        """
        stored = await self._index.pages([page for root in roots for page in root.pages])
        pages = {root.root_id: [stored[page] for page in root.pages if page in stored] for root in roots}
        missing = {
            root.root_id: f"{len(root.pages) - len(pages[root.root_id])} of its manifest pages are missing"
            for root in roots
            if len(pages[root.root_id]) < len(root.pages)
        }
        wanted = [
            (root.root_id, entry.row_id)
            for root in roots
            if root.root_id not in missing
            for page in pages[root.root_id]
            for entry in page.entries
            if entry.row_id not in written
        ]
        for at in range(0, len(wanted), SLICE_CHUNKS):
            some = wanted[at : at + SLICE_CHUNKS]
            lost = await self._copy([row_id for _, row_id in some])
            written |= {row_id for _, row_id in some if row_id not in lost}
            missing |= {key: "chunk rows are missing" for key, row_id in some if row_id in lost}
        return pages, missing

    async def _copy(self, row_ids: Sequence[RowId]) -> set[RowId]:
        """Write chunk rows; return those that are not there."""
        fetched = await self._index.fetch(row_ids)
        found = [fetched[row_id] for row_id in row_ids if row_id in fetched]
        if found:
            await self._archive.add_chunks([row for row, _ in found], np.stack([vector for _, vector in found]))
            self._advance(len(found))
        return set(row_ids) - set(fetched)


def _left_out(root: Root, problem: str) -> LeftOut:
    return LeftOut(tenant=root.tenant, document_id=root.document_id, version=root.version, problem=problem)
