"""Writes an archive, volume by volume; an interrupted one continues after its last complete volume."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from freki.infra.archive.folder import LOCK, MANIFEST, UNFINISHED, disk, make_folder, sha256_of
from freki.infra.archive.readme import readme
from freki.infra.archive.tables import Table
from freki.infra.durable_files import PARTIAL, write_atomically
from freki.infra.extras import require
from freki.infra.milvus.layout import DOCUMENTS, MANIFESTS, PLACEHOLDER, Layout, Row
from freki.infra.milvus.rows import chunk_row, page_row, root_row
from freki.infra.milvus.shards import shard_of, shards_of
from freki.schemas import RootId, Timestamp
from freki.schemas.archive import ArchiveFile, ArchiveManifest, ArchiveStart, ArchiveVolume, LeftOut
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from freki.schemas.index import IndexedChunk, ManifestPage, Root

FILE_BYTES = 32 << 20
"""Size in memory of the rows of a file; a volume ends with the first full file."""
VOLUME_DOCUMENTS = 10_000
"""Maximum documents of a volume: many of them may be deleted, and have no rows."""
LEAVE_S = 4.0
"""Time for what is being written to end where the export is cancelled, in seconds: a dead disk may not let it."""

P = ParamSpec("P")
R = TypeVar("R")

_START = TypeAdapter(ArchiveStart)
_VOLUME = TypeAdapter(ArchiveVolume)
_MANIFEST = TypeAdapter(ArchiveManifest)


@dataclass(slots=True)
class _OpenVolume:
    """A volume that is not complete."""

    last: RootId | None = None
    documents: int = 0
    deleted: int = 0
    chunks: int = 0
    files: list[ArchiveFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def continues(folder: Path, start: ArchiveStart) -> bool:
    """Return whether a folder holds an interrupted export that one with this start would continue."""
    with disk(folder):
        lines = (folder / UNFINISHED).read_bytes().splitlines(keepends=True)
    try:
        return bool(lines) and _made_from(_START.validate_json(lines[0])) == _made_from(start)
    except ValidationError:
        return False


class ArchiveWriter:
    """Satisfies ArchiveSink of `streams.ports`. Entering raises Misconfigured if the folder holds something else.

    A volume is recorded once all its files are on disk; files of an interrupted volume are written again.
    """

    def __init__(self, folder: Path, start: ArchiveStart) -> None:
        self._folder = folder
        self._start = start
        self._shards = shards_of(start.generation)
        self._lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
        self._volumes: list[ArchiveVolume] = []
        self._tables: dict[str, Table] = {}
        self._open_volume = _OpenVolume()
        self._is_new = False
        self._writing: asyncio.Task[Any] | None = None
        """The last call in a thread."""

    async def __aenter__(self) -> Self:
        require("export")
        try:
            await self._in_thread(self._open)
        except asyncio.CancelledError:
            await self._leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    async def _leave(self) -> None:
        # A cancelled call goes on in its thread: of a folder that was left, another export may be writing to it.
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=LEAVE_S)
            if not self._writing.done():
                # As if it were killed; the lock ends with the process.
                return
        if not self._lock.is_locked:
            return
        is_empty = self._is_empty()
        for name in [UNFINISHED, LOCK] if is_empty else [LOCK]:
            (self._folder / name).unlink(missing_ok=True)
        self._lock.release()
        if is_empty and self._is_new:
            with suppress(OSError):
                self._folder.rmdir()

    @property
    def start(self) -> ArchiveStart:
        """What the archive is made from; of a continued one, with the time and watermarks of its first run."""
        return self._start

    @property
    def after(self) -> RootId | None:
        """Root id of the last document of the complete volumes."""
        return self._volumes[-1].last if self._volumes else None

    @property
    def chunks(self) -> int:
        """Number of chunks of the complete volumes."""
        return sum(volume.chunks for volume in self._volumes)

    async def add_chunks(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Add chunk rows; vectors: (rows, width)."""
        laid_out: dict[str, tuple[Layout, int, list[Row]]] = {}
        for row, vector in zip(rows, vectors, strict=True):
            shard = shard_of(self._shards, row.kind)
            _, _, written = laid_out.setdefault(shard.layout.name, (shard.layout, shard.dim, []))
            written.append(chunk_row(row, vector[shard.block]))
        for layout, dim, written in laid_out.values():
            await self._add(layout, dim, written)

    async def add_documents(
        self, roots: Sequence[Root], pages: Sequence[ManifestPage], left_out: Sequence[LeftOut] = ()
    ) -> None:
        """Add documents whose rows were added before, in the order of their root ids; may end the volume."""
        await self._add(MANIFESTS, len(PLACEHOLDER), [page_row(page) for page in pages])
        await self._add(DOCUMENTS, len(PLACEHOLDER), [root_row(root) for root in roots])
        self._open_volume.documents += sum(not root.deleted for root in roots)
        self._open_volume.deleted += sum(root.deleted for root in roots)
        self._open_volume.chunks += sum(root.chunks for root in roots if not root.deleted)
        self._open_volume.left_out += left_out

    async def end_documents(self, last: RootId) -> None:
        """Note that everything up to this document was added; ends the volume if it is large enough."""
        volume = self._open_volume
        volume.last = last
        held = sum(table.bytes for table in self._tables.values())
        if volume.files or held >= FILE_BYTES or volume.documents + volume.deleted >= VOLUME_DOCUMENTS:
            await self._in_thread(self._end_volume)

    async def finish(self, ended_at: Timestamp) -> ArchiveManifest:
        """Write what is left, the README and the manifest."""
        return await self._in_thread(self._finish, ended_at)

    async def _in_thread(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in a thread."""
        writing = asyncio.create_task(asyncio.to_thread(work, *args, **kwargs))
        self._writing = writing
        return await asyncio.shield(writing)

    async def _add(self, layout: Layout, dim: int, rows: Sequence[Row]) -> None:
        def add() -> None:
            table = self._tables.setdefault(layout.name, Table(layout, dim))
            table.add(rows)
            if table.bytes >= FILE_BYTES and layout.is_searched:
                self._write(layout.name, table)

        if rows:
            await self._in_thread(add)

    def _write(self, holds: str, table: Table) -> None:
        number = sum(file.holds == holds for file in self._open_volume.files)
        path = self._folder / f"{holds}-{len(self._volumes):06d}-{number:03d}.parquet"
        rows = table.rows
        with disk(self._folder):
            write_atomically(path, table.write)
            size, sha256 = path.stat().st_size, sha256_of(path)
        self._open_volume.files.append(ArchiveFile(name=path.name, holds=holds, rows=rows, bytes=size, sha256=sha256))

    def _end_volume(self) -> None:
        ended = self._open_volume
        if ended.last is None:
            return
        for holds, table in sorted(self._tables.items()):
            if table.rows:
                self._write(holds, table)
        volume = ArchiveVolume(
            number=len(self._volumes),
            last=ended.last,
            documents=ended.documents,
            deleted=ended.deleted,
            chunks=ended.chunks,
            files=tuple(ended.files),
            left_out=tuple(ended.left_out),
        )
        with disk(self._folder), (self._folder / UNFINISHED).open("ab") as file:
            file.write(_VOLUME.dump_json(volume) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._volumes.append(volume)
        self._open_volume = _OpenVolume()

    def _finish(self, ended_at: Timestamp) -> ArchiveManifest:
        self._end_volume()
        manifest = ArchiveManifest(start=self._start, ended_at=ended_at, volumes=tuple(self._volumes))
        with disk(self._folder):
            text = readme(manifest, self._shards)
            write_atomically(self._folder / "README.md", lambda path: path.write_text(text, encoding="utf-8"))
            content = _MANIFEST.dump_json(manifest, indent=1)
            write_atomically(self._folder / MANIFEST, lambda path: path.write_bytes(content))
            (self._folder / UNFINISHED).unlink()
        return manifest

    def _open(self) -> None:
        self._is_new = not self._folder.exists()
        make_folder(self._folder)
        with disk(self._folder):
            try:
                self._lock.acquire()
            except Timeout as error:
                raise Misconfigured(f"another export writes to {self._folder}: wait for it, or name another") from error
            try:
                self._continue()
            except BaseException:
                self._lock.release()
                raise

    def _is_empty(self) -> bool:
        """Return whether nothing is written, and nothing is left to continue: the start alone would refuse another one.

        Such as that of the right tenant.
        """
        return not self._volumes and all(each.name in {LOCK, UNFINISHED} for each in self._folder.iterdir())

    def _continue(self) -> None:
        path = self._folder / UNFINISHED
        if not path.exists():
            # An export that was killed at once leaves no more than these.
            own = {LOCK, UNFINISHED + PARTIAL}
            if others := sorted(each.name for each in self._folder.iterdir() if each.name not in own):
                held = "a complete archive" if MANIFEST in others else others[0]
                raise Misconfigured(f"{self._folder} already holds {held}: name an empty or a new folder")
            write_atomically(path, lambda path: path.write_bytes(_START.dump_json(self._start) + b"\n"))
            return
        content = path.read_bytes()
        # A line that was cut off by a crash is written again.
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        try:
            start = _START.validate_json(lines[0])
            self._volumes = [_VOLUME.validate_json(line) for line in lines[1:]]
        except (IndexError, ValidationError) as error:
            raise Misconfigured(f"{path} is damaged: delete the folder, and export again") from error
        if _made_from(start) != _made_from(self._start):
            raise Misconfigured(
                f"{self._folder} holds an interrupted export of {_named(start)}, not of {_named(self._start)}: "
                "name another folder, or delete this one"
            )
        self._start = start
        known = {file.name for volume in self._volumes for file in volume.files}
        for found in self._folder.iterdir():
            if found.name.endswith(PARTIAL) or (found.suffix == ".parquet" and found.name not in known):
                found.unlink()
        if whole != content:
            # Never in place: on a full disk all volumes so far would be lost.
            write_atomically(path, lambda path: path.write_bytes(whole))


def _made_from(start: ArchiveStart) -> tuple[object, ...]:
    return start.format, start.layout, start.generation, start.tenant


def _named(start: ArchiveStart) -> str:
    generation, tenant = start.generation, start.tenant
    what = f"generation {generation.name} (embedder {generation.embedder}, analyser {generation.analyser})"
    return what if tenant is None else f"tenant {tenant} in {what}"
