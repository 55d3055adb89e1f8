"""A folder as it changes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

from watchfiles import awatch

from freki.infra.sources.files import SourceFile, scan
from freki.schemas.errors import Rejected, Unavailable

_LOOK_MS = 200
"""How often files that just changed are looked at again."""
SETTLE_S = 0.4
"""How long a file must stay as it is: longer than editors need to replace one, and most programs pause in writing."""
_RESCAN_S = 15.0
"""How often the whole folder is compared: the operating system drops events when many come at once, and sends none for
files that another machine changes on a shared disk."""


class FileChange(StrEnum):
    """What happened to a file."""

    CREATED = "CREATED"
    MODIFIED = "MODIFIED"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent:
    """A change of one file, when it has settled."""

    change: FileChange
    file: SourceFile
    """As it is now, or as it was last seen where it is removed."""


async def watch(
    folder: Path, *, known: Iterable[SourceFile] = (), settle_s: float = SETTLE_S, poll_s: float | None = None
) -> AsyncGenerator[list[FileEvent], None]:
    """Yield what changes in a folder, each batch in the order of the ids; the same files count as in `walk`.

    `known` is what the caller has handled already, as `walk([folder])` gave it. The folder is compared with it once
    events are being collected, so nothing that changes in between is missed; without it, every file comes as CREATED
    first. A file that is renamed or moved comes as REMOVED and CREATED, and so do all files of a folder that is.

    A change, also a removal, is reported when size and times stayed the same for `settle_s`: that joins what an editor
    does to replace a file. A writer that pauses for longer is reported half-way, and again when it goes on.

    poll_s: compare the folder that often and ask the operating system for no events, which it does not have of a disk
    that other machines write to. A change is then reported by the second look after it at the earliest.

    Raises Rejected where something cannot be read, Unavailable where the folder disappears: that is more likely a disk
    that was unplugged than a wish to delete every document.
    """
    state = await asyncio.to_thread(FolderState, folder, known, settle_s)
    looks = _changed_places(state.root) if poll_s is None else _everywhere(state.root, poll_s)
    async with aclosing(looks) as batches:
        async for places in batches:
            events = await asyncio.to_thread(state.look, places, time.monotonic())
            if events:
                yield events


async def _changed_places(root: Path) -> AsyncGenerator[set[Path], None]:
    """Yield where something may have changed, several times a second, and the root itself now and then."""
    rescan_at = time.monotonic()
    try:
        batches = awatch(root, watch_filter=None, rust_timeout=_LOOK_MS, yield_on_timeout=True)
        async with aclosing(batches):
            async for changes in batches:
                places = {Path(path) for _, path in changes}
                if time.monotonic() >= rescan_at:
                    places, rescan_at = {root}, time.monotonic() + _RESCAN_S
                yield places
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"{root} cannot be watched (fs.inotify.max_user_watches may be too low): {error}") from error


async def _everywhere(root: Path, poll_s: float) -> AsyncGenerator[set[Path], None]:
    while True:
        yield {root}
        await asyncio.sleep(poll_s)


class _Look(NamedTuple):
    """What was there when a place was looked at; None: nothing."""

    file: SourceFile | None
    since: float


class FolderState:
    """What was reported of a folder, and what has not settled yet."""

    def __init__(self, folder: Path, known: Iterable[SourceFile], settle_s: float = SETTLE_S) -> None:
        self._settle_s = settle_s
        self.root = folder.resolve()
        self._identity = _identity(self.root)
        if self._identity is None:
            raise Rejected(f"{folder} is no folder")
        self._reported = {file.path: file for file in known}
        self._unsettled: dict[Path, _Look] = {}

    def look(self, places: set[Path], now: float) -> list[FileEvent]:
        """Compare some places, and all that have not settled, with what was reported."""
        places = places | self._unsettled.keys()
        if not places:
            return []
        found = self._found(places)
        # Looked at last, so that what was found is not the emptiness of a folder that has just gone.
        if _identity(self.root) != self._identity:
            raise Unavailable(
                f"{self.root} is gone, or another folder: nothing was removed; start again when it is back"
            )
        events = [event for path, file in found.items() if (event := self._settled(path, file, now))]
        return sorted(events, key=lambda event: event.file.document_id)

    def _found(self, places: set[Path]) -> dict[Path, SourceFile | None]:
        """Return the files at and below some places; None for those that were known there and are gone."""
        found: dict[Path, SourceFile | None] = {
            path: None
            for path in self._reported.keys() | self._unsettled.keys()
            if path in places or not places.isdisjoint(path.parents)
        }
        for place in places:
            if places.isdisjoint(place.parents):
                found |= {file.path: file for file in scan(self.root, place)}
        return found

    def _settled(self, path: Path, file: SourceFile | None, now: float) -> FileEvent | None:
        reported = self._reported.get(path)
        if file == reported:
            self._unsettled.pop(path, None)
            return None
        look = self._unsettled.get(path)
        if look is None or look.file != file:
            self._unsettled[path] = _Look(file, now)
            return None
        if now - look.since < self._settle_s:
            return None
        del self._unsettled[path]
        if file:
            self._reported[path] = file
            return FileEvent(change=FileChange.MODIFIED if reported else FileChange.CREATED, file=file)
        return FileEvent(change=FileChange.REMOVED, file=self._reported.pop(path))


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return what stays the same of a folder whatever happens in it; None where there is no folder."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if S_ISDIR(status.st_mode) else None
