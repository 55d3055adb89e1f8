"""Files of the audit log: one of JSON lines for each writer, locked while it writes."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import structlog

from freki.infra.durable_files import sync_folder
from freki.schemas import AuditEntry, AuditKind, Timestamp
from freki.schemas.audit_lines import NotAnEntry, entry_of, line_of
from freki.schemas.errors import Misconfigured, Unavailable

_SUFFIX = ".jsonl"
_SENT = ".sent"
_OWNER_ONLY = 0o600
_TAIL_BYTES = 1 << 16

_log = structlog.get_logger(__name__)


class ChainFile:
    """The chain of a writer in its file. Blocking; satisfies ChainFile of `streams.audit`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    @property
    def writer(self) -> str:
        """Name of the writer."""
        return self._path.name.removesuffix(_SUFFIX)

    def append(self, entries: Sequence[AuditEntry]) -> int:
        """Write entries to the disk, all or none, and return their bytes. Raises Unavailable."""
        content = b"".join(line_of(entry).encode("ascii") + b"\n" for entry in entries)
        start = -1
        try:
            start = self._file.seek(0, os.SEEK_END)
            rest = memoryview(content)
            while rest:
                # A disk that becomes full takes a part of it without an error, and none of the next part.
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            if start >= 0:
                with suppress(OSError):
                    self._file.truncate(start)
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}") from error
        return len(content)

    def mark_sent(self, sequence: int) -> None:
        """Remember that the topic has all entries up to this one. Not synced: entries may be sent twice."""
        mark = self._path.with_suffix(_SENT)
        with suppress(OSError):
            mark.with_suffix(".new").write_text(f"{sequence}\n", encoding="ascii")
            mark.with_suffix(".new").replace(mark)

    def close(self) -> None:
        """Let go of the file; remove it if the disk did not even take its first entry."""
        if not self._file.closed:
            # While it is locked: another process could not tell it from the file of a writer that starts.
            with suppress(OSError):
                if os.fstat(self._file.fileno()).st_size == 0:
                    self._path.unlink()
            self._file.close()


@dataclass(frozen=True, slots=True)
class LeftChain:
    """What a dead writer left: its locked file, its last entry, and what the topic may lack."""

    file: ChainFile
    last: AuditEntry
    unsent: tuple[AuditEntry, ...]


def create_chain(directory: Path, writer: str) -> ChainFile:
    """Create the file of a new writer. Raises Misconfigured."""
    path = directory / f"{writer}{_SUFFIX}"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY), "r+b", buffering=0)  # noqa: SIM115, PTH123
        fcntl.flock(file, fcntl.LOCK_EX)
        # Otherwise the name of the file could be lost in a power failure.
        sync_folder(directory)
    except OSError as error:
        raise Misconfigured(f"FREKI_AUDIT__DIRECTORY: {path} cannot be created: {error.strerror}") from error
    return ChainFile(path, file)


def left_chains(directory: Path) -> Iterator[LeftChain]:
    """Yield the chains without end, or with unsent entries, whose writers are dead, locked; the caller closes them."""
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        try:
            file = path.open("r+b", buffering=0)
        except OSError as error:
            _log.error("a file of the audit log cannot be read", file=str(path), error=str(error))
            continue
        try:
            left = _left(path, file)
        except (OSError, NotAnEntry) as error:
            if not isinstance(error, BlockingIOError):
                # It stays as it is, for `freki audit verify`.
                _log.error("a file of the audit log is damaged", file=str(path), error=str(error))
            left = None
        if left is None:
            file.close()
        else:
            yield left


def _left(path: Path, file: BinaryIO) -> LeftChain | None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    sent = _sent(path)
    last_line = _last_line(file)
    if last_line is None:
        return None
    last = entry_of(last_line)
    if last.kind is AuditKind.CLOSED and sent >= last.sequence:
        return None
    file.seek(0)
    unsent = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            # The line of an entry has its sequence as number, unless somebody changed the file.
            if number > sent:
                unsent.append(entry_of(line.rstrip(b"\n")))
    return LeftChain(ChainFile(path, file), last, tuple(unsent))


def _last_line(file: BinaryIO) -> bytes | None:
    """Return the last whole line; cut off one that its writer did not finish. None if there is none."""
    size = file.seek(0, os.SEEK_END)
    tail, start = b"", size
    while start > 0 and tail.rstrip(b"\n").count(b"\n") < 2:  # noqa: PLR2004 - a whole line before an unfinished one
        step = min(_TAIL_BYTES, start)
        start -= step
        file.seek(start)
        tail = file.read(step) + tail
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(size - (len(tail) - len(whole)))
    lines = whole.splitlines()
    return lines[-1] if lines else None


def _sent(path: Path) -> int:
    try:
        return int(path.with_suffix(_SENT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -1


def read_chains(places: Sequence[Path]) -> Iterator[tuple[str, AuditEntry | NotAnEntry]]:
    """Yield file and line of each entry in files, or folders of files, in order; a NotAnEntry for a line that is none.

    The last line of a file may be unfinished: then it is left out. Raises Misconfigured.
    """
    for place in places:
        files = sorted(place.glob(f"*{_SUFFIX}")) if place.is_dir() else [place]
        if not files and not sent_marks([place]):
            raise Misconfigured(f"{place} has no file of an audit log, *{_SUFFIX}")
        for path in files:
            yield from _read_chain(path)


def sent_marks(places: Sequence[Path]) -> dict[str, int]:
    """Return the last sequence that each writer noted as sent to the topic, of those with notes in these folders."""
    marks = (path for place in places if place.is_dir() for path in place.glob(f"*{_SENT}"))
    return {path.name.removesuffix(_SENT): _sent(path) for path in sorted(marks)}


def _read_chain(path: Path) -> Iterator[tuple[str, AuditEntry | NotAnEntry]]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                where = f"{path}:{number}"
                try:
                    yield where, entry_of(line[:-1])
                except NotAnEntry as error:
                    yield where, error
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error


def remove_expired(directory: Path, before: Timestamp) -> int:
    """Remove the files of chains whose last entry is older and whose end is on the topic; return their number."""
    removed = 0
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        with suppress(OSError, NotAnEntry), path.open("r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            line = _last_line(file)
            last = None if line is None else entry_of(line)
            if last is not None and last.kind is AuditKind.CLOSED and last.at < before and _sent(path) >= last.sequence:
                path.unlink()
                path.with_suffix(_SENT).unlink(missing_ok=True)
                removed += 1
    return removed
