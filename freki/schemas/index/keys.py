"""Primary keys of the rows of an index."""

from typing import NewType

from freki.schemas.names import ChunkId, RootId

Attempt = NewType("Attempt", str)
"""Id of one attempt of one worker to write a part of a revision; unique, and ordered by time for the same clock."""
RowId = NewType("RowId", str)
"""Primary key of a chunk row: chunk and attempt. A row is written once and never changed."""
PageId = NewType("PageId", str)
"""Primary key of a manifest page: document, version, part and attempt."""
CommitId = NewType("CommitId", str)
"""Primary key of a root: document, version, edition and attempt."""


def row_id(chunk_id: ChunkId, attempt: Attempt) -> RowId:
    """Return the key of the row of a chunk that an attempt writes."""
    return RowId(f"{chunk_id}-{attempt}")


def chunk_of_row(row_id: RowId) -> ChunkId:
    """Return the chunk of a row."""
    return ChunkId(row_id.rpartition("-")[0])


def attempt_of_row(row_id: RowId) -> Attempt:
    """Return the attempt that wrote a row."""
    return Attempt(row_id.rpartition("-")[2])


def page_id(root_id: RootId, version: int, part: int, attempt: Attempt) -> PageId:
    """Return the key of a manifest page."""
    return PageId(f"{root_id}:{version}:{part}:{attempt}")


def root_of_page(page_id: PageId) -> RootId:
    """Return the root of the document of a manifest page."""
    return RootId(page_id.partition(":")[0])


def attempt_of_page(page_id: PageId) -> Attempt:
    """Return the attempt that wrote a manifest page."""
    return Attempt(page_id.rpartition(":")[2])
