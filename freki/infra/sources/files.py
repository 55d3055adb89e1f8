"""Files as documents."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from errno import ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, ENOTDIR, ESTALE
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Self
from urllib.parse import unquote_to_bytes, urlsplit

from freki.schemas import DocumentId, Timestamp
from freki.schemas.errors import InfraError, Rejected, Unavailable
from freki.schemas.names import invalid_id_reason

_MEDIA_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".eml": "message/rfc822",
    ".htm": "text/html",
    ".html": "text/html",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".pdf": "application/pdf",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".rst": "text/x-rst",
    ".txt": "text/plain",
    ".xhtml": "application/xhtml+xml",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Media types by suffix, independent of the operating system; the worker recognises other types."""

_SKIPPED_NAMES = frozenset({"CVS", "_darcs", "4913", "lost+found"})
# Recycle bins too: what is deleted on a share of Windows, Synology or QNAP moves there, and must not be found.
_SKIPPED_IN_ANY_CASE = frozenset(
    {
        *("thumbs.db", "desktop.ini"),
        *("$recycle.bin", "system volume information", "#recycle", "@recycle", "@eadir"),
    }
)
_SKIPPED_BEGINNINGS = (".", "~$")
_SKIPPED_ENDINGS = (
    *("~", "#", ".swp", ".swo", "___jb_tmp___", "___jb_old___"),
    *(".tmp", ".part", ".partial", ".filepart", ".crdownload"),
)


class InvalidName(Rejected):
    """A file whose path makes no valid document id."""


