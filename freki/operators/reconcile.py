"""Comparison of the index with the stream of changes."""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from freki.schemas import DocumentChange, Operation
from freki.schemas.index import Root, RowId


class Expected(NamedTuple):
    """The state of a document according to the stream."""

    name: str
    """Tenant and document id, for display."""
    version: int
    deleted: bool
    content_hash: str
    """Empty where deleted."""


class RepairAction(StrEnum):
    """How a difference can be repaired."""

    DELETE = "DELETE"
    """Delete the document from the index."""
    REINDEX = "REINDEX"
    """Send its change again, with a request to reindex the version."""
    SWEEP = "SWEEP"
    """Delete rows that nothing names."""
    SEND_NULLS = "SEND_NULLS"
    """Send null values to the partitions of the topic that hold superseded content."""
    BY_HAND = "BY_HAND"
    """Only by its producer; the problem says how."""


class Difference(NamedTuple):
    """A difference between index and stream."""

    name: str
    problem: str
    repair: RepairAction = RepairAction.BY_HAND


def expect(
    before: Expected | None, name: str, change: DocumentChange | None, content_hash: str, *, tombstone_version: int = 0
) -> Expected | None:
    """Return the expected state of a document after one more change, None for a tombstone; the highest version wins.

    tombstone_version: version that a tombstone deletes, as a deletion does; 0: it has none and deletes everything
    before it.
    """
    version = 0 if before is None else before.version
    if change is None and not tombstone_version:
        return Expected(name, version, deleted=True, content_hash="")
    at = tombstone_version if change is None else change.version
    deletes = change is None or change.operation is Operation.DELETE
    wins = deletes and before is not None and not before.deleted
    if at < version or (at == version and not wins):
        return before
    return Expected(name, at, deleted=deletes, content_hash="" if deletes else content_hash)


def reconcile(expected: Expected | None, root: Root | None) -> Difference | None:
    """Return the difference of the root of a document from the stream; None where one of them lacks the document."""
    if expected is not None:
        problem = _problem(expected, root)
        return None if problem is None else Difference(expected.name, *problem)
    if root is None or root.deleted:
        return None
    return Difference(f"{root.tenant}/{root.document_id}", "is searchable, but not in the stream", RepairAction.DELETE)


def _problem(expected: Expected, root: Root | None) -> tuple[str, RepairAction] | None:
    if expected.deleted:
        if root is None or root.deleted:
            return None
        return (f"was deleted, but version {root.version} is searchable", RepairAction.DELETE)
    if root is None:
        return f"version {expected.version} is not in the index", RepairAction.REINDEX
    if root.version == expected.version and not root.deleted:
        same = root.content_hash == expected.content_hash
        return None if same else (f"version {root.version} has other content than the stream", RepairAction.REINDEX)
    at = f"version {root.version}"
    state = f"the index has it as deleted at {at}" if root.deleted else f"{at} is searchable"
    problem = f"version {expected.version} is current, but {state}"
    if root.version < expected.version:
        return problem, RepairAction.REINDEX
    advice = "the highest version wins: publish the document again with a higher one"
    return f"{problem}, and {advice}", RepairAction.BY_HAND


def reconcile_rows(root: Root, manifest: Collection[RowId], pages: int, rows: Collection[RowId]) -> list[Difference]:
    """Return the differences between the rows of a document and its manifest."""
    name = f"{root.tenant}/{root.document_id}"
    named, stored = set(manifest), set(rows)
    differences = []
    if pages != len(root.pages):
        problem = f"has {pages} manifest pages, its root says {len(root.pages)}"
        differences.append(Difference(name, problem, RepairAction.REINDEX))
    if missing := len(named - stored):
        problem = f"rows missing: {missing} of {len(named)}"
        differences.append(Difference(name, problem, RepairAction.REINDEX))
    if stale := len(stored - named):
        differences.append(
            Difference(name, f"rows that its manifest does not name: {stale} of {len(stored)}", RepairAction.SWEEP)
        )
    return differences
