"""CPU and memory usage of processes, from /proc."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from freki.schemas.names import record

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KIB = 1024


@record
class Memory:
    """Memory of processes in bytes."""

    rss: int
    """Resident set size; shared pages count in each process."""
    pss: int
    """Proportional set size: shared pages are divided among the processes, so that sums are correct."""


def session(leader: int) -> list[int]:
    """Return the process ids of a session: a child of the stack and its descendants."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [pid for pid in pids if _stat(pid)[3:4] == [str(leader)]]


def cpu_s(leader: int) -> float:
    """Return user and system CPU seconds of a session so far, including ended children."""
    # utime, stime, cutime, cstime: fields 14 to 17 of proc(5); the list begins at field 3.
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in session(leader)) / TICKS_PER_S


def cpu_by_name(leaders: Mapping[str, int]) -> dict[str, float]:
    """Return CPU seconds so far by session name."""
    return {name: cpu_s(pid) for name, pid in leaders.items()}


@contextmanager
def cpu_spent(leaders: Mapping[str, int]) -> Iterator[Mapping[str, float]]:
    """Yield a mapping that holds, after the context has ended, the CPU seconds used within it by session name."""
    spent: dict[str, float] = {}
    before = cpu_by_name(leaders)
    yield spent
    spent |= {name: seconds - before[name] for name, seconds in cpu_by_name(leaders).items()}


def memory(leader: int) -> Memory:
    """Return the current memory of a session."""
    rolls = [_rollup(pid) for pid in session(leader)]
    return Memory(rss=sum(roll.get("Rss", 0) for roll in rolls), pss=sum(roll.get("Pss", 0) for roll in rolls))


def _stat(pid: int) -> list[str]:
    """Return the fields after the name, which may contain blanks: state, parent, group, session, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended
        return []


def _rollup(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {name: int(value.split()[0]) * KIB for name, _, value in (line.partition(":") for line in lines)}
