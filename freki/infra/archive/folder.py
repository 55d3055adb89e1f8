"""Files of an archive: names, checksums; folders of dated archives."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path

from freki.infra.durable_files import FULL
from freki.schemas.errors import Misconfigured, Rejected, Unavailable

MANIFEST = "manifest.json"
UNFINISHED = "unfinished.jsonl"
"""Start and finished parts of an archive that is not complete, one line each."""
LOCK = ".lock"

_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Translate errors of the file system."""
    try:
        yield
    except FileNotFoundError as error:
        raise Rejected(f"{error.filename} is missing: restore it from a copy") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise Misconfigured(f"{folder} is no folder: name one, or one to be made") from error
    except OSError as error:
        if error.errno in _REFUSED:
            # Trying again would not help.
            raise Misconfigured(
                f"{error.filename or folder}: {error.strerror}; allow it to this user, or name another folder"
            ) from error
        room = "make room, then " if error.errno in FULL else ""
        raise Unavailable(f"{folder}: {error.strerror or error}; {room}run the command again, it continues") from error


def make_folder(folder: Path) -> None:
    """Make a folder, with its parents, unless it is there."""
    with disk(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:
            raise Misconfigured(
                f"{folder}: no folder can be made there ({error.strerror}); name another folder"
            ) from error


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def dated_folders(parent: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders with a complete archive, and of those with an unfinished one."""
    with disk(parent):
        folders = sorted(path for path in parent.iterdir() if path.is_dir()) if parent.exists() else []
        complete = [path.name for path in folders if (path / MANIFEST).exists()]
        return complete, [path.name for path in folders if path.name not in complete and (path / UNFINISHED).exists()]


def remove_folder(path: Path) -> None:
    """Delete an archive; one that is partly deleted looks unfinished, so that the next removal finds it."""
    with disk(path):
        if (path / MANIFEST).exists():
            (path / MANIFEST).replace(path / UNFINISHED)
        for each in path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != UNFINISHED:
                each.unlink()
        shutil.rmtree(path)
