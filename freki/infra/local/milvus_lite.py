"""Serves Milvus Lite: `python -m freki.infra.local.milvus_lite PATH PORT`, until SIGTERM or the end of its parent.

Python execs the server, which keeps the process id, the lock of the database file and the parent-death signal. Writes
are durable when they are answered, so any signal may end the server. Those that the disk refuses are an exception: the
server logs them, answers that they succeeded, and keeps them in memory.
"""

import ctypes
import fcntl
import importlib.util
import os
import signal
import sys
from pathlib import Path

from freki.infra.local.ports import LOOPBACK, claim
from freki.infra.local.scrub import scrub_if_requested
from freki.schemas.errors import InfraError, Misconfigured, Rejected

PROGRAM = "milvus"
_LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables of the dynamic linkers of Linux and macOS."""
_LOGGING = {"GLOG_logtostderr": "1", "GLOG_minloglevel": "2"}
"""Environment of the server's logger: errors, which go to its output. It would write several lines for each search to a
file in the directory of temporary files, which grows without bound and is never removed."""
_PR_SET_PDEATHSIG = 1
FILE_ERRORS = (b" collection_data.cpp:", b" bm25_stats.cpp:")
"""Parts of the server's output when its file cannot be read or written: sources of its errors of SQLite. Of a damaged
file it would serve the rows before the damage."""


def serve(path: Path, port: int) -> None:
    """Replace this process by the server of the database file, which is created if missing.

    Raises Rejected if another process serves the file or listens on the port, Misconfigured if the file cannot be used.
    """
    path = path.absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _lock(path)
        scrub_if_requested(path)
    except OSError as error:
        raise Misconfigured(f"cannot serve {path}: {error}") from error
    # The server would share it silently, also with one that starts at the same time.
    if (claimed := claim(port)) is None:
        raise Rejected(f"port {port} is taken: stop what listens there, or give another port")
    claimed.set_inheritable(True)
    directory = program_directory()
    _die_with_parent()
    os.chdir(path.parent)
    libraries = {name: f"{directory}:{os.environ.get(name, '')}" for name in _LIBRARY_PATHS}
    program = str(directory / PROGRAM)
    arguments = [program, str(path), f"{LOOPBACK}:{port}", "ERROR"]
    # The server writes temporary files to HOME, and fails if that is missing or `/`, as for users of containers.
    environment = {**os.environ, **libraries, **_LOGGING, "HOME": str(path.parent)}
    os.execve(program, arguments, environment)  # noqa: S606 - no shell


def program_directory() -> Path:
    """Return the directory of the installed server and its shared libraries. Raises Misconfigured if there is none."""
    # Not imported: milvus-lite 2.5.1 imports pkg_resources, which environments of Python 3.12 and newer do not have.
    package = importlib.util.find_spec("milvus_lite")
    for location in (package and package.submodule_search_locations) or ():
        directory = Path(location) / "lib"
        if (directory / PROGRAM).is_file():
            return directory
    raise Misconfigured("the server of the package milvus-lite is not installed: install milvus-lite 2.5.1")


def _lock(path: Path) -> None:
    """Acquire the lock that pymilvus also acquires when it opens such a file."""
    lock = os.open(path.parent / f".{path.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode() or "unknown"
        raise Rejected(f"{path} is served by another process (id {holder}): stop it, or give another path") from error
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    # The lock is held as long as the descriptor is open.
    os.set_inheritable(lock, True)  # noqa: FBT003 - positional only


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> None:
    """Serve the file and port of the command line."""
    try:
        path, port = sys.argv[1:]
        serve(Path(path), int(port))
    except ValueError:
        sys.exit("usage: python -m freki.infra.local.milvus_lite PATH PORT")
    except InfraError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
