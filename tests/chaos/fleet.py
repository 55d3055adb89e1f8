"""The worker processes of a run, each with a name that outlives it."""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.chaos.plan import stage_of

READY_FILE = "FREKI_READY_FILE"
LEAVE_S = 40.0
"""A worker that is asked to stop finishes its batch within 35 s."""
RESTART_S = 0.3
"""After a worker ended by itself."""
MOST_FAILURES = 20
"""While nothing happens to workers: more means that a setting is wrong."""
POLL_S = 0.05
LAST_LINES = 4


class NotReadyError(Exception):
    """A worker takes too long to start."""


@dataclass(slots=True)
class Worker:
    """A name, and the process that has it."""

    name: str
    wanted: bool = True
    pid: int = 0
    """0: none runs."""
    starts: int = 0
    doomed: set[int] = field(default_factory=set)
    """Processes that we ended ourselves."""


class Fleet:
    """Keeps the workers running that are wanted."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str], of_stage: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Keep what workers have in their environment; `of_stage` adds to it."""
        self._directory = directory
        self._environment = dict(environment)
        self._of_stage = of_stage
        self._workers: dict[str, Worker] = {}
        self._by_pid: dict[int, Worker] = {}
        self._asked: list[Worker] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.endings: Counter[str] = Counter()
        """How workers ended that were not to end."""
        self.notes: list[str] = []

    async def __aenter__(self) -> Self:
        (self._directory / "logs").mkdir(exist_ok=True)
        self._nursery = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.nursery"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Threads of its own would be lost in the workers.
            env={**os.environ, **self._environment, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._listener = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        await self._nursery.wait()
        await self._listener

    def add(self, name: str) -> None:
        """Start a worker."""
        worker = self._workers.setdefault(name, Worker(name))
        worker.wanted = True
        self._start(worker)

    async def remove(self, name: str) -> None:
        """Ask a worker to stop; it may take its time."""
        worker = self._workers[name]
        worker.wanted = False
        pid = await self._pid(worker)
        self._end(worker, pid, signal.SIGTERM)
        self._beside(self._see_off(name, pid))

    async def kill(self, name: str) -> None:
        """Kill a worker; another process takes its name."""
        worker = self._workers[name]
        self._end(worker, await self._pid(worker), signal.SIGKILL)

    async def stop(self, name: str, seconds: float) -> None:
        """Let a worker stand still for a while."""
        pid = await self._pid(self._workers[name])
        self._signal(pid, signal.SIGSTOP)
        self._beside(self._resume(pid, seconds))

    async def settle(self, patience_s: float) -> None:
        """Wait until all wanted workers run and are ready, and those that stood still go on.

        Raises NotReadyError, with the names of those that are not.
        """
        failures, until = self.endings.total(), time.monotonic() + patience_s
        while self._tasks or self._not_ready():
            await asyncio.sleep(POLL_S)
            if self.endings.total() - failures > MOST_FAILURES:
                raise RuntimeError(f"workers cannot start: {self.notes[-1]}")
            if time.monotonic() > until:
                late = ", ".join(self._not_ready()) or "one that was stopped, or leaves,"
                raise NotReadyError(f"{late} not ready after {patience_s:g} s")

    async def end(self) -> None:
        """Ask all workers to stop, and wait for them."""
        for worker in [each for each in self._workers.values() if each.wanted]:
            await self.remove(worker.name)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _not_ready(self) -> list[str]:
        return [name for name, each in self._workers.items() if each.wanted and not self._is_ready(each)]

    def _is_ready(self, worker: Worker) -> bool:
        return worker.pid != 0 and self._ready_file(worker).exists()

    def _ready_file(self, worker: Worker) -> Path:
        return self._directory / "run" / f"{worker.name}-{worker.starts}.ready"

    def _log(self, name: str) -> Path:
        return self._directory / "logs" / f"{name}.log"

    def _start(self, worker: Worker) -> None:
        worker.starts += 1
        stage = stage_of(worker.name)
        environment = {**self._environment, **self._of_stage.get(stage, {})}
        request = {
            "log": str(self._log(worker.name)),
            "env": {**environment, READY_FILE: str(self._ready_file(worker))},
            "arguments": ["worker", stage],
        }
        self._asked.append(worker)
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(request).encode() + b"\n")

    async def _listen(self) -> None:
        assert self._nursery.stdout is not None
        async for line in self._nursery.stdout:
            said = json.loads(line)
            if "started" in said:
                worker = self._asked.pop(0)
                worker.pid = said["started"]
                self._by_pid[worker.pid] = worker
            else:
                self._ended(self._by_pid.pop(said["ended"]), said["ended"], said["status"])

    def _ended(self, worker: Worker, pid: int, status: int) -> None:
        worker.pid = 0
        ours = pid in worker.doomed
        if not ours:
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            lines = self._log(worker.name).read_text(encoding="utf-8", errors="replace").splitlines()
            self.endings[f"{stage_of(worker.name)}: {how}"] += 1
            self.notes.append("\n  ".join([f"{worker.name} ended by itself, {how}", *lines[-LAST_LINES:]]))
        if worker.wanted:
            self._beside(self._again(worker, 0.0 if ours else RESTART_S))

    async def _again(self, worker: Worker, rest_s: float) -> None:
        await asyncio.sleep(rest_s)
        if worker.wanted:
            self._start(worker)

    async def _pid(self, worker: Worker) -> int:
        """Wait for the process of a worker, which may be between two."""
        while not worker.pid:  # noqa: ASYNC110 - the nursery says so
            await asyncio.sleep(POLL_S)
        return worker.pid

    def _end(self, worker: Worker, pid: int, number: signal.Signals) -> None:
        worker.doomed.add(pid)
        self._signal(pid, number)

    def _signal(self, pid: int, number: signal.Signals) -> None:
        # Process ids come back only long after; one that has ended since is not signalled.
        if pid in self._by_pid:
            os.kill(pid, number)

    async def _resume(self, pid: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._signal(pid, signal.SIGCONT)

    async def _see_off(self, name: str, pid: int) -> None:
        until = time.monotonic() + LEAVE_S
        while pid in self._by_pid and time.monotonic() < until:  # noqa: ASYNC110 - the nursery says so
            await asyncio.sleep(POLL_S)
        if pid in self._by_pid:
            self.endings[f"{stage_of(name)}: not gone {LEAVE_S:g} s after SIGTERM"] += 1
            self._signal(pid, signal.SIGKILL)

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
