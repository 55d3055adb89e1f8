"""Publish the commits of a Git branch as document changes."""

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freki.operators.errors import UnreadableContent
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.names import invalid_id_reason, record
from freki.streams.feed.ledger import ITSELF, SourceLedger
from freki.streams.ports import Repository

BATCH_CHANGES = 64
"""Maximum changes published together: enough for few round trips, few enough to hold in memory."""
BATCH_BYTES = 8_000_000
"""Content size that ends a batch of changes, in bytes."""
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
"""Beginning of a file that stands for one in Git LFS, by its specification."""

Publish = Callable[[Sequence[DocumentChange]], Awaitable[None]]
"""Publisher of changes; returns when the broker has stored them."""
MediaType = Callable[[str, bytes], str | None]
"""Media type of a file by path and content. Raises Rejected or UnreadableContent if it cannot be a document."""


@record
class Mark:
    """Ledger entry: the published blob of a path, or the commit that the source has reached."""

    version: int
    state: str
    """Blob or commit; empty if deleted. A blob that cannot be a document counts as published."""
    readers: str
    """Principals of the published document: the same content with other principals is another change."""
    pending: bool = False
    """Whether publishing was started and its result is unknown."""


@record
class Target:
    """Desired state of a path; blob None: deleted."""

    path: str
    blob: str | None
    commit: str
    time: Timestamp
    version: int

    @property
    def item(self) -> str:
        """Key in the ledger: one for all paths that are one document."""
        return _item(self.path)


@dataclass
class SyncReport:
    """Result of a sync."""

    upserts: int = 0
    deletes: int = 0
    left_out: list[str] = field(default_factory=list)
    """Path and reason of each file that cannot be a document."""


@record
class DocumentFields:
    """Common fields of all documents of a repository."""

    name: str
    """First part of document ids."""
    tenant: TenantId
    principals: tuple[str, ...]
    priority: int


