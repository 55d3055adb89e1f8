"""Changes of a folder."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Container, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

from watchfiles import awatch

from freki.infra.sources.files import Inaccessible, InvalidName, LeaveOut, Naming, SourceFile, scan
from freki.schemas import DocumentId
from freki.schemas.errors import Rejected, Unavailable

_LOOK_MS = 200
"""Interval of checks of recently changed files."""
SETTLE_S = 0.4
"""Time without change after which a file is stable: longer than replacing by editors and most pauses in writing."""
_NEVER = -1
_UNDECODABLE = "Unable to decode path"
"""What watchfiles says of a name that is not UTF-8; it tells of no change afterwards."""
_RESCAN_S = 15.0
"""Interval of full scans: the operating system drops events under load, and sends none for changes by other machines on
a shared disk."""


class FolderGone(Unavailable):
    """A watched folder disappeared, is another one, or cannot be watched."""


class FileChange(StrEnum):
    """Kind of change of a file."""

    CREATED = "CREATED"
    MODIFIED = "MODIFIED"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent:
    """A change of one file, after it is stable."""

    change: FileChange
    file: SourceFile
    """Current file, or the last known one if removed."""


async def watch(
    folder: Path,
    *,
    naming: Naming | None = None,
    known: Iterable[SourceFile] = (),
    settle_s: float = SETTLE_S,
    poll_s: float | None = None,
    leave_out: LeaveOut = lambda _: None,
    unread: set[Path] | None = None,
) -> AsyncGenerator[list[FileEvent], None]:
    """Yield the changes of a folder, each batch ordered by id; the files are those of `walk`.

    naming: rule for the ids; default: that of `walk`.

    known: the files that the caller has already handled, from `walk([folder])`. They are compared with the folder after
    events are being collected, so that no change is missed; without it, every file is first reported as CREATED. A
    renamed or moved file is reported as REMOVED and CREATED, and so are all files of a renamed or moved folder.

    A change, also a removal, is reported when size and times were constant for `settle_s`, which joins the steps of an
    editor that replaces a file. A writer that pauses for longer is reported twice.

    poll_s: scan the folder at this interval instead of using events of the operating system, which do not exist for
    disks that other machines write to. A change is then reported by the second scan after it at the earliest.

    leave_out: called once for each file whose name can be no document id, and each file or folder that may not be read,
    also from a thread. What is below such a folder is not removed.

    unread: files that the caller could not read, to which it adds. The next full scan takes them out and reports them
    again: that a file has become readable may change nothing else of it.

    Raises Rejected where the folder itself may not be read, FolderGone where it disappears: probably an unmounted disk,
    not an intent to delete every document.
    """
    state = await asyncio.to_thread(FolderState, folder, known, settle_s, naming, leave_out)
    unread = set() if unread is None else unread
    looks = _changed_places(state.root) if poll_s is None else _everywhere(state.root, poll_s)
    async with aclosing(looks) as batches:
        async for places in batches:
            if state.root in places:
                state.doubt(unread)
                unread.clear()
            events = await asyncio.to_thread(state.look, places, time.monotonic())
            if events:
                yield events


async def _changed_places(root: Path) -> AsyncGenerator[set[Path], None]:
    """Yield paths that may have changed, several times a second, and periodically the root."""
    rescan_at = time.monotonic()
    async with aclosing(_reported_places(root)) as batches:
        async for places in batches:
            if time.monotonic() < rescan_at:
                yield places
            else:
                rescan_at = time.monotonic() + _RESCAN_S
                yield {root}


async def _reported_places(root: Path) -> AsyncGenerator[set[Path], None]:
    """Yield paths of which the operating system told events, several times a second."""
    while True:
        try:
            batches = awatch(
                root, watch_filter=None, rust_timeout=_LOOK_MS, yield_on_timeout=True, ignore_permission_denied=True
            )
            async with aclosing(batches):
                async for changes in batches:
                    yield {Path(path) for _, path in changes}
        except (OSError, RuntimeError, ExceptionGroup) as error:
            # What goes wrong while `awatch` waits comes in a group.
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            if _UNDECODABLE not in str(cause):
                raise FolderGone(
                    f"{root} cannot be watched (fs.inotify.max_user_watches may be too low): {cause}"
                ) from error
        # The name of a file is not UTF-8. The next full scan finds this file, and what else was told with it.
        yield set()


async def _everywhere(root: Path, poll_s: float) -> AsyncGenerator[set[Path], None]:
    while True:
        yield {root}
        await asyncio.sleep(poll_s)


class _Observation(NamedTuple):
    """The file at a path at the time of a check; None: no file."""

    file: SourceFile | None
    since: float


class _Disks:
    """Device of each folder in which reported files were seen."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._devices: dict[Path, int] = {}
        self.note(files)

    def note(self, files: Iterable[Path]) -> None:
        """Learn the devices of the folders of reported files that are there."""
        self._devices |= {folder: _disk(folder)[1] for folder in {path.parent for path in files}}

    def lost(self, path: Path) -> Path | None:
        """Return where the disk with the folder of a path seems to be unmounted; None if it does not."""
        place, device = _disk(path.parent)
        return place if self._devices.get(path.parent, device) != device else None


