"""Memory that code allocated, whatever threads that other tests left allocate meanwhile."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_DEEPEST = 10


class Allocated(NamedTuple):
    """Memory that was allocated by calls from a file since tracing began."""

    caller: str

    def held_bytes(self) -> int:
        """Return how much of it is still held."""
        called = tracemalloc.Filter(inclusive=True, filename_pattern=self.caller, all_frames=True)
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([called]).traces)


@contextmanager
def allocated_by(caller: str) -> Iterator[Allocated]:
    """Trace the memory that calls from this file allocate."""
    tracemalloc.start(_DEEPEST)
    try:
        yield Allocated(caller)
    finally:
        tracemalloc.stop()
