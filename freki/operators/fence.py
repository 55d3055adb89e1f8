"""The fence: whether a change of a document may replace the state of the index."""

from enum import StrEnum
from typing import NamedTuple

from freki.schemas import Revision, RevisionOperation
from freki.schemas.index import Root


class Action(StrEnum):
    """Action for a revision."""

    WRITE = "WRITE"
    """Write its chunks and commit its root."""
    REPEAT = "REPEAT"
    """The index holds this revision: write nothing, but delete rows that an earlier attempt may have left."""
    STALE = "STALE"
    """The index holds something newer: do nothing."""
    DELETE = "DELETE"
    """Commit a root that is marked deleted."""
    ALREADY_DELETED = "ALREADY_DELETED"
    """The document is deleted: commit nothing, but delete rows that an earlier attempt may have left."""


class Decision(NamedTuple):
    """An action, and its reason where it is not obvious."""

    action: Action
    reason: str = ""


def decide(root: Root | None, revision: Revision, *, metadata_hash: str, edition: int = 0) -> Decision:
    """Return the action for a revision, given the root of its document, or None where the document is unknown.

    edition: that a request to reindex the version asks for; 0 without a request.

    Upserts and deletes are ordered by version: the higher one wins, whatever the order and number of arrivals; a
    deletion wins over an upsert of the same version. A repeated version is a REPEAT if content and metadata are equal,
    even if it would be chunked differently now, and STALE if they differ: the first one keeps the version. A request
    for a higher edition than the index holds rewrites the version, whatever the index has of it. Each request is
    answered once, so owners with different settings do not replace each other's chunks in turn.
    A TOMBSTONE has no version. It deletes changes that were recorded before it, also those that arrive later, and keeps
    version and time as the fence. If versions grow with the time of recording, the final state of a document does not
    depend on the order of arrival.
    """
    match revision.operation:
        case RevisionOperation.UPSERT:
            return _upsert(root, revision, metadata_hash=metadata_hash, edition=edition)
        case RevisionOperation.DELETE:
            return _delete(root, revision)
        case RevisionOperation.TOMBSTONE:
            return _tombstone(root, revision)


def _upsert(root: Root | None, revision: Revision, *, metadata_hash: str, edition: int) -> Decision:
    if root is not None and revision.recorded_at < root.tombstoned_at:
        return _stale(f"version {revision.version} was recorded before the tombstone of its document")
    if root is None or _is_above(root, revision.version, edition):
        return Decision(Action.WRITE)
    if root.deleted:
        return _stale(f"version {revision.version} is not above {root.version}, at which it was deleted")
    if revision.version < root.version:
        return _stale(f"version {revision.version} is below {root.version}, which is indexed")
    if (revision.content_hash, metadata_hash) != (root.content_hash, root.metadata_hash):
        return _stale(
            f"version {root.version} was used before with other content or metadata: give each change a higher version",
        )
    return Decision(Action.REPEAT)


def _is_above(root: Root, version: int, edition: int) -> bool:
    """Return whether a revision ranks above a root; a deletion has no editions: it wins over its own version."""
    return version > root.version or (version == root.version and not root.deleted and edition > root.edition)


def _delete(root: Root | None, revision: Revision) -> Decision:
    if root is None or revision.version > root.version or (revision.version == root.version and not root.deleted):
        # Even if deleted already: the fence must rise to this version.
        return Decision(Action.DELETE)
    if root.deleted:
        return Decision(Action.ALREADY_DELETED)
    return _stale(f"the deletion has version {revision.version}, which is below {root.version}, the live one")


def _tombstone(root: Root | None, revision: Revision) -> Decision:
    if root is None:
        return Decision(Action.DELETE)
    if revision.recorded_at > (root.tombstoned_at if root.deleted else root.recorded_at):
        return Decision(Action.DELETE)
    if root.deleted:
        return Decision(Action.ALREADY_DELETED)
    return _stale(f"version {root.version} was recorded after the tombstone, or in the same millisecond")


def _stale(reason: str) -> Decision:
    return Decision(Action.STALE, reason)