class FolderState:
    """Reported files of a folder, and pending changes."""

    def __init__(
        self,
        folder: Path,
        known: Iterable[SourceFile],
        settle_s: float = SETTLE_S,
        naming: Naming | None = None,
        leave_out: LeaveOut = lambda _: None,
    ) -> None:
        self._settle_s = settle_s
        self.root = folder.resolve()
        self._identity = _identity(self.root)
        if self._identity is None:
            raise Rejected(f"{folder} is no folder")
        self._naming = naming or Naming.of(folder)
        self._reported = {file.path: file for file in known}
        self._disks = _Disks(self._reported)
        self._unsettled: dict[Path, _Observation] = {}
        self._leave_out = leave_out
        self._left_out: set[str] = set()

    def look(self, places: set[Path], now: float) -> list[FileEvent]:
        """Return the stable changes at some paths and of all pending ones."""
        places = set(filter(None, map(self._place, places))) | self._unsettled.keys()
        if not places:
            return []
        found = self._found(places)
        # Checked last: otherwise a folder that has just disappeared would look empty.
        if _identity(self.root) != self._identity:
            raise FolderGone(f"{self.root} is gone, or another folder: nothing was removed")
        there = [event for path, file in found.items() if file and (event := self._settled(path, file, now))]
        # A document is not removed while its file of another name is unstable, as one renamed to another Unicode form.
        awaited = {look.file.document_id for look in self._unsettled.values() if look.file}
        gone = [
            event for path, file in found.items() if not file and (event := self._settled(path, None, now, awaited))
        ]
        return sorted([*gone, *there], key=lambda event: event.file.document_id)

    def doubt(self, paths: Iterable[Path]) -> None:
        """Let reported files count as changed since."""
        for path in paths:
            if (file := self._reported.get(path)) is not None:
                self._reported[path] = replace(file, changed_ns=_NEVER)

    def _place(self, path: Path) -> Path | None:
        """Return a path without linked folders, None for one out of the folder: the operating system follows links."""
        if path == self.root:
            return path
        # Not `resolve`, which before Python 3.13 raises RuntimeError where a link to itself took the place of a folder.
        place = Path(os.path.realpath(path.parent)) / path.name
        return place if place.is_relative_to(self.root) else None

    def _found(self, places: set[Path]) -> dict[Path, SourceFile | None]:
        """Return the files at and below some paths; None for known ones that were removed.

        Of inaccessible folders, and places where a disk is missing, only known files that are there are returned.
        """
        inaccessible: set[Path] = set()

        def leave_out(error: InvalidName | Inaccessible) -> None:
            if isinstance(error, Inaccessible):
                inaccessible.add(error.path)
            if str(error) not in self._left_out:
                self._left_out.add(str(error))
                self._leave_out(error)

        found: dict[Path, SourceFile | None] = {
            path: None
            for path in self._reported.keys() | self._unsettled.keys()
            if path in places or not places.isdisjoint(path.parents)
        }
        for place in places:
            if places.isdisjoint(place.parents):
                found |= {file.path: file for file in scan(self.root, place, self._naming, leave_out)}
        known = {path for path, file in found.items() if file and path in self._reported}
        self._disks.note(known)
        # New files, too: one that is written where a disk is missing would look like a sign that the disk is back.
        # Where the folder itself is gone, `look` says so.
        for path in found.keys() - known if _identity(self.root) == self._identity else ():
            if inaccessible.isdisjoint((path, *path.parents)) and (mount := self._disks.lost(path)):
                leave_out(
                    Inaccessible(mount, "another disk was there before: nothing is removed, and new files are left out")
                )
        return {
            path: file
            for path, file in found.items()
            if path in known or inaccessible.isdisjoint((path, *path.parents))
        }

    def _settled(
        self, path: Path, file: SourceFile | None, now: float, awaited: Container[DocumentId] = ()
    ) -> FileEvent | None:
        reported = self._reported.get(path)
        if file == reported:
            self._unsettled.pop(path, None)
            return None
        look = self._unsettled.get(path)
        if look is None or look.file != file:
            self._unsettled[path] = _Observation(file, now)
            return None
        if now - look.since < self._settle_s or (file is None and reported and reported.document_id in awaited):
            return None
        del self._unsettled[path]
        if file:
            self._reported[path] = file
            return FileEvent(change=FileChange.MODIFIED if reported else FileChange.CREATED, file=file)
        return FileEvent(change=FileChange.REMOVED, file=self._reported.pop(path))


def _disk(folder: Path) -> tuple[Path, int]:
    """Return the nearest folder at or above one that can be reached, with its device."""
    for place in (folder, *folder.parents):
        with suppress(OSError):
            return place, place.stat().st_dev
    return folder, 0


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return device and inode of a folder; None where it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if S_ISDIR(status.st_mode) else None
