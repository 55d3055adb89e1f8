"""Elapsed time that goes on while the machine sleeps: what was read before has aged when it wakes up."""

import time

_CLOCK = time.CLOCK_BOOTTIME if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_MONOTONIC


def elapsed_ns() -> int:
    """Return the nanoseconds of a monotonic clock, if possible of one that goes on while the machine sleeps."""
    return time.clock_gettime_ns(_CLOCK)


def elapsed_s() -> float:
    """Return its seconds."""
    return elapsed_ns() / 1e9