class Inaccessible(Rejected):
    """A file or folder that this process cannot read; the documents below it are not missing."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


LeaveOut = Callable[[InvalidName | Inaccessible], object]
"""Takes note of a file or folder in a folder that is left out."""

# ESTALE: removed from a shared disk by another machine.
_NOT_THERE = frozenset({ENOENT, ENOTDIR, ELOOP, ESTALE})
# No link is followed, nor a pipe waited for, that took the place of a file since it was found.
_AS_FOUND = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OPEN_FILES = Path("/proc/self/fd")
_OF_THIS_PROCESS = frozenset({EMFILE, ENFILE, ENOMEM})
"""Errors that any other file would give, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Rule for the document ids of files: a name, then the path below a root."""

    root: Path
    """Folder without links in its path."""
    name: str
    """First part of the ids; empty: ids are paths below the root."""

    @classmethod
    def of(cls, given: Path, *, root: Path | None = None, name: str | None = None) -> Self:
        """Return the rule for a given file or folder: the same whether a file is given alone or with its folder.

        root: default: the given folder, or the folder of a given file; name: default: that of the root. Raises Rejected
        for a path that is missing or not below the root.
        """
        path = _resolved(given)
        home = _resolved(root) if root is not None else path if path.is_dir() else path.parent
        if not home.is_dir():
            raise Rejected(f"--root {root} is no folder")
        if not path.is_relative_to(home):
            raise Rejected(f"{given} is not in --root {root}: give a folder that holds it")
        return cls(root=home, name=home.name if name is None else name.strip("/"))

    def document_id(self, path: Path) -> DocumentId:
        """Return the id of a file below the root, with forward slashes, in Unicode form NFC.

        Raises InvalidName if its path is not UTF-8, is too long or holds control characters.
        """
        below = path.relative_to(self.root).as_posix()
        document_id = unicodedata.normalize("NFC", f"{self.name}/{below}" if self.name else below)
        if reason := invalid_id_reason(document_id):
            raise InvalidName(f"{str(path)!a}: {reason}")
        return DocumentId(document_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that is or was a document."""

    document_id: DocumentId
    """Document id by name and path."""
    path: Path
    """Path; no folder in it is a link, so that a file has one path wherever it is named from."""
    content_path: Path = field(compare=False)
    """Where its content is, without any links: elsewhere than `path` if that is a link."""
    media_type: str | None
    """Media type by name; None where unknown."""
    size: int
    """Size in bytes."""
    modified_ns: int
    """Time of modification in nanoseconds since 1970."""
    changed_ns: int
    """Time of the last change of content, name or rights: a replacement may preserve size and modification time."""

    @property
    def modified_at(self) -> Timestamp:
        """Time of modification."""
        return Timestamp(self.modified_ns // 1_000_000)

    @property
    def uri(self) -> str:
        """Address of the file."""
        return self.path.as_uri()


def walk(
    paths: Iterable[Path], *, root: Path | None = None, name: str | None = None, leave_out: LeaveOut | None = None
) -> Iterator[SourceFile]:
    """Yield the files at and below some paths, in each folder ordered by name, with ids by `Naming`.

    A given file is always included. Within folders these are skipped: hidden files and folders, those of version
    control and editors, non-regular files, links out of the folder, and linked folders, whose content is found at its
    real path. Raises Rejected for a path that is missing and for two files with the same document id; and for one that
    is not readable or whose name can be no id, unless it is in a given folder and `leave_out` is given. Then files with
    one id that differ only in the Unicode form of their names are all yielded.
    """
    seen: defaultdict[DocumentId, list[Path]] = defaultdict(list)
    for path in paths:
        for file in _named(path, Naming.of(path, root=root, name=name), leave_out):
            earlier = seen[file.document_id]
            if file.path in earlier:
                continue
            if earlier and (leave_out is None or not _are_twins(earlier[0], file.path)):
                raise Rejected(_one_id(earlier[0], file))
            earlier.append(file.path)
            yield file


def scan(root: Path, start: Path, naming: Naming, leave_out: LeaveOut | None = None) -> Iterator[SourceFile]:
    """Yield the files of `walk` at or below one path of a folder, none where it does not exist. `root` is resolved."""
    if any(map(is_skipped, start.relative_to(root).parts)):
        return
    waiting = [start]
    while waiting:
        path = waiting.pop()
        try:
            found = _at(path, root, naming)
        except (InvalidName, Inaccessible) as error:
            if leave_out is None or path == root:
                raise
            leave_out(error)
            continue
        if isinstance(found, list):
            waiting += found
        elif found is not None:
            yield found


def read_source(file: SourceFile, *, max_bytes: int) -> bytes:
    """Read a file. Raises Rejected where it is too large, Inaccessible where it is missing or not readable.

    Raises Inaccessible, too, for a link or pipe that took its place, or that of a folder around it, since it was found:
    a link may lead out of the folder, to what its users may not read themselves.
    """
    try:
        with open(file.content_path, "rb", opener=lambda path, flags: os.open(path, flags | _AS_FOUND)) as stream:
            _check_place(stream.fileno(), file.content_path)
            content = stream.read(max_bytes + 1)
    except OSError as error:
        if error.errno == ELOOP:
            raise Inaccessible(file.path, "became a link since it was found") from error
        if error.errno in _NOT_THERE:
            # It may be back soon, with its folder, and nothing of it changed.
            raise Inaccessible(file.path, error.strerror or str(error)) from error
        raise _translated(file.path, error) from error
    if len(content) > max_bytes:
        raise Rejected(f"{file.path} has more than {max_bytes} bytes: split it, or raise FREKI_CLAIMS__MAX_BYTES")
    return content


def _check_place(descriptor: int, path: Path) -> None:
    """Raise Inaccessible unless an open file is a regular one in the folder of its path."""
    if not S_ISREG(os.fstat(descriptor).st_mode):
        raise Inaccessible(path, "is no file any more")
    try:
        place = (_OPEN_FILES / str(descriptor)).readlink()
    except OSError:
        # Only Linux tells where an open file is; elsewhere where its path leads to now.
        place = Path(os.path.realpath(path))
    if place.parent != path.parent:
        raise Inaccessible(path, "a folder in its path became a link, or was moved, since it was found")


def is_missing(uri: str) -> bool:
    """Return whether an address is that of a file on this machine that does not exist; False for other addresses.

    A folder or pipe in its place is no file, nor is a link to nowhere. What is reached through a linked folder has
    another address.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    if parts.scheme != "file" or parts.netloc:
        return False
    path = os.fsdecode(unquote_to_bytes(parts.path))
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        # Not `exists`, for which what lies in an inaccessible folder is missing.
        return error.errno in _NOT_THERE
    except ValueError:
        return True
    folder = str(Path(path).parent)
    return not S_ISREG(mode) or os.path.realpath(folder) != folder


def is_skipped(name: str) -> bool:
    """Return whether a file or folder of this name is hidden, or of version control, an editor or a recycle bin."""
    lower = name.lower()
    is_named = name in _SKIPPED_NAMES or lower in _SKIPPED_IN_ANY_CASE
    return is_named or lower.startswith(_SKIPPED_BEGINNINGS) or lower.endswith(_SKIPPED_ENDINGS)


def media_type_of(name: str) -> str | None:
    """Return the media type by file name; None where unknown."""
    return _MEDIA_TYPES.get(PurePosixPath(name).suffix.lower())


def _named(given: Path, naming: Naming, leave_out: LeaveOut | None) -> Iterator[SourceFile]:
    path = _resolved(given)
    if path.is_dir():
        yield from scan(path, path, naming, leave_out)
    elif file := _file(path, Path(os.path.realpath(path)), naming):
        yield file
    else:
        raise Rejected(f"{given} is neither a file nor a folder")


def _are_twins(one: Path, other: Path) -> bool:
    """Return whether two paths are the same in Unicode form NFC."""
    return unicodedata.normalize("NFC", str(one)) == unicodedata.normalize("NFC", str(other))


def _one_id(earlier: Path, file: SourceFile) -> str:
    """Return the error of two files with one document id."""
    if _are_twins(earlier, file.path):
        both = f"{str(earlier)!a} and {str(file.path)!a}"
        return f"{both} differ only in Unicode normalisation (NFC, NFD): rename one of them"
    return (
        f"{earlier} and {file.path} would both be document {file.document_id}: publish them with"
        f" --root {os.path.commonpath([earlier, file.path])}, or apart, each with its own --name"
    )


def _resolved(given: Path) -> Path:
    """Return a path without links, except that a link to a file keeps its place and name."""
    try:
        # Not `resolve`, which before Python 3.13 raises RuntimeError for a link to itself.
        path = Path(os.path.realpath(given, strict=True))
        return path if path.is_dir() else Path(os.path.realpath(given.parent, strict=True)) / given.name
    except OSError as error:
        raise _translated(given, error) from error


def _at(path: Path, root: Path, naming: Naming) -> SourceFile | list[Path] | None:
    """Return the file at a path below the root, or the paths in the folder there, last first; None for others."""
    try:
        # Not `is_dir`, which raises where the folder around may be listed and not entered.
        mode = path.stat(follow_symlinks=path == root).st_mode
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _translated(path, error) from error
    if S_ISDIR(mode):
        return sorted(_children(path), reverse=True)
    content_path = Path(os.path.realpath(path)) if S_ISLNK(mode) else path
    if not content_path.is_relative_to(root):
        return None  # before what it leads to is looked at, which may be closed to us
    return _file(path, content_path, naming)


def _file(path: Path, content_path: Path, naming: Naming) -> SourceFile | None:
    """Return a regular file; None for anything else, or if it is removed meanwhile."""
    try:
        status = path.stat()
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _translated(path, error) from error
    if not S_ISREG(status.st_mode):
        return None
    return SourceFile(
        document_id=naming.document_id(path),
        path=path,
        content_path=content_path,
        media_type=media_type_of(path.name),
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
    )


def _children(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if not is_skipped(path.name)]
    except OSError as error:
        if error.errno in _NOT_THERE:
            return []
        raise _translated(folder, error) from error


def _translated(path: Path, error: OSError) -> InfraError:
    why = error.strerror or str(error)
    if error.errno in _OF_THIS_PROCESS:
        return Unavailable(f"{path}: {why}")
    if error.errno == ENAMETOOLONG:
        return InvalidName(f"{path}: {why}")
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return Rejected(f"{path}: {why}")
    return Inaccessible(path, why)
