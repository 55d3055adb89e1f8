"""Commits become changes of documents."""

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freki.operators.errors import UnreadableContent
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.names import record
from freki.streams.feed.ledger import ITSELF, SourceLedger
from freki.streams.ports import Repository

AT_ONCE = 64
"""Changes published together: enough to wait seldom, few enough to hold in memory."""
AT_ONCE_BYTES = 8_000_000

Publish = Callable[[Sequence[DocumentChange]], Awaitable[None]]
"""Returns when the broker has the changes."""
MediaType = Callable[[str, bytes], str | None]
"""Tells the media type of what lies at a path. Raises Rejected or UnreadableContent for what cannot be a document."""


@record
class Mark:
    """What the ledger keeps: of a path the blob that was published, of the source the commit that it is at."""

    version: int
    state: str
    """Blob or commit; empty: nothing is there any more. A blob that cannot be a document counts as published."""
    readers: str
    """Who may read what was published: the same content for others is another change."""
    pending: bool = False
    """It was about to be published, or the source was on its way: how far that came, nobody knows."""


@record
class Target:
    """What a path should become."""

    path: str
    blob: str | None
    commit: str
    time: Timestamp
    version: int


@dataclass
class SyncReport:
    """What a look at the repository led to."""

    upserts: int = 0
    deletes: int = 0
    left_out: list[str] = field(default_factory=list)
    """Path and reason of each file that cannot be a document."""


@record
class DocumentFields:
    """Fields that all documents of a repository have."""

    name: str
    """First part of their ids."""
    tenant: TenantId
    principals: tuple[str, ...]
    priority: int


class GitSource:
    """Publishes a branch, and what changed since the ledger was written.

    A document is a path. Its version is that of the commit which changed it last: the commit's time, and above that of
    the commit before it on the branch, whatever the clocks said. A branch that was rewritten goes on above all that
    was published: its documents become what the new head holds.
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

    async def sync(self, *, history: bool) -> SyncReport:
        """Publish what leads to the branch's head: each commit in turn, or only what each path has become."""
        tally = SyncReport()
        head = await asyncio.to_thread(self._repository.head)
        last = self._ledger[ITSELF]
        if last is not None and (last.state, last.readers, last.pending) == (head, self._readers, False):
            return tally
        if last is not None:
            # A branch may come back to where it was, after something else of it was published.
            await self._ledger.write({ITSELF: replace(last, pending=True)})
        steps, at = await asyncio.to_thread(self._steps, head, last)
        for step in steps if history else [await asyncio.to_thread(_folded, steps)]:
            await self._take(step, tally)
            if history and step:
                await self._ledger.write({ITSELF: replace(self._mark(step[-1].commit, step[-1].version), pending=True)})
        await self._take(await asyncio.to_thread(self._left_behind, head, at), tally)
        await self._ledger.write({ITSELF: self._mark(head, at)})
        return tally

    def _steps(self, head: str, last: Mark | None) -> tuple[Iterable[list[Target]], int]:
        """Give what to make of which paths, commit by commit, and the version that the source has afterwards."""
        floor = 0 if last is None else last.version
        since = None if last is None else last.state
        if last is not None and (last.readers != self._readers or not self._repository.has(last.state)):
            commit, time = self._repository.commit(head)
            version = max(time, floor + 1)
            return [self._compared(commit, time, version)], version
        commits = self._repository.commits(since, head)
        versions: dict[str, int] = {}
        for commit, time in commits:
            floor = versions[commit] = max(time, floor + 1)
        return self._changed(since, commits, versions), floor

    def _changed(
        self, since: str | None, commits: Sequence[tuple[str, Timestamp]], versions: Mapping[str, int]
    ) -> Iterator[list[Target]]:
        for (commit, time), changes in self._repository.changes(since, commits):
            version = versions[commit]
            yield [Target(path=path, blob=blob, commit=commit, time=time, version=version) for path, blob in changes]

    def _compared(self, commit: str, time: Timestamp, version: int) -> list[Target]:
        tree = self._repository.tree(commit)
        paths = {*tree, *(path for path, _ in self._ledger)}
        return [
            Target(path=path, blob=tree.get(path), commit=commit, time=time, version=version) for path in sorted(paths)
        ]

    def _left_behind(self, head: str, version: int) -> list[Target]:
        """Give what is not as the head has it: a process ended over it, and then the branch was rewritten."""
        commit, time = self._repository.commit(head)
        return [target for target in self._compared(commit, time, version) if self._is_left_behind(target)]

    def _is_left_behind(self, target: Target) -> bool:
        mark = self._ledger[target.path]
        return mark is not None and (mark.pending or mark.state != (target.blob or ""))

    async def _take(self, targets: Iterable[Target], tally: SyncReport) -> None:
        """Publish some changes, each path at most once, and remember them."""
        changes: list[DocumentChange] = []
        marks: dict[str, Mark] = {}
        held = 0
        for target in targets:
            change = await asyncio.to_thread(self._change, target, tally)
            if change is None:
                continue
            changes.append(change)
            marks[target.path] = self._mark(target.blob, change.version)
            held += len(change.content or b"")
            if len(changes) >= AT_ONCE or held >= AT_ONCE_BYTES:
                await self._flush(changes, marks, tally)
                changes, marks, held = [], {}, 0
        await self._flush(changes, marks, tally)

    async def _flush(self, changes: Sequence[DocumentChange], marks: Mapping[str, Mark], tally: SyncReport) -> None:
        await self._ledger.write({path: replace(mark, pending=True) for path, mark in marks.items()})
        await self._publish(changes)
        await self._ledger.write(marks)
        deletes = sum(change.operation is Operation.DELETE for change in changes)
        tally.deletes += deletes
        tally.upserts += len(changes) - deletes

    def _mark(self, state: str | None, version: int) -> Mark:
        return Mark(version=version, state=state or "", readers=self._readers)

    def _change(self, target: Target, tally: SyncReport) -> DocumentChange | None:
        """Make the change that gives a path what it should have; None where it has that."""
        known = self._ledger[target.path]
        is_same = known is not None and (known.state, known.readers) == (target.blob or "", self._readers)
        if known is None:
            version = target.version
        elif not is_same:
            version = max(target.version, known.version + 1)
        elif known.pending:
            version = known.version
        else:
            return None
        made = None if target.blob is None else self._upsert(target, target.blob, version, tally)
        if made is not None or known is None or not (known.state or known.pending):
            return made
        return DocumentChange(
            tenant=self._documents.tenant,
            document_id=self._document_id(target.path),
            operation=Operation.DELETE,
            version=version,
            occurred_at=target.time,
            priority=self._documents.priority,
        )

    def _upsert(self, target: Target, blob: str, version: int, tally: SyncReport) -> DocumentChange | None:
        if any(map(self._is_skipped, target.path.split("/"))):
            return None
        try:
            target.path.encode()
            content = self._repository.read(blob)
            media_type = self._media_type(target.path, content)
        except (UnicodeEncodeError, Rejected, UnreadableContent) as error:
            reason = str(error).removeprefix(f"{target.path}: ")
            tally.left_out.append(f"{target.path!a}: {reason}")
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
        return DocumentId(unicodedata.normalize("NFC", f"{self._documents.name}/{path}"))


def _folded(steps: Iterable[list[Target]]) -> list[Target]:
    """Keep what each path became in the end."""
    final: dict[str, Target] = {}
    for step in steps:
        final |= {target.path: target for target in step}
    return sorted(final.values(), key=lambda target: (target.version, target.path))
