"""CPU and memory of this process and its descendants; the store is counted separately."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from freki.schemas.names import record

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_INTERVAL_S = 0.25
# Fields of /proc/PID/stat after the name, 0-based.
_PARENT, _CPU, _RSS = 1, slice(11, 15), 21


@record
class Usage:
    """CPU time and memory used."""

    wall_s: float
    cpu_s: float
    """CPU time of the system without the store, in seconds."""
    store_cpu_s: float

    def since(self, before: "Usage") -> "Usage":
        """Return the difference to an earlier usage."""
        return Usage(
            wall_s=self.wall_s - before.wall_s,
            cpu_s=self.cpu_s - before.cpu_s,
            store_cpu_s=self.store_cpu_s - before.store_cpu_s,
        )


class Meter:
    """Context manager that samples memory several times a second; CPU time is read on demand."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_mib = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def now(self) -> Usage:
        """Return the usage so far."""
        cpu = {False: 0.0, True: 0.0}
        for fields, is_store in _tree():
            cpu[is_store] += sum(map(int, fields[_CPU])) / _TICKS
        return Usage(wall_s=time.perf_counter(), cpu_s=cpu[False], store_cpu_s=cpu[True])

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            pages = sum(int(fields[_RSS]) for fields, is_store in _tree() if not is_store)
            self.peak_mib = max(self.peak_mib, pages * _PAGE / 2**20)


def _tree() -> Iterator[tuple[list[str], bool]]:
    """Yield the `stat` fields of this process and its descendants, and whether each is the store."""
    processes = dict(_processes())
    inside = {os.getpid()}
    # Process ids wrap around: a child's id may be lower than its parent's.
    while grown := {pid for pid, (_, fields) in processes.items() if int(fields[_PARENT]) in inside} - inside:
        inside |= grown
    for pid in inside & processes.keys():
        name, fields = processes[pid]
        yield fields, name == "milvus"


def _processes() -> Iterator[tuple[int, tuple[str, list[str]]]]:
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            head, _, tail = (directory / "stat").read_text().rpartition(")")
        except OSError:
            continue
        yield int(directory.name), (head.partition("(")[2], tail.split())
