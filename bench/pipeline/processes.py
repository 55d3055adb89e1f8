"""What processes of this machine have used, as Linux counts it in /proc."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from freki.schemas.names import record

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KIB = 1024


@record
class Memory:
    """Bytes that processes hold."""

    rss: int
    """All that lies in RAM; what processes share counts in each of them."""
    pss: int
    """The same with shared pages divided among those that share them: these add up."""


def session(leader: int) -> list[int]:
    """Find the processes of a session: a child of the stack and all that it started."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [pid for pid in pids if _stat(pid)[3:4] == [str(leader)]]


def cpu_s(leader: int) -> float:
    """CPU seconds, user and system, that a session has used so far, ended children of its processes included."""
    # utime, stime, cutime, cstime: fields 14 to 17 of proc(5), which the list begins at field 3.
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in session(leader)) / TICKS_PER_S


def cpu_by_name(leaders: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds so far of each named session."""
    return {name: cpu_s(pid) for name, pid in leaders.items()}


@contextmanager
def cpu_spent(leaders: Mapping[str, int]) -> Iterator[Mapping[str, float]]:
    """Give what holds, once the context has ended, the CPU seconds that each named session used within it."""
    spent: dict[str, float] = {}
    before = cpu_by_name(leaders)
    yield spent
    spent |= {name: seconds - before[name] for name, seconds in cpu_by_name(leaders).items()}


def memory(leader: int) -> Memory:
    """Bytes that a session holds now."""
    rolls = [_rollup(pid) for pid in session(leader)]
    return Memory(rss=sum(roll.get("Rss", 0) for roll in rolls), pss=sum(roll.get("Pss", 0) for roll in rolls))


def _stat(pid: int) -> list[str]:
    """Give the fields after the name, which may hold blanks: state, parent, group, session, …"""
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
