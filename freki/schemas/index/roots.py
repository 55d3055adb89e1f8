"""Roots, which commit revisions; watermarks, the progress of the index in the stream."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from freki.schemas.index.keys import Attempt, CommitId, PageId, attempt_of_page
from freki.schemas.index.manifests import Place
from freki.schemas.names import ChunkId, DocumentId, RootId, TenantId, Timestamp, record


class Rank(NamedTuple):
    """Total order of the roots of a document, independent of writer and time of writing: the highest one counts."""

    version: int
    deleted: bool
    """A deletion wins over its own version."""
    edition: int
    begun: Attempt
    """Oldest attempt that wrote a part of the revision."""
    attempt: Attempt
    """Attempt that committed the revision."""


@record
class Root:
    """The row that commits a revision of a document; of several, `standing` chooses the one that counts."""

    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    version: int
    edition: int = 0
    """Grows when a version is reindexed, its chunks get missing contexts, or lost rows are written again. 0 as first
    written; where a request asked for it, the time of the request in milliseconds since 1970."""
    attempt: Attempt
    deleted: bool
    """Deleted; kept without content for a while, so that a late event cannot restore the document."""
    pages: tuple[PageId, ...]
    """Manifest pages in reading order; empty where deleted."""
    chunks: int
    content_hash: str
    metadata_hash: str
    chunker: str
    """Fingerprint of parser, chunker and contexts."""
    embedder: str
    fingerprint: str
    """Of all rules that the revision was made by (`operators.fingerprint`); empty where deleted."""
    name: str
    media_type: str
    language: str
    source_uri: str | None
    principals: tuple[str, ...]
    attributes: Mapping[str, str]
    characters: int
    occurred_at: Timestamp
    recorded_at: Timestamp
    received_at: Timestamp
    searchable_at: Timestamp
    tombstoned_at: Timestamp = Timestamp(0)
    """Changes recorded before this time are deleted, whatever their version; 0 without a tombstone."""

    @property
    def rank(self) -> Rank:
        """Rank among the roots of its document."""
        begun = min(map(attempt_of_page, self.pages), default=self.attempt)
        return Rank(self.version, self.deleted, self.edition, begun, self.attempt)

    @property
    def commit_id(self) -> CommitId:
        """Primary key."""
        state = "deleted" if self.deleted else str(self.edition)
        return CommitId(f"{self.root_id}:{self.version}:{state}:{self.attempt}")


def standing(roots: Iterable[Root]) -> Root | None:
    """Return the root of a document that counts: the one of the highest rank, whatever the order of writing.

    A live root that was recorded before a tombstone of its document is returned as deleted at its version, since the
    last of its roots was written. None where there is no root.
    """
    every = list(roots)
    if not every:
        return None
    highest = max(every, key=lambda root: root.rank)
    tombstoned_at = max(root.tombstoned_at for root in every)
    if not highest.deleted and highest.recorded_at < tombstoned_at:
        # As old as the content, the deletion would be purged at once, and what is older would be new again.
        since = max(root.searchable_at for root in every)
        return replace(deleted(highest, tombstoned_at=tombstoned_at), searchable_at=since)
    return replace(highest, tombstoned_at=tombstoned_at)


def deleted(root: Root, *, tombstoned_at: Timestamp) -> Root:
    """Return the root as deleted: without content, with the fields that fence late events and control access."""
    return replace(
        root,
        deleted=True,
        edition=0,
        pages=(),
        chunks=0,
        content_hash="",
        metadata_hash="",
        chunker="",
        embedder="",
        fingerprint="",
        name="",
        media_type="",
        language="und",
        source_uri=None,
        attributes={},
        characters=0,
        tombstoned_at=tombstoned_at,
    )


@record
class Watermark:
    """Progress of one partition of the stream in the index; written with the roots."""

    partition: int
    occurred_at: Timestamp
    """Time of the latest searchable change."""
    committed_at: Timestamp
    commits: int = 0
    """Number of commits; grows independently of clocks."""


def places_in(
    root: Root, naming: Mapping[PageId, Mapping[ChunkId, Place]], chunk_ids: Collection[ChunkId]
) -> dict[ChunkId, Place]:
    """Return the places of chunks on the pages of a root, in reading order.

    naming: places by page, also of other chunks and of pages of other revisions.
    """
    named = (each for page in root.pages for each in naming.get(page, {}).items())
    return {chunk_id: place for chunk_id, place in named if chunk_id in chunk_ids}
