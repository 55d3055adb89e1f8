"""`freki watch`: publish what changes in folders, as a service."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import typer

from freki.cli.arguments import Priority, expanded, finite, given_path
from freki.cli.bars import bars
from freki.cli.changes import (
    FileArguments,
    Make,
    deletions,
    described,
    fields_of_folder,
    gone,
    identify,
    show_conflicts,
    upserts,
)
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.mass_deletion import DeleteMost
from freki.cli.publish import show_files
from freki.cli.receipts import PATIENCE_S, line, send
from freki.cli.show import show_error
from freki.cli.words import counted
from freki.infra.milvus.index import MilvusIndex
from freki.infra.ready_file import write_ready_file
from freki.infra.settings import Settings
from freki.infra.signals import run_until_stopped
from freki.infra.sources import (
    SETTLE_S,
    FileChange,
    FileEvent,
    FolderGone,
    Inaccessible,
    Naming,
    SourceFile,
    is_missing,
    scan,
    watch,
)
from freki.operators.assign_ids import Conflict
from freki.schemas import DocumentChange, DocumentId, TenantId
from freki.schemas.backoff import backoff
from freki.schemas.errors import Rejected, Unavailable
from freki.streams.client import Publisher, Receipts
from freki.streams.feed.files import FileFields, FileSource, Publication
from freki.streams.feed.ledger import SourceLedger
from freki.streams.wire.connect import open_index, open_ledger, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Waits before broker and store are asked again, and a folder that is gone is looked for."""


@dataclass(frozen=True, kw_only=True)
class WatchedFolder:
    """A folder to watch, and what its documents have in common."""

    path: Path
    fields: FileFields
    root: Path | None = None
    name: str | None = None
    settle_s: float = SETTLE_S
    poll_s: float | None = None


class Connect(Protocol):
    """Opens a session; force: publish unchanged files too; delete_most: at first hold no deletion back."""

    def __call__(self, *, force: bool, delete_most: bool) -> AbstractAsyncContextManager["WatchSession"]:
        """Return the session, to be entered."""


@command
@expanded
async def watch_folders(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(parser=given_path, help="Folders to watch; default: those of freki.toml", show_default=False),
    ] = None,
    *,
    settle: Annotated[
        float,
        typer.Option(help="Seconds without modification before a file is published", min=0.0, callback=finite),
    ] = SETTLE_S,
    poll: Annotated[
        float | None,
        typer.Option(
            help="Compare the folders at this interval in seconds, for disks shared with other machines",
            min=0.1,
            callback=finite,
        ),
    ] = None,
    priority: Priority = 0,
    delete_most: DeleteMost = False,
    of_files: FileArguments,
) -> None:
    """Publish what has changed in folders, then each file created, modified or removed in them, until Ctrl-C."""
    settings = load_settings()
    watched = [
        WatchedFolder(
            path=each.path,
            fields=fields_of_folder(settings, each),
            root=each.root,
            name=each.name,
            settle_s=each.settle_s,
            poll_s=each.poll_s,
        )
        for each in settings.folders
    ]
    if folders:
        if missing := [folder for folder in folders if not folder.is_dir()]:
            fail(f"{missing[0]} is no folder", code=2)
        fields = of_files.fields(settings, priority=priority)
        watched = [
            WatchedFolder(
                path=folder, fields=fields, root=of_files.root, name=of_files.name, settle_s=settle, poll_s=poll
            )
            for folder in folders
        ]
    if not watched:
        fail("no folder to watch: name one, or describe one as [[folders]] in freki.toml; docs/sources.md", code=2)
    connect = partial(open_session, settings, watched)
    await run_until_stopped(follow_folders(watched, connect, force=of_files.force, delete_most=delete_most))


async def follow_folders(
    folders: Sequence[WatchedFolder], connect: Connect, *, force: bool, delete_most: bool = False
) -> None:
    """Watch folders for ever; where broker or store do not answer, start over once they do.

    connect: opens a session; called again after each outage. force: publish unchanged files too, the first time.
    delete_most: the first time, delete also most documents of a folder.
    """
    failures = 0
    while True:
        try:
            async with connect(force=force, delete_most=delete_most) as session:
                failures, force, delete_most = 0, False, False
                await session.follow(folders)
        except Unavailable as error:
            failures += 1
            wait_s = backoff(failures, first=FIRST_WAIT_S, longest=LONGEST_WAIT_S, jitter=random.random())  # noqa: S311
            show_error(errors, f"{error}; trying again in {wait_s:.0f} s, and what changes meanwhile is found then")
            await asyncio.sleep(wait_s)


