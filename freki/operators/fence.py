"""Whether a change of a document may be written over what the index holds of it."""

from enum import StrEnum
from typing import NamedTuple

from freki.schemas import Revision, RevisionOperation
from freki.schemas.index import Root


class Action(StrEnum):
    """What to do with a revision."""

    WRITE = "WRITE"
    """Write its chunks and commit its root."""
    REPEAT = "REPEAT"
    """It is what the index holds: nothing to write, but an earlier attempt may have left rows to sweep."""
    STALE = "STALE"
    """Something newer was seen before: nothing to do."""
    DELETE = "DELETE"
    """Commit a root that is marked deleted."""
    ALREADY_DELETED = "ALREADY_DELETED"
    """The document is gone: nothing to commit, but an earlier attempt may have left rows to sweep."""


class Decision(NamedTuple):
    """What to do, and why where that is not plain."""

    action: Action
    reason: str = ""


def decide(root: Root | None, revision: Revision, *, metadata_hash: str) -> Decision:
    """Fence a revision against the root of its document, or against None where the index knows no such document.

    Versions order what has one: of two upserts or deletes, the higher version wins, in whatever order they arrive and
    however often; a deletion wins over an upsert of its own version. The same version again is a REPEAT where content
    and metadata are the same, also if they would be chunked in another way by now, and STALE where they differ: what
    came first keeps the version. Other chunks for the same version are another generation of the index.
    A TOMBSTONE has no version. It deletes what was recorded before it, also what arrives later, and leaves version and
    time as the fence. So where the versions of a document grow with the time of recording, it ends in the same state in
    whatever order its events arrive.
    """
    match revision.operation:
        case RevisionOperation.UPSERT:
            return _upsert(root, revision, metadata_hash=metadata_hash)
        case RevisionOperation.DELETE:
            return _delete(root, revision)
        case RevisionOperation.TOMBSTONE:
            return _tombstone(root, revision)


def _upsert(root: Root | None, revision: Revision, *, metadata_hash: str) -> Decision:
    if root is not None and revision.recorded_at < root.tombstoned_at:
        return _stale(f"version {revision.version} was recorded before the tombstone of its document")
    if root is None or revision.version > root.version:
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


def _delete(root: Root | None, revision: Revision) -> Decision:
    if root is None or revision.version > root.version or (revision.version == root.version and not root.deleted):
        # Also where it is deleted already: the fence must rise to this version.
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
