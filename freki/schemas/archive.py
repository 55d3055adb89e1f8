"""Archives of an index: what `freki export` writes, as its manifest says."""

from freki.schemas.index import Generation, Watermark
from freki.schemas.names import DocumentId, RootId, TenantId, Timestamp, record

FORMAT = 1
"""Version of the files of an archive."""


@record
class ArchiveStart:
    """The first line of an archive: what it is made from. An interrupted export continues only with the same values."""

    format: int
    freki: str
    """Version of Freki that wrote it."""
    layout: int
    """Version of the columns of the store."""
    generation: Generation
    tenant: TenantId | None
    """Tenant whose documents it holds; None: all tenants."""
    began_at: Timestamp
    watermarks: tuple[Watermark, ...]
    """Watermarks before the first read: every change that was searchable then is in the archive."""


@record
class ArchiveFile:
    """A Parquet file of an archive."""

    name: str
    holds: str
    """Collection: `documents`, `manifests`, `chunks`, or `chunks_…` for kinds of chunks with another embedder."""
    rows: int
    bytes: int
    sha256: str


@record
class LeftOut:
    """A document that an archive does not hold, because the index has lost rows of it."""

    tenant: TenantId
    document_id: DocumentId
    version: int
    problem: str


@record
class ArchiveVolume:
    """Consecutive documents, in the order of their root ids, with all their pages and rows."""

    number: int
    last: RootId
    """Root id of its last document; the next volume begins after it."""
    documents: int
    """Live documents."""
    deleted: int
    """Deletions that the index remembers."""
    chunks: int
    """Chunks of the live documents. Files may hold more rows: of revisions that were superseded meanwhile."""
    files: tuple[ArchiveFile, ...]
    left_out: tuple[LeftOut, ...] = ()


@record
class ArchiveManifest:
    """Contents of `manifest.json`, which only a complete archive has."""

    start: ArchiveStart
    ended_at: Timestamp
    volumes: tuple[ArchiveVolume, ...]

    @property
    def documents(self) -> int:
        """Number of live documents."""
        return sum(volume.documents for volume in self.volumes)

    @property
    def deleted(self) -> int:
        """Number of remembered deletions."""
        return sum(volume.deleted for volume in self.volumes)

    @property
    def chunks(self) -> int:
        """Number of chunks of the live documents."""
        return sum(volume.chunks for volume in self.volumes)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for volume in self.volumes for file in volume.files)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Documents that it does not hold."""
        return tuple(each for volume in self.volumes for each in volume.left_out)