@dataclass(frozen=True)
class _Unread:
    """Files of a folder that could not be read, or were refused their id; each reason to read none is told once."""

    paths: set[Path] = field(default_factory=set)
    """Those to try again."""
    _refused: dict[Path, Conflict] = field(default_factory=dict)
    """Those whose id belonged to another file or source."""
    _told: dict[Path, str] = field(default_factory=dict)

    def make(self, path: Path, make: Make) -> DocumentChange | None:
        """Return the change of a file. Raises Rejected as `make` does, but not twice for the same reason."""
        try:
            change = make()
        except Inaccessible as error:
            self.paths.add(path)
            if self._told.get(path) == str(error):
                return None
            self._told[path] = str(error)
            raise
        self._told.pop(path, None)
        return change

    def refuse(self, files: Iterable[SourceFile], conflicts: Sequence[Conflict]) -> list[Conflict]:
        """Take note of the files whose id belongs to another file or source; return the conflicts that are new.

        All are tried again: that the id becomes free, perhaps by another process, changes nothing of the file.
        """
        found = {conflict.source_uri: conflict for conflict in conflicts}
        new = []
        for file in files:
            conflict, before = found.get(file.uri), self._refused.pop(file.path, None)
            if conflict is None:
                continue
            self.paths.add(file.path)
            self._refused[file.path] = conflict
            if conflict != before:
                new.append(conflict)
        return new


