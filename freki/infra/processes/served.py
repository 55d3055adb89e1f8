"""What runs in a child process: it answers calls, within limits, until the other side hangs up. Imports very little."""

import math
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

_CPU_SLACK_S = 5
_NICENESS = 5
"""A worker's heartbeats go first."""
_KILLED_FIRST = Path("/proc/self/oom_score_adj")
"""Where memory runs out, the kernel should end this process and not the worker."""
_NOTHING = 0
_MOST_FRAMES = 20


class Setup(NamedTuple):
    """What a child needs before its first call."""

    work: Callable[..., Any]
    memory: int
    """Bytes of address space."""
    cpu_s: float
    """Seconds of a processor for each call."""


class Outcome(NamedTuple, Generic[R]):
    """What became of a call; the result counts only where there is no error."""

    result: R
    error: Exception | None


def serve(handle: int) -> None:
    """Answer calls until the other side hangs up. This is what runs in a child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker, which then hangs up
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of many threads each would take address space
    line = Connection(handle)
    setup: Setup = pickle.loads(line.recv_bytes())  # noqa: S301 - from the process that started us
    _limit(setup.memory)
    line.send_bytes(pickle.dumps(None))
    with suppress(EOFError):
        while True:
            request = line.recv_bytes()
            _limit_cpu(setup.cpu_s)
            line.send_bytes(_answered(setup.work, request))


def _answered(work: Callable[..., Any], request: bytes) -> bytes:
    try:
        args, kwargs = pickle.loads(request)  # noqa: S301 - from the process that started us
        return pickle.dumps(Outcome(work(*args, **kwargs), None))
    except Exception as error:  # noqa: BLE001 - the caller judges
        # Its traceback cannot travel.
        frames = traceback.extract_tb(error.__traceback__, limit=-_MOST_FRAMES)
        error.add_note("\n".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames))
        return pickle.dumps(Outcome(None, error))


def _limit(memory: int) -> None:
    os.nice(_NICENESS)
    with suppress(OSError):  # Linux alone has it
        _KILLED_FIRST.write_text("1000", encoding="ascii")
    _lower(resource.RLIMIT_CORE, _NOTHING)
    _lower(resource.RLIMIT_FSIZE, _NOTHING)
    if sys.platform != "darwin":  # which refuses any limit that is useful
        _lower(resource.RLIMIT_AS, memory)


def _limit_cpu(seconds: float) -> None:
    """End this process by its own doing if nobody is left to kill it."""
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds) + _CPU_SLACK_S, hard=False)


def _lower(limit: int, value: int, *, hard: bool = True) -> None:
    """Set a limit, or keep the one that is lower already."""
    most = resource.getrlimit(limit)[1]
    lowered = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(limit, (lowered, lowered if hard else most))
