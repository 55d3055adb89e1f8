"""Commit protocol: revisions become visible atomically, and the newest one wins, with any number of concurrent writers.

docs/commit-protocol.md has the proof. In short: rows are never changed, so that no late call can undo another one.
Write rows and manifest pages under keys of this attempt. Check, with a strong read, that the revision whose rows are
reused is still the newest. Write the root: the commit. Then delete superseded rows, pages and roots.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from opentelemetry.trace import Tracer

from freki.operators.superseded import NO_ATTEMPT, superseded
from freki.schemas import RootId, Timestamp
from freki.schemas.arrays import Floats
from freki.schemas.index import Attempt, IndexedChunk, ManifestPage, Root, RowId, Watermark, deleted, standing
from freki.streams.ingest.index.pieces import MissingPartsError, Piece
from freki.streams.ingest.index.records import Manifest
from freki.streams.observe import attributes
from freki.streams.observe.tracing import UNTRACED, describe, step
from freki.streams.ports import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """Rows and pages of an attempt, invisible until a root refers to the pages."""

    attempt: Attempt
    rows: Mapping[RootId, Sequence[RowId]]
    pages: Mapping[RootId, Sequence[ManifestPage]]


class SweepResult(NamedTuple):
    """Result of sweeping a document."""

    root: Root | None
    """Standing root."""
    removed: int
    """Number of deleted chunk rows."""


class Committer:
    """Store calls of the protocol, for many documents at a time."""

    def __init__(
        self,
        *,
        store: Store,
        now: Callable[[], Timestamp],
        tracer: Tracer = UNTRACED,
        entropy: Callable[[], str] = lambda: secrets.token_hex(4),
    ) -> None:
        self._store = store
        self._now = now
        self._tracer = tracer
        self._entropy = entropy

    def new_attempt(self) -> Attempt:
        """Return a unique attempt name that sorts by time, as far as clocks agree, so that later attempts win."""
        return Attempt(f"{_time_prefix(self._now())}{self._entropy()}")

    async def look_up(self, root_ids: Collection[RootId]) -> Mapping[RootId, Root]:
        """Return the standing roots of documents."""
        with step(self._tracer, "look up", lambda: {attributes.FREKI_ITEMS: len(root_ids)}):
            return await self._store.roots(list(root_ids))

    async def write(
        self, attempt: Attempt, rows: Sequence[IndexedChunk], vectors: Floats, pages: Sequence[ManifestPage]
    ) -> Draft:
        """Write rows and pages of an attempt: rows first, because the rows of a page must exist."""
        with step(self._tracer, "write", lambda: {attributes.FREKI_ITEMS: len(rows)}):
            if rows:
                await self._store.insert(rows, vectors)
            await self._store.write_pages(pages)
        return Draft(
            attempt,
            _grouped((row.root_id, row.row_id) for row in rows),
            _grouped((page.root_id, page) for page in pages),
        )

    async def manifests(self, pieces: Sequence[Piece], draft: Draft) -> dict[RootId, Manifest | None]:
        """Return the manifests of revisions whose last part is in the draft; None if earlier parts are missing.

        Earlier parts were written and checked by this process or a previous owner of the partition.
        """
        split = [piece.root_id for piece in pieces if piece.parts[0].part > 0]
        heads = await self._store.page_heads(split) if split else {}
        manifests: dict[RootId, Manifest | None] = {}
        for piece in pieces:
            parts = {
                head.part: (head.page_id, len(head.row_ids))
                for head in sorted(heads.get(piece.root_id, ()), key=lambda head: head.attempt)
                if head.checked
                and (head.version, head.edition, head.cut) == (piece.revision.version, piece.edition, piece.cut)
            }
            parts |= {page.part: (page.page_id, len(page.entries)) for page in draft.pages[piece.root_id]}
            is_whole = set(parts) == set(range(piece.parts[-1].parts))
            manifests[piece.root_id] = (
                Manifest(tuple(parts[part][0] for part in sorted(parts)), sum(count for _, count in parts.values()))
                if is_whole
                else None
            )
        return manifests

    async def unchanged(self, bases: Mapping[RootId, Root | None]) -> tuple[set[RootId], Mapping[RootId, Root]]:
        """Return the documents whose standing root is still the base of the attempt, and the current roots of all.

        The rows of a checked attempt are safe: a process that deletes rows of its base has committed a newer revision
        before the check, or reads the attempt's pages before deleting.
        """
        with step(self._tracer, "check", lambda: {attributes.FREKI_ITEMS: len(bases)}):
            current = await self._store.roots(list(bases))
        same = {key for key, base in bases.items() if _identity(base) == _identity(current.get(key))}
        return same, current

    async def delete(self, roots: Collection[Root]) -> None:
        """Delete documents at the versions of these roots; newer versions of any writer stay."""
        attempt, now = self.new_attempt(), self._now()
        dead = [
            replace(deleted(root, tombstoned_at=root.tombstoned_at), attempt=attempt, searchable_at=now)
            for root in roots
        ]
        if dead:
            await self.commit(dead)
            await self.sweep([root.root_id for root in dead])

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Mark pages as checked, so that the process with the last part of their revision may commit them."""
        if pages:
            await self._store.mark_checked(pages)

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark] = ()) -> None:
        """Write roots: the commit point."""
        with step(self._tracer, "commit", lambda: {attributes.FREKI_ITEMS: len(roots)}):
            await self._store.commit(roots, watermarks)

    async def abandon(self, draft: Draft, root_ids: Collection[RootId]) -> None:
        """Delete an attempt's rows and pages of documents: no root refers to them, and none ever will."""
        await self._store.delete([row_id for key in root_ids for row_id in draft.rows.get(key, ())])
        await self._store.discard([page.page_id for key in root_ids for page in draft.pages.get(key, ())])

    async def fail_missing(self, pieces: Sequence[Piece], draft: Draft) -> None:
        """Abandon revisions whose earlier parts are missing, and raise MissingPartsError; without any do nothing."""
        if not pieces:
            return
        await self.abandon(draft, [piece.root_id for piece in pieces])
        first = pieces[0].revision
        raise MissingPartsError(
            f"{first.document_id!r} version {first.version}: its earlier parts are not in the"
            " store; publish the document again"
        )

    async def sweep(
        self, root_ids: Collection[RootId], *, abandoned_before: Timestamp | None = None
    ) -> dict[RootId, SweepResult]:
        """Delete superseded rows, pages and roots. Call it after a commit, and where a crash may have prevented it.

        abandoned_before: attempts that started earlier count as ended, whatever their rank.
        """
        keys = list(root_ids)
        if not keys:
            return {}
        with step(self._tracer, "sweep") as span:
            # Commits first: a page missing from the later read belongs to an attempt that has not checked yet.
            commits = await self._sealed(await self._store.commits(keys))
            pages, rows = await asyncio.gather(self._store.page_heads(keys), self._store.rows_of(keys))
            limit = NO_ATTEMPT if abandoned_before is None else _time_prefix(abandoned_before)
            gone = {key: superseded(commits[key], pages[key], rows[key], abandoned_before=limit) for key in keys}
            await self._store.delete(sorted(row_id for each in gone.values() for row_id in each.rows))
            page_ids = sorted(page_id for each in gone.values() for page_id in each.pages)
            commit_ids = sorted(commit_id for each in gone.values() for commit_id in each.commits)
            if page_ids or commit_ids:
                await self._store.discard(page_ids, commit_ids)
            describe(span, lambda: {attributes.FREKI_ITEMS: sum(len(each.rows) for each in gone.values())})
        return {key: SweepResult(standing(commits[key]), len(gone[key].rows)) for key in keys}

    async def _sealed(self, commits: Mapping[RootId, Sequence[Root]]) -> Mapping[RootId, Sequence[Root]]:
        """Commit a dead root for documents whose live roots a tombstone outdates, so that their content is deleted."""
        seals = {
            key: replace(deleted(root, tombstoned_at=root.tombstoned_at), attempt=self.new_attempt())
            for key, roots in commits.items()
            if (root := standing(roots)) is not None and root.deleted and all(each.rank != root.rank for each in roots)
        }
        if not seals:
            return commits
        await self._store.commit(list(seals.values()), [])
        return {key: [*roots, seals[key]] if key in seals else roots for key, roots in commits.items()}


def _grouped(pairs: Iterable[tuple[RootId, T]]) -> dict[RootId, list[T]]:
    found: dict[RootId, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _time_prefix(time: Timestamp) -> Attempt:
    """Return the prefix of names of attempts that start at a time."""
    return Attempt(f"{time:012x}")


def _identity(root: Root | None) -> tuple[object, ...]:
    return () if root is None else (root.rank, root.tombstoned_at)
