"""Roots commit revisions; watermarks say how far the index has followed the stream."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from freki.schemas.index.keys import Attempt, CommitId, PageId, attempt_of_page
from freki.schemas.names import DocumentId, RootId, TenantId, Timestamp, record


class Rank(NamedTuple):
    """Order of the revisions of a document, whoever wrote them when: the highest one that is committed counts."""

    version: int
    deleted: bool
    """A deletion wins over its own version."""
    edition: int
    begun: Attempt
    """The oldest attempt that wrote a part of it."""
    attempt: Attempt
    """The one that committed it."""


@record
class Root:
    """The row that commits a revision of a document. There may be several: `standing` says which one counts."""

    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    version: int
    edition: int = 0
    """Grows where chunks of a version get better contexts, or rows that were lost are written again."""
    attempt: Attempt
    deleted: bool
    """Kept without content for a while, so that a late event cannot raise the dead."""
    pages: tuple[PageId, ...]
    """The manifest, in reading order; empty where deleted."""
    chunks: int
    content_hash: str
    metadata_hash: str
    chunker: str
    embedder: str
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
    """What was recorded before that is gone, whatever its version; 0 where versions say all."""

    @property
    def rank(self) -> Rank:
        """Its place among the roots of its document."""
        begun = min(map(attempt_of_page, self.pages), default=self.attempt)
        return Rank(self.version, self.deleted, self.edition, begun, self.attempt)

    @property
    def commit_id(self) -> CommitId:
        """Its primary key."""
        state = "deleted" if self.deleted else str(self.edition)
        return CommitId(f"{self.root_id}:{self.version}:{state}:{self.attempt}")


def standing(roots: Iterable[Root]) -> Root | None:
    """Choose the root of a document that counts: the same one, in whatever order they were written.

    That is the one of the highest rank. A live one that was recorded before a tombstone of its document is given back
    as deleted at its version. None where there is no root.
    """
    every = list(roots)
    if not every:
        return None
    highest = max(every, key=lambda root: root.rank)
    tombstoned_at = max(root.tombstoned_at for root in every)
    if not highest.deleted and highest.recorded_at < tombstoned_at:
        return deleted(highest, tombstoned_at=tombstoned_at)
    return replace(highest, tombstoned_at=tombstoned_at)


def deleted(root: Root, *, tombstoned_at: Timestamp) -> Root:
    """Keep of a root what fences late events and who may know of it, and nothing of its content."""
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
    """How far one partition of the stream is in the index; written with the roots."""

    partition: int
    occurred_at: Timestamp
    """The latest change that is searchable."""
    committed_at: Timestamp
    commits: int = 0
    """Grows with every commit, whatever the clocks of those who commit say."""
