"""Starts workers fast: this process has imported everything once, and each worker is a fork of it.

A line of standard input asks for a worker: `{"log": path, "env": {...}, "arguments": ["worker", "embed"]}`. A line of
standard output is `{"started": pid}`, in the order of the requests, or `{"ended": pid, "status": code}`, negative for
a signal. The end of standard input kills all workers, so that none outlives whoever asked for them.
"""

import contextlib
import gc
import json
import os
import select
import signal
import sys
from typing import Any, NoReturn

# What a worker imports later, imported here once.
import aiokafka  # noqa: F401
import onnxruntime  # noqa: F401
import pymilvus  # noqa: F401

from freki.cli.main import main as run_command

READ_BYTES = 1 << 16


class Nursery:
    """The workers that run, by process id."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._wakeup, writing = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Start what is asked for until nobody asks any more."""
        waiting = b""
        while True:
            readable, _, _ = select.select([0, self._wakeup], [], [])
            if self._wakeup in readable:
                os.read(self._wakeup, READ_BYTES)
                self._reap()
            if 0 in readable:
                data = os.read(0, READ_BYTES)
                if not data:
                    break
                *lines, waiting = (waiting + data).split(b"\n")
                for line in lines:
                    self._start(json.loads(line))
        for pid in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _start(self, request: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            _become_worker(request)
        self._running.add(pid)
        _say(started=pid)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._running.discard(ended[0])
                # Parsers of a worker that was killed.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(ended[0], signal.SIGKILL)
                _say(ended=ended[0], status=os.waitstatus_to_exitcode(ended[1]))


def _say(**fields: int) -> None:
    os.write(1, json.dumps(fields).encode() + b"\n")


def _become_worker(request: dict[str, Any]) -> NoReturn:
    """Do what `freki worker STAGE` does, in a process group of its own."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for given, wanted in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(given, wanted)
        os.environ.update(request["env"])
        sys.argv[:] = ["freki", *request["arguments"]]
        run_command()
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    gc.freeze()
    Nursery().serve()
