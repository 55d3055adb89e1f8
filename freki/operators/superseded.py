"""Garbage collection of a document: rows, pages and roots that no revision can need any more."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from freki.schemas.index import Attempt, CommitId, PageHead, PageId, Root, RowHead, RowId, attempt_of_row, standing


class Superseded(NamedTuple):
    """Keys that may be deleted from now on."""

    rows: tuple[RowId, ...]
    pages: tuple[PageId, ...]
    commits: tuple[CommitId, ...]


NO_ATTEMPT = Attempt("")
"""An attempt that sorts before all others."""


def superseded(
    commits: Collection[Root],
    pages: Collection[PageHead],
    rows: Iterable[RowHead],
    *,
    abandoned_before: Attempt = NO_ATTEMPT,
) -> Superseded:
    """Return the keys that neither the current root nor any revision that may still be committed refers to.

    commits, pages, rows: all of one document; pages must have been read after commits. Pages that a revision above
    the root could name, and their rows, are kept. A row without a page is deleted unless it belongs to a higher version
    or edition: a page that names it would be written after the root, and fail its check. A root with a later tombstone
    than the highest one is kept. Attempts before `abandoned_before` have ended: everything of them that no root names
    is deleted. Without a current root, only such attempts are.
    """
    root = standing(commits)
    live = set(root.pages) if root is not None else set()
    is_page_over = _over(root, [page for page in pages if page.page_id not in live], pages)
    dead = [
        page for page in pages if page.page_id not in live and (page.attempt < abandoned_before or is_page_over(page))
    ]
    dropped = {page.page_id for page in dead}
    kept = {row_id for page in pages if page.page_id not in dropped for row_id in page.row_ids}
    given_up = {row_id for page in dead for row_id in page.row_ids}

    def is_row_over(row: RowHead) -> bool:
        if row.row_id in given_up or attempt_of_row(row.row_id) < abandoned_before:
            return True
        return root is not None and (row.version, False, row.edition) <= (root.version, root.deleted, root.edition)

    return Superseded(
        tuple(row.row_id for row in rows if row.row_id not in kept and is_row_over(row)),
        tuple(page.page_id for page in dead),
        _outranked(commits),
    )


def _over(root: Root | None, unnamed: Iterable[PageHead], pages: Iterable[PageHead]) -> Callable[[PageHead], bool]:
    """Return a predicate: whether every revision that could still name a page ranks below the root.

    A revision of the root's version was checked before the root was committed, so all its pages were read: one of part
    0, and those of the attempt that commits it, which the root does not name. They bound its rank.
    """
    if root is None:
        return lambda _: False
    rank = root.rank
    standing_at = (rank.version, rank.deleted, rank.edition)
    begun = _latest(page for page in pages if page.part == 0)
    committing = _latest(unnamed)

    def is_over(page: PageHead) -> bool:
        if (page.version, False, page.edition) != standing_at:
            return (page.version, False, page.edition) < standing_at
        alike = _revision(page)
        return (min(page.attempt, begun.get(alike, NO_ATTEMPT)), committing[alike]) < (rank.begun, rank.attempt)

    return is_over


def _latest(pages: Iterable[PageHead]) -> dict[tuple[int, int, str], Attempt]:
    found: dict[tuple[int, int, str], Attempt] = {}
    for page in pages:
        found[_revision(page)] = max(found.get(_revision(page), NO_ATTEMPT), page.attempt)
    return found


def _revision(page: PageHead) -> tuple[int, int, str]:
    return page.version, page.edition, page.cut


def _outranked(commits: Collection[Root]) -> tuple[CommitId, ...]:
    if not commits:
        return ()
    highest = max(commits, key=lambda commit: commit.rank)
    return tuple(
        commit.commit_id
        for commit in commits
        if commit.rank < highest.rank and commit.tombstoned_at <= highest.tombstoned_at
    )
