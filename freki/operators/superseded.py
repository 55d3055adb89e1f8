"""What of a document's rows, pages and roots nobody can need any more."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from freki.schemas.index import Attempt, CommitId, PageHead, PageId, Root, RowHead, RowId, standing


class Superseded(NamedTuple):
    """Keys that may be deleted at any time from now on."""

    rows: tuple[RowId, ...]
    pages: tuple[PageId, ...]
    commits: tuple[CommitId, ...]


NO_ATTEMPT = Attempt("")
"""Sorts before every attempt."""


def superseded(
    commits: Collection[Root],
    pages: Collection[PageHead],
    rows: Iterable[RowHead],
    *,
    abandoned_before: Attempt = NO_ATTEMPT,
) -> Superseded:
    """List what the root that counts neither names nor leaves to a revision that may still come.

    commits, pages, rows: all of one document; the pages must have been read after the commits. Pages that a revision
    above the root could name, and the rows that they name, stay. A row that no page names goes, unless it was written
    for a higher version or edition: a page that names it would be written after the root, and fail its check.
    A root that carries a later tombstone than the highest one stays. Attempts before `abandoned_before` are over: what
    no root names of them goes too. Where no root counts nothing else does.
    """
    root = standing(commits)
    live = set(root.pages) if root is not None else set()
    dead = [
        page
        for page in pages
        if page.page_id not in live
        and (page.attempt < abandoned_before or (root is not None and _outlives(root, page, pages)))
    ]
    dropped = {page.page_id for page in dead}
    kept = {row_id for page in pages if page.page_id not in dropped for row_id in page.row_ids}
    given_up = {row_id for page in dead for row_id in page.row_ids}

    def is_over(row: RowHead) -> bool:
        if row.row_id in given_up or _attempt(row.row_id) < abandoned_before:
            return True
        return root is not None and (row.version, False, row.edition) <= (root.version, root.deleted, root.edition)

    return Superseded(
        tuple(row.row_id for row in rows if row.row_id not in kept and is_over(row)),
        tuple(page.page_id for page in dead),
        _outranked(commits),
    )


def _outlives(root: Root, page: PageHead, pages: Collection[PageHead]) -> bool:
    """Tell whether every revision that could still name a page ranks below the root.

    Such a revision was checked before the root was committed, so all its pages are here: one of part 0, and those of
    the attempt that commits it, which are not the root's. So both bounds of its rank are known.
    """
    if (page.version, page.edition) != (root.version, root.edition) or root.deleted:
        return (page.version, False, page.edition) < (root.version, root.deleted, root.edition)
    alike = [each for each in pages if (each.version, each.edition, each.cut) == (page.version, page.edition, page.cut)]
    begun = min(page.attempt, max((each.attempt for each in alike if each.part == 0), default=NO_ATTEMPT))
    attempt = max(each.attempt for each in alike if each.page_id not in root.pages)
    return (begun, attempt) < (root.rank.begun, root.attempt)


def _attempt(row_id: RowId) -> Attempt:
    return Attempt(row_id.rpartition("-")[2])


def _outranked(commits: Collection[Root]) -> tuple[CommitId, ...]:
    if not commits:
        return ()
    highest = max(commits, key=lambda commit: commit.rank)
    return tuple(
        commit.commit_id
        for commit in commits
        if commit.rank < highest.rank and commit.tombstoned_at <= highest.tombstoned_at
    )
