"""Import: documents of an archive into an index, by the commit protocol."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from freki.operators.rekey import rekeyed_pages, rekeyed_root, rekeyed_row, to_write
from freki.schemas import RootId, Timestamp
from freki.schemas.archive import ArchiveVolume
from freki.schemas.errors import Rejected
from freki.schemas.index import Attempt, ManifestPage, PageId, Root, RowId
from freki.streams.ingest.index.commit import Committer
from freki.streams.ports import ArchiveSource, PortableIndex

SWEPT = 50
"""Documents per sweep."""


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What an import did, or would do."""

    documents: int = 0
    """Live documents written."""
    deleted: int = 0
    """Deletions written."""
    chunks: int = 0
    """Chunk rows written."""
    present: int = 0
    """Live documents of which the index had this version or a newer one."""
    present_deleted: int = 0
    """The same of deletions."""
    withheld: int = 0
    """Live documents left out because they were deleted since: all numbers of documents together are what the archive
    has."""


class Importer:
    """Writes documents as one more worker does, under keys of attempts of its own.

    So it may run beside workers and beside another import: a version that is in the index, or is overtaken while it is
    imported, is left out, and a reader sees a document as a whole or not at all. The original keys of rows would not
    be safe: whatever carries an attempt of more than eight days ago and no root names may be deleted at any time.

    A volume is written as a whole: rows, pages, roots. After an interruption, volumes whose documents are all in the
    index are skipped without reading their rows; what the dead process left behind is swept.
    """

    def __init__(
        self,
        *,
        index: PortableIndex,
        archive: ArchiveSource,
        now: Callable[[], Timestamp],
        gone: Collection[RootId] = (),
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Prepare.

        gone: documents that were deleted since; the archive may still have them, and the index know nothing of it.
        advance: called with the number of chunk rows of the archive handled since the last call.
        """
        self._index = index
        self._archive = archive
        self._now = now
        self._gone = frozenset(gone)
        self._advance = advance
        self._committer = Committer(store=index, now=now)
        self._to_sweep: list[RootId] | None = []
        """Documents of the last volume that was skipped; None once a volume was written."""

    async def import_all(self, *, dry_run: bool = False) -> ImportReport:
        """Write what the index lacks; dry_run: only check all files and count.

        Raises Rejected, naming the file, where the archive is damaged; what was written until then stays.
        """
        report = ImportReport()
        for volume in self._archive.manifest.volumes:
            await self._archive.check(volume)
            archived = {root.root_id: root for root in await self._archive.roots(volume)}
            lacking, _ = await self._compare(archived)
            _count_present(report, (root for key, root in archived.items() if key not in lacking))
            wanted = {key: root for key, root in lacking.items() if root.deleted or key not in self._gone}
            report.withheld += len(lacking) - len(wanted)
            if dry_run:
                _count(report, wanted.values())
                self._advance(volume.chunks)
            elif wanted:
                await self._import(volume, wanted, report)
            else:
                if self._to_sweep is not None:
                    self._to_sweep = list(archived)
                self._advance(volume.chunks)
        if not dry_run:
            await self._end()
        return report

    async def _end(self) -> None:
        await self._sweep(self._to_sweep or [])
        start = self._archive.manifest.start
        if start.tenant is None:
            # Only now does the index hold all that the watermarks promise.
            await self._committer.commit([], [replace(mark, commits=0) for mark in start.watermarks])

    async def _import(self, volume: ArchiveVolume, wanted: Mapping[RootId, Root], report: ImportReport) -> None:
        attempt = self._committer.new_attempt()
        live = {key: root for key, root in wanted.items() if not root.deleted}
        pages = await self._pages(volume, live)
        await self._write_rows(volume, live, pages, attempt)
        written = {key: rekeyed_pages(root, pages[key], attempt) for key, root in live.items()}
        await self._index.write_pages([page for each in written.values() for page in each])
        # As in step 4 of the protocol: after the pages, and with a strong read.
        remaining, known = await self._compare(wanted)
        committed = {key: rekeyed_root(root, attempt) for key, root in remaining.items()}
        overtaken = {key: each for key, each in written.items() if key not in committed or committed[key].deleted}
        await self._commit(list(committed.values()))
        await self._abandon(overtaken)
        _count_present(report, (root for key, root in wanted.items() if key not in committed))
        _count(report, committed.values())
        await self._sweep_volume(committed, known, attempt)

    async def _compare(self, archived: Mapping[RootId, Root]) -> tuple[dict[RootId, Root], Mapping[RootId, Root]]:
        """Return the roots that the index lacks, and the standing roots that it has."""
        current = await self._committer.look_up(list(archived))
        lacking = {key: to_write(root, current.get(key)) for key, root in archived.items()}
        return {key: root for key, root in lacking.items() if root is not None}, current

    async def _pages(self, volume: ArchiveVolume, live: Mapping[RootId, Root]) -> dict[RootId, list[ManifestPage]]:
        """Return the pages of documents, in their order."""
        named = {page_id for root in live.values() for page_id in root.pages}
        found: dict[PageId, ManifestPage] = {}
        async for pages in self._archive.pages(volume):
            found |= {page.page_id: page for page in pages if page.page_id in named}
        if lost := named - set(found):
            raise Rejected(f"volume {volume.number} of the archive lacks the manifest page {min(lost)}: export again")
        return {key: [found[page_id] for page_id in root.pages] for key, root in live.items()}

    async def _write_rows(
        self,
        volume: ArchiveVolume,
        live: Mapping[RootId, Root],
        pages: Mapping[RootId, Sequence[ManifestPage]],
        attempt: Attempt,
    ) -> None:
        """Write the rows that the pages name, under keys of the attempt."""
        if not live:
            self._advance(volume.chunks)
            return
        named: set[RowId] = {entry.row_id for each in pages.values() for page in each for entry in page.entries}
        async for rows, vectors in self._archive.chunks(volume):
            chosen = [position for position, row in enumerate(rows) if row.row_id in named]
            if chosen:
                named -= {rows[position].row_id for position in chosen}
                moved = [rekeyed_row(rows[position], live[rows[position].root_id], attempt) for position in chosen]
                await self._index.insert(moved, vectors[chosen])
            self._advance(len(rows))
        if named:
            raise Rejected(f"volume {volume.number} of the archive lacks the chunk row {min(named)}: export again")

    async def _commit(self, roots: Sequence[Root]) -> None:
        """Write roots. Caches of answers notice, because a watermark of the index counts the commit."""
        if roots:
            marks = await self._index.watermarks()
            await self._committer.commit(
                roots, [replace(mark, committed_at=self._now(), commits=0) for mark in marks[:1]]
            )

    async def _abandon(self, overtaken: Mapping[RootId, Sequence[ManifestPage]]) -> None:
        """Delete rows and pages of revisions that will never be committed."""
        pages = [page for each in overtaken.values() for page in each]
        if pages:
            await self._index.delete([entry.row_id for page in pages for entry in page.entries])
            await self._index.discard([page.page_id for page in pages])

    async def _sweep_volume(
        self, committed: Mapping[RootId, Root], known: Mapping[RootId, Root], attempt: Attempt
    ) -> None:
        """Delete what the roots superseded; at the first volume that is written, also what a dead import left."""
        standing = await self._committer.look_up(list(committed))
        if self._to_sweep is not None:
            # An import that was killed may have committed the volume before, without sweeping it.
            await self._sweep([*self._to_sweep, *committed])
            self._to_sweep = None
            return
        overtaken = {key for key in committed if key not in standing or standing[key].attempt != attempt}
        await self._sweep([key for key in committed if key in known or key in overtaken])

    async def _sweep(self, root_ids: Sequence[RootId]) -> None:
        for at in range(0, len(root_ids), SWEPT):
            await self._committer.sweep(root_ids[at : at + SWEPT])


def _count(report: ImportReport, roots: Collection[Root]) -> None:
    report.documents += sum(not root.deleted for root in roots)
    report.deleted += sum(root.deleted for root in roots)
    report.chunks += sum(root.chunks for root in roots if not root.deleted)


def _count_present(report: ImportReport, roots: Iterable[Root]) -> None:
    for root in roots:
        if root.deleted:
            report.present_deleted += 1
        else:
            report.present += 1
