"""Removal of deleted content from the file of the local store.

Milvus Lite deletes rows from its SQLite file, which may keep their bytes on free pages until these are used again. The
file is rewritten, without them, while no server uses it: before the next one starts.
"""

import sqlite3
from contextlib import closing
from pathlib import Path


def store_file(state_dir: Path) -> Path:
    """Return the file of the store of a local stack."""
    return state_dir.expanduser().absolute() / "store" / "freki.db"


def request_scrub(file: Path) -> bool:
    """Have a file rewritten before a server opens it next; return whether there is such a file."""
    if not file.exists():
        return False
    _mark(file).touch()
    return True


def scrub_if_requested(file: Path) -> None:
    """Rewrite a file if that was requested. No server may use it.

    Raises OSError if it cannot be written, as without room for a second copy; the request then stays.
    """
    if not _mark(file).exists():
        return
    try:
        with closing(sqlite3.connect(file)) as database:
            database.execute("VACUUM")
    except sqlite3.Error as error:
        raise OSError(f"what was erased cannot be removed from it: {error}") from error
    _mark(file).unlink()


def _mark(file: Path) -> Path:
    return file.with_name(f".{file.name}.scrub")
