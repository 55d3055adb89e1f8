"""Protocols of archives: what an export writes and an import reads, volume by volume."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from freki.schemas import RootId, Timestamp
from freki.schemas.archive import ArchiveManifest, ArchiveStart, ArchiveVolume, LeftOut
from freki.schemas.arrays import Floats
from freki.schemas.index import IndexedChunk, ManifestPage, Root


class ArchiveSink(Protocol):
    """An archive that is being written. Documents come in the order of their root ids, rows before their document."""

    @property
    def start(self) -> ArchiveStart:
        """What it is made from."""

    @property
    def after(self) -> RootId | None:
        """Root id of the last document that an interrupted run has written; None for a new archive."""

    async def add_chunks(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Add chunk rows; vectors: (rows, width)."""

    async def add_documents(
        self, roots: Sequence[Root], pages: Sequence[ManifestPage], left_out: Sequence[LeftOut] = ()
    ) -> None:
        """Add documents whose rows were added before."""

    async def end_documents(self, last: RootId) -> None:
        """Note that everything up to this document was added."""

    async def finish(self, ended_at: Timestamp) -> ArchiveManifest:
        """Write what is left, and the manifest."""


class ArchiveSource(Protocol):
    """A complete archive. Reads raise Rejected, naming the file, where it is damaged."""

    @property
    def manifest(self) -> ArchiveManifest:
        """Its manifest."""

    async def check(self, volume: ArchiveVolume) -> None:
        """Compare the files of a volume with their checksums."""

    async def roots(self, volume: ArchiveVolume) -> Sequence[Root]:
        """Return the roots of a volume, one per document."""

    def pages(self, volume: ArchiveVolume) -> AsyncIterator[Sequence[ManifestPage]]:
        """Yield the manifest pages of a volume."""

    def chunks(self, volume: ArchiveVolume) -> AsyncIterator[tuple[Sequence[IndexedChunk], Floats]]:
        """Yield the chunk rows of a volume with their vectors, (rows, width)."""
