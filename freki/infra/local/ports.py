"""Choice of ports on the loopback interface."""

import socket
from collections.abc import Collection
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


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _holder(port: int) -> str:
    """Return a description of the process that listens on the port, as far as the system reveals it."""
    sockets = {f"socket:[{inode}]" for inode in _listeners(port)}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if str(descriptor.readlink()) in sockets:
                process = descriptor.parents[1]
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return "another process"


def _listeners(port: int) -> list[str]:
    """Return the inodes of the sockets that listen on the port."""
    inodes = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] == _LISTEN:
                    inodes.append(fields[9])
    return inodes
