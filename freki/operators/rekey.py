"""Revisions of an archive under keys of a new attempt, and whether an index needs them."""

from collections.abc import Sequence
from dataclasses import replace

from freki.schemas.index import (
    Attempt,
    IndexedChunk,
    ManifestPage,
    Root,
    page_id,
    row_id,
    standing,
)


def to_write(archived: Root, current: Root | None) -> Root | None:
    """Return the root that an index lacks, None if it has this revision or a newer one.

    archived, current: standing roots of one document, in the archive and in the index; current is None where the
    document is unknown. Like every standing root, the result is deleted if either root knows a later tombstone.
    """
    if current is None:
        return archived
    merged = standing([archived, current])
    return merged if merged is not None and _state(merged) > _state(current) else None


def _state(root: Root) -> tuple[int, bool, int]:
    return root.version, root.deleted, root.edition


def rekeyed_root(root: Root, attempt: Attempt) -> Root:
    """Return the root as committed by an attempt that also wrote all its pages."""
    pages = tuple(page_id(root.root_id, root.version, part, attempt) for part, _ in enumerate(root.pages))
    return replace(root, attempt=attempt, pages=pages)


def rekeyed_pages(root: Root, pages: Sequence[ManifestPage], attempt: Attempt) -> list[ManifestPage]:
    """Return the pages of a root, in its order, as written by an attempt that also wrote all their rows."""
    return [
        replace(
            page,
            version=root.version,
            edition=root.edition,
            attempt=attempt,
            part=part,
            entries=tuple(replace(entry, row_id=row_id(entry.chunk_id, attempt)) for entry in page.entries),
        )
        for part, page in enumerate(pages)
    ]


def rekeyed_row(row: IndexedChunk, root: Root, attempt: Attempt) -> IndexedChunk:
    """Return a row of a root as written by an attempt.

    It gets the version of the root although an older revision may have written it: a sweep deletes rows of older
    versions that no page names yet.
    """
    return replace(row, row_id=row_id(row.chunk_id, attempt), version=root.version, edition=root.edition)
