"""An archive in memory, with the promises of ArchiveWriter and ArchiveReader."""

from collections.abc import AsyncIterator, Sequence

import numpy as np

from freki.schemas import RootId, TenantId, Timestamp
from freki.schemas.archive import FORMAT, ArchiveManifest, ArchiveStart, ArchiveVolume, LeftOut
from freki.schemas.arrays import Floats
from freki.schemas.index import Generation, IndexedChunk, ManifestPage, Root, Watermark


def start_of(
    generation: Generation,
    *,
    tenant: TenantId | None = None,
    watermarks: Sequence[Watermark] = (),
    began_at: int = 1_000,
) -> ArchiveStart:
    """Give what an archive of an index begins with."""
    return ArchiveStart(
        format=FORMAT,
        freki="0.1.0",
        layout=6,
        generation=generation,
        tenant=tenant,
        began_at=Timestamp(began_at),
        watermarks=tuple(watermarks),
    )


class MemoryArchive:
    """Satisfies ArchiveSink and, once it is finished, ArchiveSource; each call of `end_documents` ends a volume."""

    def __init__(self, start: ArchiveStart) -> None:
        self._start = start
        self._volumes: list[ArchiveVolume] = []
        self._roots: list[list[Root]] = [[]]
        self._pages: list[list[ManifestPage]] = [[]]
        self._chunks: list[list[tuple[IndexedChunk, Floats]]] = [[]]
        self._left_out: list[LeftOut] = []
        self._ended_at = Timestamp(0)

    @property
    def start(self) -> ArchiveStart:
        return self._start

    @property
    def after(self) -> RootId | None:
        return self._volumes[-1].last if self._volumes else None

    @property
    def manifest(self) -> ArchiveManifest:
        return ArchiveManifest(start=self._start, ended_at=self._ended_at, volumes=tuple(self._volumes))

    async def add_chunks(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        self._chunks[-1] += zip(rows, vectors, strict=True)

    async def add_documents(
        self, roots: Sequence[Root], pages: Sequence[ManifestPage], left_out: Sequence[LeftOut] = ()
    ) -> None:
        self._roots[-1] += roots
        self._pages[-1] += pages
        self._left_out += left_out

    async def end_documents(self, last: RootId) -> None:
        roots = self._roots[-1]
        self._volumes.append(
            ArchiveVolume(
                number=len(self._volumes),
                last=last,
                documents=sum(not root.deleted for root in roots),
                deleted=sum(root.deleted for root in roots),
                chunks=sum(root.chunks for root in roots if not root.deleted),
                files=(),
                left_out=tuple(self._left_out),
            )
        )
        self._left_out = []
        for each in (self._roots, self._pages, self._chunks):
            each.append([])

    async def finish(self, ended_at: Timestamp) -> ArchiveManifest:
        self._ended_at = ended_at
        return self.manifest

    async def check(self, volume: ArchiveVolume) -> None:
        """Memory is never damaged."""

    async def roots(self, volume: ArchiveVolume) -> list[Root]:
        return self._roots[volume.number]

    async def pages(self, volume: ArchiveVolume) -> AsyncIterator[list[ManifestPage]]:
        yield self._pages[volume.number]

    async def chunks(self, volume: ArchiveVolume) -> AsyncIterator[tuple[list[IndexedChunk], Floats]]:
        for chunk, vector in self._chunks[volume.number]:
            yield [chunk], np.stack([vector])