class WatchSession:
    """Connections shared by all folders, from their opening to the first outage."""

    def __init__(
        self,
        settings: Settings,
        *,
        receipts: Receipts,
        publisher: Publisher,
        index: MilvusIndex,
        ledgers: dict[TenantId, SourceLedger[Publication]],
        force: bool,
        delete_most: bool,
    ) -> None:
        self._settings = settings
        self._receipts = receipts
        self._publisher = publisher
        self._index = index
        self._ledgers = ledgers
        self._force = force
        self._delete_most = delete_most
        self._turn = asyncio.Lock()
        self._waiting = 0
        """Changes without a receipt yet."""

    async def follow(self, folders: Sequence[WatchedFolder]) -> None:
        """Watch folders until something fails, and raise that."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._show_receipts())
                for folder in folders:
                    tasks.create_task(self._follow_one(folder))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    async def _follow_one(self, folder: WatchedFolder) -> None:
        """Watch a folder; look again for one that is gone or cannot be read, and delete nothing because of that."""
        failures = 0
        delete_most = self._delete_most
        while True:
            try:
                source, unread = self._source(folder), _Unread()
                files = await self._begin(folder, source, unread, delete_most=delete_most)
                delete_most = False
                console.print(f"Watching {folder.path}. Ctrl-C stops.")
                failures = 0
                await self._follow_events(folder, source, unread, files)
            except (FolderGone, Rejected) as error:
                failures += 1
                wait_s = backoff(failures, first=FIRST_WAIT_S, longest=LONGEST_WAIT_S)
                show_error(errors, f"{error}; looking again in {wait_s:.0f} s")
                await asyncio.sleep(wait_s)

    def _source(self, folder: WatchedFolder) -> FileSource:
        return FileSource(
            folder.fields,
            self._ledgers[folder.fields.tenant],
            now=wall_clock,
            is_missing=is_missing,
            chosen=folder.name is not None or folder.root is not None,
            force=self._force,
        )

    async def _begin(
        self, folder: WatchedFolder, source: FileSource, unread: _Unread, *, delete_most: bool
    ) -> list[SourceFile]:
        """Publish what changed since the last time; return the files."""
        files = await asyncio.to_thread(_files_of, folder)
        allowed, outdated = await self._identified(source, files, unread)
        [missing] = await gone(source, [folder.path], files, self._index)
        if not delete_most and missing.documents and not files:
            raise FolderGone(
                f"{folder.path} is empty, but {counted(len(missing.documents), 'document')} came from it: perhaps its"
                " disk is not mounted, so nothing is deleted. If it is meant to be: --delete-most"
            )
        is_held_back = missing.is_mass_deletion and not delete_most
        outdated |= set() if is_held_back else missing.documents
        await self._publish(source, [*deletions(source, outdated), *self._upserts(source, allowed, unread)])
        show_files(source)
        if is_held_back:
            missing.show()
        return files

    async def _follow_events(
        self, folder: WatchedFolder, source: FileSource, unread: _Unread, files: Sequence[SourceFile]
    ) -> None:
        naming = Naming.of(folder.path, root=folder.root, name=folder.name)
        async for events in watch(
            folder.path,
            naming=naming,
            known=files,
            settle_s=folder.settle_s,
            poll_s=folder.poll_s,
            leave_out=lambda error: show_error(errors, f"left out: {error}"),
            unread=unread.paths,
        ):
            await self._publish(source, await self._event_changes(source, unread, events))

    async def _event_changes(self, source: FileSource, unread: _Unread, events: Sequence[FileEvent]) -> list[Make]:
        present = [event.file for event in events if event.change is not FileChange.REMOVED]
        allowed, _ = await self._identified(source, present, unread)
        removed = [described(event.file) for event in events if event.change is FileChange.REMOVED]
        if removed:
            # Another process may have given their documents to other files.
            await source.look_up(removed, self._index)
        known = [id_ for file in removed if (id_ := source.own_id(file)) is not None]
        return [*deletions(source, known), *self._upserts(source, allowed, unread)]

    async def _identified(
        self, source: FileSource, files: Sequence[SourceFile], unread: _Unread
    ) -> tuple[list[SourceFile], set[DocumentId]]:
        """Return the files that may be published, and other documents of theirs; print whose id belongs to others."""
        assignment = await identify(source, files, self._index)
        show_conflicts(unread.refuse(files, assignment.conflicts))
        refused = {conflict.source_uri for conflict in assignment.conflicts}
        return [file for file in files if file.uri not in refused], set(assignment.superseded)

    def _upserts(self, source: FileSource, files: Sequence[SourceFile], unread: _Unread) -> list[Make]:
        made = zip(files, upserts(source, files, self._settings), strict=True)
        return [partial(unread.make, file.path, make) for file, make in made]

    async def _publish(self, source: FileSource, changes: Sequence[Make]) -> None:
        async with self._turn:
            with bars() as progress:
                sent = await send(
                    self._publisher,
                    self._receipts,
                    changes,
                    total=len(changes),
                    progress=progress,
                    record=source.record,
                )
            self._waiting += sent.changes

    async def _show_receipts(self) -> None:
        """Print each receipt, and once where some are missing for long."""
        while True:
            try:
                outcome = await self._receipts.next(patience_s=PATIENCE_S)
            except TimeoutError:
                if self._waiting:
                    show_error(errors, f"{counted(self._waiting, 'change')} without a receipt yet: do workers run?")
                self._waiting = 0
                continue
            self._waiting = max(0, self._waiting - 1)
            console.print(line(outcome))


def _files_of(folder: WatchedFolder) -> list[SourceFile]:
    """Return the files of a folder, also several with one id; those without any are told once it is watched."""
    naming = Naming.of(folder.path, root=folder.root, name=folder.name)
    root = folder.path.resolve()
    return list(scan(root, root, naming, lambda _: None))


@asynccontextmanager
async def open_session(
    settings: Settings, folders: Sequence[WatchedFolder], *, force: bool, delete_most: bool
) -> AsyncIterator[WatchSession]:
    """Open the connections; then tell whoever started this process that it runs."""
    async with AsyncExitStack() as opened:
        session = WatchSession(
            settings,
            receipts=await opened.enter_async_context(open_receipts(settings)),
            publisher=await opened.enter_async_context(open_publisher(settings)),
            index=await opened.enter_async_context(open_index(settings)),
            ledgers={
                tenant: await opened.enter_async_context(open_ledger(settings, f"files {tenant}", Publication))
                for tenant in {folder.fields.tenant for folder in folders}
            },
            force=force,
            delete_most=delete_most,
        )
        if settings.ready_file is not None:
            await asyncio.to_thread(write_ready_file, settings.ready_file, "")
        yield session
