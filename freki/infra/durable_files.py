"""Files that are on disk as a whole, or not there."""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EDQUOT, EEXIST, ENOSPC, ENOTDIR
from pathlib import Path
from tempfile import TemporaryDirectory

PARTIAL = ".partial"
"""Suffix of a file that `write_atomically` has begun."""
FULL = frozenset({ENOSPC, EDQUOT})
"""Codes of errors of a full disk."""
_OWNER_ONLY = 0o600


def create_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner reads, such as a key, as `create_file` does, with its folders."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        # Else it would seem that the file exists.
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path.parent)) from error
    create_file(path, content, mode=_OWNER_ONLY)


def create_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a new file durably. Raises OSError, FileExistsError if there is one; then none is left.

    A file that was begun would look like a key or a report that must not be replaced. mode: less the umask.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def create_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write a new folder of files by name, for its owner alone. Raises OSError, FileExistsError if there is one.

    It is there as a whole, or not at all: a part of a log would look like all of it.
    """
    if os.path.lexists(path):
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as temporary:
        made = Path(temporary) / path.name
        made.mkdir(mode=0o700)
        for name, content in contents.items():
            create_file(made / name, content)
        made.rename(path)
    sync_folder(path.parent)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write or replace a file: on disk it is complete, or as before. Raises OSError, and what `write` raises.

    A link stays one, and a file keeps its mode.
    """
    path = Path(os.path.realpath(path))
    partial = path.with_name(path.name + PARTIAL)
    try:
        write(partial)
        with suppress(FileNotFoundError):
            shutil.copymode(path, partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
