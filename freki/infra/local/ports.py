"""Choice of ports on the loopback interface."""

import os
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from freki.schemas.errors import Misconfigured

LOOPBACK = "127.0.0.1"
_LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""


def choose_port(setting: str, wanted: int, *, last: int | None, avoid: Collection[int]) -> int:
    """Return the wanted port, else the last used one if free, else any free one outside of `avoid`.

    Raises Misconfigured, naming the setting and the process in the way, if the wanted port (not 0) is taken.
    """
    if wanted:
        if not is_free(wanted):
            raise Misconfigured(
                f"port {wanted} of {setting} is taken by {_holder(wanted)}: stop it, or set {setting} "
                "to another port or to 0 for a free one"
            )
        return wanted
    if last and last not in avoid and is_free(last):
        return last
    while (port := _any_free()) in avoid:
        pass
    return port


def is_free(port: int) -> bool:
    """Return whether a server can listen on the port now."""
    with socket.socket() as probe:
        # As servers do: connections in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def claim(port: int) -> socket.socket | None:
    """Claim a port for a server that shares its port with others silently; None: another process has it.

    While the returned socket is open, also in a program that inherits it, that server can listen there, and so can
    those of the same user that share ports; `is_free` says no.
    """
    claimed = socket.socket()
    claimed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            first.bind((LOOPBACK, port))
            # Of two that claim the port at once, only one can listen.
            first.listen()
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            claimed.bind((LOOPBACK, port))
        except OSError:
            claimed.close()
            return None
    return claimed


def foreign_listener(port: int, group: int) -> str | None:
    """Return a description of the process that listens on the port where none of the process group does.

    None: one of the group does, nobody does, or the system does not tell.
    """
    listeners = _sockets(port)
    if not listeners or any(listeners & _open_files(process) for process in _members(group)):
        return None
    return _holder(port)


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _holder(port: int) -> str:
    """Return a description of the process that listens on the port, as far as the system reveals it."""
    sockets = _sockets(port)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sockets & _open_files(process):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return "another process"


def _members(group: int) -> Iterator[Path]:
    """Yield the folders in /proc of the processes of a group."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(process.name)) == group:
                yield process


def _open_files(process: Path) -> set[str]:
    """Return what the descriptors of a process refer to; nothing of those of other users."""
    files = set()
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            # It may have been closed since.
            with suppress(OSError):
                files.add(str(descriptor.readlink()))
    return files


def _sockets(port: int) -> set[str]:
    """Return the sockets that listen on the port, by the names that /proc has for them."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] == _LISTEN:
                    sockets.add(f"socket:[{fields[9]}]")
    return sockets