class GitSource:
    """Publisher of a branch that continues from the state in its ledger.

    Each path is a document; paths that differ in Unicode form only are one, of the file in form NFC if it is there. Its
    version is that of the last commit that changed it: the commit's time, but greater than
    the version of the previous commit on the branch, whatever the clocks say. After a rewrite of the branch, versions
    continue above all published ones, and documents become those of the new head.
    """

    def __init__(
        self,
        repository: Repository,
        ledger: SourceLedger[Mark],
        publish: Publish,
        *,
        documents: DocumentFields,
        is_skipped: Callable[[str], bool],
        media_type: MediaType,
    ) -> None:
        self._repository = repository
        self._ledger = ledger
        self._publish = publish
        self._documents = documents
        self._readers = " ".join(sorted(documents.principals))
        self._is_skipped = is_skipped
        self._media_type = media_type

    async def sync(self, *, history: bool, force: bool = False) -> SyncReport:
        """Publish changes up to the branch's head: with `history` commit by commit, else only the final state.

        force: publish the head as a whole, files that are published already with a higher version.
        """
        report = SyncReport()
        head = await asyncio.to_thread(self._repository.head)
        last = self._ledger[ITSELF]
        is_done = last is not None and (last.state, last.readers, last.pending) == (head, self._readers, False)
        if is_done and not force:
            return report
        if last is not None:
            # A branch may return to this commit after other commits of it were published.
            await self._ledger.write({ITSELF: replace(last, pending=True)})
        commits, version = await asyncio.to_thread(self._targets, head, last, whole=force)
        for targets in commits if history else [await asyncio.to_thread(_final_targets, commits)]:
            await self._publish_targets(targets, report, force=force)
            if history and targets:
                reached = self._mark(targets[-1].commit, targets[-1].version)
                await self._ledger.write({ITSELF: replace(reached, pending=True)})
        await self._publish_targets(await asyncio.to_thread(self._outdated, head, version, report), report)
        await self._ledger.write({ITSELF: self._mark(head, version)})
        return report

    def _targets(self, head: str, last: Mark | None, *, whole: bool) -> tuple[Iterable[list[Target]], int]:
        """Return the targets of each commit, or of the whole head, and the version of the source afterwards."""
        min_version = 0 if last is None else last.version
        since = None if last is None else last.state
        if last is not None and (whole or last.readers != self._readers or not self._repository.has(last.state)):
            commit, time = self._repository.commit(head)
            version = max(time, min_version + 1)
            return [self._compared(self._repository.tree(head), commit, time, version)], version
        commits = self._repository.commits(since, head)
        versions: dict[str, int] = {}
        for commit, time in commits:
            min_version = versions[commit] = max(time, min_version + 1)
        return self._changed(since, commits, versions), min_version

    def _changed(
        self, since: str | None, commits: Sequence[tuple[str, Timestamp]], versions: Mapping[str, int]
    ) -> Iterator[list[Target]]:
        for (commit, time), changes in self._repository.changes(since, commits):
            version = versions[commit]
            targets = [
                Target(path=path, blob=blob, commit=commit, time=time, version=version) for path, blob in changes
            ]
            # A path in another Unicode form that goes takes nothing from the one that stays.
            targets.sort(key=lambda target: (target.blob is not None, *_rank(target.path)))
            yield list({target.item: target for target in targets}.values())

    def _compared(self, tree: Mapping[str, str], commit: str, time: Timestamp, version: int) -> list[Target]:
        paths = {item: item for item, _ in self._ledger} | {_item(path): path for path in sorted(tree, key=_rank)}
        return [
            Target(path=path, blob=tree.get(path), commit=commit, time=time, version=version)
            for path in sorted(paths.values())
        ]

    def _outdated(self, head: str, version: int, report: SyncReport) -> list[Target]:
        """Return the paths that differ from the head.

        They do because of a crash followed by a rewrite of the branch or a run for other readers, or because several
        are one document.
        """
        commit, time = self._repository.commit(head)
        tree = self._repository.tree(head)
        compared = self._compared(tree, commit, time, version)
        chosen = {target.item: target.path for target in compared}
        report.left_out += [
            f"{path!a}: its name is that of {chosen[_item(path)]!a} in another Unicode form: rename one of them"
            for path in tree
            if path != chosen[_item(path)]
        ]
        return [target for target in compared if self._is_outdated(target)]

    def _is_outdated(self, target: Target) -> bool:
        mark = self._ledger[target.item]
        if mark is None:
            return False
        # A run for other readers may have been killed after some of its documents.
        is_for_others = bool(mark.state) and mark.readers != self._readers
        return mark.pending or is_for_others or mark.state != (target.blob or "")

    async def _publish_targets(self, targets: Iterable[Target], report: SyncReport, *, force: bool = False) -> None:
        """Publish the changes to targets of different paths in batches, and record them in the ledger."""
        changes: list[DocumentChange] = []
        marks: dict[str, Mark] = {}
        content_bytes = 0
        for target in targets:
            change = await asyncio.to_thread(self._change, target, report, force=force)
            if change is None:
                continue
            changes.append(change)
            marks[target.item] = self._mark(target.blob, change.version)
            content_bytes += len(change.content or b"")
            if len(changes) >= BATCH_CHANGES or content_bytes >= BATCH_BYTES:
                await self._flush(changes, marks, report)
                changes, marks, content_bytes = [], {}, 0
        await self._flush(changes, marks, report)

    async def _flush(self, changes: Sequence[DocumentChange], marks: Mapping[str, Mark], report: SyncReport) -> None:
        await self._ledger.write({path: replace(mark, pending=True) for path, mark in marks.items()})
        await self._publish(changes)
        await self._ledger.write(marks)
        deletes = sum(change.operation is Operation.DELETE for change in changes)
        report.deletes += deletes
        report.upserts += len(changes) - deletes

    def _mark(self, state: str | None, version: int) -> Mark:
        return Mark(version=version, state=state or "", readers=self._readers)

    def _change(self, target: Target, report: SyncReport, *, force: bool) -> DocumentChange | None:
        """Return the change of a path to its target; None if it has this state, unless it is a file and forced."""
        known = self._ledger[target.item]
        is_same = known is not None and (known.state, known.readers) == (target.blob or "", self._readers)
        is_same = is_same and not (force and target.blob is not None)
        if known is None:
            version = target.version
        elif not is_same:
            version = max(target.version, known.version + 1)
        elif known.pending:
            version = known.version
        else:
            return None
        upsert = None if target.blob is None else self._upsert(target, target.blob, version, report)
        if upsert is not None or known is None or not (known.state or known.pending):
            return upsert
        return DocumentChange(
            tenant=self._documents.tenant,
            document_id=self._document_id(target.path),
            operation=Operation.DELETE,
            version=version,
            occurred_at=target.time,
            priority=self._documents.priority,
        )

    def _upsert(self, target: Target, blob: str, version: int, report: SyncReport) -> DocumentChange | None:
        if any(map(self._is_skipped, target.path.split("/"))):
            return None
        if reason := invalid_id_reason(self._document_id(target.path)):
            report.left_out.append(f"{target.path!a}: {reason}")
            return None
        try:
            content = self._repository.read(blob)
            _check_whole(content)
            media_type = self._media_type(target.path, content)
        except (Rejected, UnreadableContent) as error:
            reason = str(error).removeprefix(f"{target.path}: ")
            report.left_out.append(f"{target.path!a}: {reason}")
            return None
        return DocumentChange(
            tenant=self._documents.tenant,
            document_id=self._document_id(target.path),
            operation=Operation.UPSERT,
            version=version,
            occurred_at=target.time,
            name=target.path.rpartition("/")[2],
            media_type=media_type,
            principals=self._documents.principals,
            attributes={"path": target.path, "commit": target.commit},
            priority=self._documents.priority,
            content=content,
        )

    def _document_id(self, path: str) -> DocumentId:
        return DocumentId(_item(f"{self._documents.name}/{path}"))


def _check_whole(content: bytes) -> None:
    if content.startswith(_LFS_POINTER):
        raise Rejected(
            "its content is in Git LFS, and the repository has a pointer to it: use `freki publish` on a checkout"
        )


def _item(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _rank(path: str) -> tuple[bool, str]:
    """Return an order of paths in which that in form NFC comes last."""
    return path == _item(path), path


def _final_targets(commits: Iterable[list[Target]]) -> list[Target]:
    """Return the last target of each document."""
    final: dict[str, Target] = {}
    for targets in commits:
        final |= {target.item: target for target in targets}
    return sorted(final.values(), key=lambda target: (target.version, target.path))
