"""Guard process: ends the process groups of a supervisor that died.

Run as a script. Each line of standard input is the id of a process group: `17` was started, `-17` has ended. The
supervisor and, until they exec their programs, the children hold the other end of that pipe, so its end means that the
supervisor is gone: then every group that is still listed is ended. Standard library only: it must start fast and
without the package.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

GRACE_S = 5.0
"""Time for groups to stop before they are killed."""

POLL_S = 0.02


def is_alive(group: int) -> bool:
    """Return whether the group has a running process; zombies do not count."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # Without an init process that reaps orphans, as in some containers, zombies keep the group forever.
    stats = [_stat(entry) for entry in Path("/proc").glob("[0-9]*")]
    return not stats or any(member == group and state not in "ZX" for state, member in stats)


def _stat(process: Path) -> tuple[str, int]:
    try:
        # The name is enclosed in parentheses and may itself contain parentheses.
        state, _parent, group, *_ = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return "X", 0
    return state, int(group)


def send(groups: Iterable[int], number: signal.Signals) -> None:
    """Signal all processes of the groups; missing groups are ignored."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def end(groups: set[int]) -> None:
    """Terminate the groups, then kill those that did not stop in time."""
    send(groups, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while any(is_alive(group) for group in groups) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    send(groups, signal.SIGKILL)


def main() -> None:
    """Track the groups until the pipe is closed, then end them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line)
        groups.add(group) if group > 0 else groups.discard(-group)
    end(groups)


if __name__ == "__main__":
    main()
