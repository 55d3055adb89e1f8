"""How many cores this process may use."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

_GROUPS = Path("/proc/self/cgroup")
_CONTROLLED = Path("/sys/fs/cgroup")
_CPU = "cpu"


def usable_cores(*, groups: Path = _GROUPS, controlled: Path = _CONTROLLED) -> int:
    """Return the number of cores that this process may run on, or its limit of CPU time in cores, rounded up.

    A container may have the time of two cores on a machine of 64. Models that ran 64 threads there would all be stopped
    for most of each period.

    groups: file that names the control groups of the process; controlled: where those are mounted.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    # Without control groups there are no limits.
    with suppress(OSError):
        for folder in _folders(groups.read_text(encoding="utf-8"), controlled):
            with suppress(OSError, ValueError, ZeroDivisionError):
                cores = min(cores, _limit(folder))
    return max(1, cores)


def _folders(groups: str, controlled: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that limit CPU time, and of those around them, which limit it too."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and _CPU not in controllers.split(","):
            continue
        mounted = controlled / _CPU if controllers else controlled
        # In a container the path may be that of its host, and the root is the group of the container.
        folder = mounted / path.strip("/")
        yield from (folder, *[each for each in folder.parents if each.is_relative_to(mounted)])


def _limit(folder: Path) -> int:
    """Return the limit of a control group in cores. Raises OSError and ValueError if it has none."""
    unified = folder / "cpu.max"
    if unified.exists():
        # "max 100000" without a limit.
        quota, period = unified.read_text(encoding="ascii").split()
    else:
        quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
        period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
    if int(quota) <= 0:
        raise ValueError("no limit")
    return ceil(int(quota) / int(period))
