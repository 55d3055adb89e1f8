"""Manifests: the ordered list of the live chunks of a revision, in pages."""

from typing import NamedTuple

from freki.schemas.index.keys import Attempt, PageId, RowId, page_id
from freki.schemas.names import ChunkId, RootId, record


@record
class ManifestEntry:
    """Where a live chunk stands in its revision: what depends on position."""

    chunk_id: ChunkId
    row_id: RowId
    path: str
    ordinal: int
    start: int
    end: int
    overlap: str
    first_page: int = 0
    last_page: int = 0
    """As those of the chunk."""


@record
class ManifestPage:
    """Part `part` of the ordered list of live chunks of one revision, as one attempt wrote it; never changed."""

    root_id: RootId
    version: int
    edition: int
    attempt: Attempt
    part: int
    cut: str
    """Fingerprint of how the revision was cut: only parts of one cut make a revision."""
    entries: tuple[ManifestEntry, ...]

    @property
    def page_id(self) -> PageId:
        """Its primary key."""
        return page_id(self.root_id, self.version, self.part, self.attempt)


@record
class PageHead:
    """A manifest page without positions."""

    page_id: PageId
    version: int
    edition: int
    attempt: Attempt
    part: int
    cut: str
    checked: bool
    """Was the base of its rows still the newest revision after it was written? Only then may a root name it."""
    row_ids: tuple[RowId, ...]


class Place(NamedTuple):
    """Where the manifest of a document names a chunk."""

    page_id: PageId
    row_id: RowId
