"""What of a document's rows, pages and roots nobody can need any more."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from freki.schemas.index import CommitId, PageHead, PageId, Root, RowHead, RowId, standing


class Superseded(NamedTuple):
    """Keys that may be deleted at any time from now on."""

    rows: tuple[RowId, ...]
    pages: tuple[PageId, ...]
    commits: tuple[CommitId, ...]


NOTHING = Superseded((), (), ())


def superseded(commits: Collection[Root], pages: Collection[PageHead], rows: Iterable[RowHead]) -> Superseded:
    """List what the root that counts neither names nor leaves to a revision that may still come.

    commits, pages, rows: all of one document; the pages must have been read after the commits. Pages of a higher rank
    than the root belong to revisions in flight, so they and the rows that they name stay. A row that no page names may
    belong to an attempt that has not written its pages yet; it goes if that attempt can only end below the root.
    A root that carries a later tombstone than the highest one stays. Where no root counts nothing is superseded.
    """
    root = standing(commits)
    if root is None:
        return NOTHING
    live = set(root.pages)
    dead = [page for page in pages if page.page_id not in live and page.rank < root.rank]
    dropped = {page.page_id for page in dead}
    kept = {row_id for page in pages if page.page_id not in dropped for row_id in page.row_ids}
    given_up = {row_id for page in dead for row_id in page.row_ids}
    highest = max(commits, key=lambda commit: commit.rank)
    return Superseded(
        tuple(
            row.row_id for row in rows if row.row_id not in kept and (row.row_id in given_up or row.rank < root.rank)
        ),
        tuple(page.page_id for page in dead),
        tuple(
            commit.commit_id
            for commit in commits
            if commit.rank < highest.rank and commit.tombstoned_at <= highest.tombstoned_at
        ),
    )
