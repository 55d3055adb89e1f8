"""What of a document's rows, pages and roots nobody can need any more."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from freki.schemas.index import Attempt, CommitId, PageHead, PageId, Root, RowHead, RowId, WrittenFor, standing


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

    commits, pages, rows: all of one document; the pages must have been read after the commits. A revision ranks by the
    oldest attempt of its pages, so that what an attempt wrote can only be named by revisions that rank below a root
    which was begun later. Other pages belong to revisions in flight: they and the rows that they name stay. A row that
    no page names may belong to an attempt that has not written its pages yet.
    A root that carries a later tombstone than the highest one stays. Attempts before `abandoned_before` are over: what
    no root names of them goes too. Where no root counts nothing else does.
    """
    root = standing(commits)
    live = set(root.pages) if root is not None else set()

    def is_over(written_for: WrittenFor) -> bool:
        if written_for.attempt < abandoned_before:
            return True
        return root is not None and root.rank.outlives(written_for)

    dead = [page for page in pages if page.page_id not in live and is_over(page.written_for)]
    dropped = {page.page_id for page in dead}
    kept = {row_id for page in pages if page.page_id not in dropped for row_id in page.row_ids}
    given_up = {row_id for page in dead for row_id in page.row_ids}
    return Superseded(
        tuple(
            row.row_id
            for row in rows
            if row.row_id not in kept and (row.row_id in given_up or is_over(row.written_for))
        ),
        tuple(page.page_id for page in dead),
        _outranked(commits),
    )


def _outranked(commits: Collection[Root]) -> tuple[CommitId, ...]:
    if not commits:
        return ()
    highest = max(commits, key=lambda commit: commit.rank)
    return tuple(
        commit.commit_id
        for commit in commits
        if commit.rank < highest.rank and commit.tombstoned_at <= highest.tombstoned_at
    )
