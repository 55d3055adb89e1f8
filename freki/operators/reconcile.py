"""Comparison of the index with the stream of changes."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from freki.schemas import DocumentChange, Operation, RootId
from freki.schemas.index import Root, RowId


class Expected(NamedTuple):
    """The state of a document according to the stream."""

    name: str
    """Tenant and document id, for display."""
    version: int
    deleted: bool
    content_hash: str
    """Empty where deleted."""


class Difference(NamedTuple):
    """A difference between index and stream."""

    name: str
    problem: str


def expect(
    before: Expected | None, name: str, change: DocumentChange | None, content_hash: str, *, buried: int = 0
) -> Expected | None:
    """Return the expected state of a document after one more change, None for a tombstone; the highest version wins.

    buried: version of the deletion that a tombstone follows; 0 where it has none and deletes everything before it.
    """
    version = 0 if before is None else before.version
    if change is None:
        return before if 0 < buried <= version else Expected(name, max(version, buried), deleted=True, content_hash="")
    wins = change.operation is Operation.DELETE and before is not None and not before.deleted
    if change.version < version or (change.version == version and not wins):
        return before
    if change.operation is Operation.DELETE:
        return Expected(name, change.version, deleted=True, content_hash="")
    return Expected(name, change.version, deleted=False, content_hash=content_hash)


def reconcile(expected: Mapping[RootId, Expected], roots: Iterable[Root]) -> list[Difference]:
    """Return the differences of roots from the stream, ordered by name; includes documents unknown to the stream."""
    found = {root.root_id: root for root in roots}
    differences = [
        Difference(document.name, problem)
        for key, document in expected.items()
        if (problem := _problem(document, found.get(key)))
    ]
    differences += [
        Difference(f"{root.tenant}/{root.document_id}", "is searchable, but not in the stream")
        for key, root in found.items()
        if key not in expected and not root.deleted
    ]
    return sorted(differences)


def surplus(expected: Mapping[RootId, Expected], roots: Iterable[Root]) -> list[Root]:
    """Return the live roots of documents that are deleted in, or missing from, the stream."""
    return [
        root for root in roots if not root.deleted and (root.root_id not in expected or expected[root.root_id].deleted)
    ]


def _problem(expected: Expected, root: Root | None) -> str:
    if expected.deleted:
        return "" if root is None or root.deleted else f"was deleted, but version {root.version} is searchable"
    if root is None:
        return f"version {expected.version} is not in the index"
    if root.deleted:
        return f"version {expected.version} is current, but the index has it as deleted at version {root.version}"
    if root.version != expected.version:
        return f"version {expected.version} is current, but version {root.version} is searchable"
    if root.content_hash != expected.content_hash:
        return f"version {root.version} has other content than the stream"
    return ""


def reconcile_rows(root: Root, manifest: Collection[RowId], pages: int, rows: Collection[RowId]) -> list[Difference]:
    """Return the differences between the rows of a document and its manifest."""
    name = f"{root.tenant}/{root.document_id}"
    named, stored = set(manifest), set(rows)
    problems = []
    if pages != len(root.pages):
        problems.append(f"has {pages} manifest pages, its root says {len(root.pages)}")
    if missing := len(named - stored):
        problems.append(f"{missing} chunks of its manifest have no row")
    if stale := len(stored - named):
        problems.append(f"{stale} rows are not in its manifest")
    return [Difference(name, problem) for problem in problems]
