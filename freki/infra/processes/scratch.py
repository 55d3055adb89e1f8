"""Folders for content that a command reads or writes by path."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from freki.schemas.errors import Unavailable


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that only this user enters, and remove it at the end. Raises Unavailable if there is no room.

    prefix: how the names of such folders begin. A killed process cannot remove its own, which may hold content of
    documents that are erased later: whoever makes the next one does, as `remove_left`.
    """
    remove_left(prefix)
    with _on_disk():
        folder, descriptor = _locked(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def put(file: Path, content: bytes) -> None:
    """Write a file of such a folder. Blocking; raises Unavailable if there is no room."""
    with _on_disk():
        file.write_bytes(content)


def remove_left(prefix: str) -> None:
    """Remove what dead processes of this user left of such folders; a process holds a lock on its own while it runs."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        # Gone, in use, a link, or of somebody else.
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(descriptor)


@contextmanager
def _on_disk() -> Iterator[None]:
    """Translate errors of the file system: no record is the reason, and none may be refused for it."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{tempfile.gettempdir()} cannot be written: {error.strerror}; make room or allow writing there, or name "
            "another folder with TMPDIR"
        ) from error


def _locked(prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        # Until it is locked, another process may take it for one that was left.
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            # Where folders cannot be locked, none is taken for one that was left.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)
