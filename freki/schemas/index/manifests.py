"""Manifests: the ordered list of the live chunks of a revision, in pages."""

from typing import NamedTuple

from freki.schemas.index.keys import Attempt, PageId, RowId, page_id
from freki.schemas.names import ChunkId, RootId, record


@record
class ManifestEntry:
    """The fields of a live chunk that depend on its position in the revision."""

    chunk_id: ChunkId
    row_id: RowId
    path: str
    ordinal: int
    start: int
    end: int
    overlap: str
    first_page: int = 0
    last_page: int = 0
    """1-based pages of the chunk; 0 where the document has no pages."""


@record
class ManifestPage:
    """Part `part` of the ordered list of live chunks of a revision, written by one attempt; immutable."""

    root_id: RootId
    version: int
    edition: int
    attempt: Attempt
    part: int
    cut: str
    """Fingerprint of the division into parts: a revision consists of parts of one division."""
    entries: tuple[ManifestEntry, ...]

    @property
    def page_id(self) -> PageId:
        """Primary key."""
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
    """Whether the base of its rows was still the newest revision after it was written; required before commit."""
    row_ids: tuple[RowId, ...]


class Place(NamedTuple):
    """The page and row under which a manifest names a chunk."""

    page_id: PageId
    row_id: RowId
    position: int = 0
    """Index of its entry on the page."""
    entries: int = 1
    """Number of entries of the page."""
