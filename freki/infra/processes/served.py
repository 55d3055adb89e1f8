"""The main loop of a child process: answers calls within limits until disconnected. Imports very little."""

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
"""Niceness of child processes, so that heartbeats of workers have priority."""
_KILLED_FIRST = Path("/proc/self/oom_score_adj")
"""File by which the kernel prefers to kill this process over the worker when out of memory."""
_NOTHING = 0
_MOST_FRAMES = 20


class Setup(NamedTuple):
    """Parameters of a child."""

    work: Callable[..., Any]
    memory: int
    """Maximum address space in bytes."""
    cpu_s: float
    """Maximum CPU seconds per call."""


class Outcome(NamedTuple, Generic[R]):
    """Result of a call; undefined if there is an error."""

    result: R
    error: Exception | None


def serve(handle: int) -> None:
    """Answer calls until disconnected. The entry point of a child."""
    # Signals to the whole group are for the worker, which then disconnects: a document whose process ended twice is
    # rejected.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread would take address space
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
        # Its traceback cannot be pickled.
        frames = traceback.extract_tb(error.__traceback__, limit=-_MOST_FRAMES)
        error.add_note("\n".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames))
        return pickle.dumps(Outcome(None, error))


def _limit(memory: int) -> None:
    os.nice(_NICENESS)
    with suppress(OSError):  # Linux only
        _KILLED_FIRST.write_text("1000", encoding="ascii")
    _lower(resource.RLIMIT_CORE, _NOTHING)
    _lower(resource.RLIMIT_FSIZE, _NOTHING)
    if sys.platform != "darwin":  # which rejects useful limits
        _lower(resource.RLIMIT_AS, memory)


def _limit_cpu(seconds: float) -> None:
    """Limit CPU time, in case no parent is left to kill this process."""
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds) + _CPU_SLACK_S, hard=False)


def _lower(limit: int, value: int, *, hard: bool = True) -> None:
    """Set a resource limit, unless a lower one is set."""
    most = resource.getrlimit(limit)[1]
    lowered = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(limit, (lowered, lowered if hard else most))
