"""New files that only their owner reads, such as keys."""

import os
from errno import ENOTDIR
from pathlib import Path

_OWNER_ONLY = 0o600


def create_private(path: Path, content: bytes) -> None:
    """Write a new file durably, with its folders. Raises OSError, FileExistsError if there is one; then none is left.

    A file that was begun would look like a key that must not be replaced.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        # Else it would seem that the file exists.
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path.parent)) from error
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
