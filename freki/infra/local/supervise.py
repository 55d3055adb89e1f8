"""Supervisor of child processes: started in order, restarted with backoff, stopped in reverse order.

Each child runs in its own session, so that Ctrl-C reaches only the supervisor and the descendants of the child can be
ended with it. Before exec it writes its id to the pipe of the guard (`guard.py`), which ends the remaining processes if
the supervisor dies.
"""

import asyncio
import math
import os
import random
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from freki.client.tasks import cancel_and_wait, ends_within
from freki.infra.local import guard
from freki.infra.local.children import (
    READY_FILE,
    ChildSpec,
    Died,
    Event,
    NotReady,
    Ready,
    Restarting,
    Started,
    Stopped,
    start_levels,
)
from freki.infra.local.guard_process import GuardProcess
from freki.infra.local.logs import BoundedLog, LogPipe
from freki.infra.local.ports import foreign_listener
from freki.schemas.errors import InfraError, Rejected, Unavailable

PROBE_INTERVAL_S = 0.02
"""Interval of readiness probes."""
KILLED_WITHIN_S = 2.0
"""Timeout for killed processes and their output to end."""
RECALL_TIMEOUT_S = 2.0
"""Stop timeout after the loss of a dependency, without which work in flight cannot be finished."""

# Standard input is the pipe of the guard: file descriptors above 9 are not portable in shells.
_REGISTER = 'echo $$ >&0; exec "$@" </dev/null'


@dataclass(slots=True, eq=False)
class _Child:
    spec: ChildSpec
    log: BoundedLog
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    down: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while its process does not run."""
    recalled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to stop it after a dependency lost its data."""
    lost_data: bool = False
    """Whether its output said so."""
    group: int | None = None
    was_ready: bool = False
    failure: str = ""
    is_final: bool = False
    """Whether its last exit status is one that no restart mends."""


async def _nothing(_name: str) -> None:
    pass


class Supervisor:
    """An async context manager that runs children; entering returns when all are ready.

    Leaving stops the children, dependents first; cancellation meanwhile kills them.

    `prepare(name)` runs each time a child becomes ready, before its dependents start: here the caller fills a server
    that lost its data. `report` receives all events and must not raise. `hold`: file descriptors that stay open until
    the last process ends, even if the supervisor is killed. Raises Rejected if a child fails too often before it was
    ever ready, ValueError for unknown dependencies, CycleError for circular ones.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        *,
        log_dir: Path,
        report: Callable[[Event], None],
        prepare: Callable[[str], Awaitable[None]] = _nothing,
        hold: Collection[int] = (),
    ) -> None:
        self._order = start_levels(specs)
        self._children = {spec.name: _Child(spec, BoundedLog(log_dir / f"{spec.name}.log")) for spec in specs}
        self._report = report
        self._prepare = prepare
        self._guard = GuardProcess(self._groups, hold)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._killing = False

    async def __aenter__(self) -> Self:
        self._guard.open()
        for child in self._children.values():
            child.down.set()
            self._tasks[child.spec.name] = asyncio.create_task(self._keep(child), name=f"keep {child.spec.name}")
        try:
            await _race(self._all_ready(), self.failed())
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def failed(self) -> None:
        """Wait until a child cannot be kept running, and raise the reason."""
        done, _ = await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _stop(self) -> None:
        """Stop in order; kill all if cancelled meanwhile."""
        stopping = asyncio.create_task(self._stop_in_order(), name="stop the children")
        cancelled: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as error:
                cancelled = error
                self._killing = True
                guard.send(self._groups(), signal.SIGKILL)
        stopping.result()
        if cancelled:
            raise cancelled

    async def _stop_in_order(self) -> None:
        for names in reversed(self._order):
            await cancel_and_wait([self._tasks[name] for name in names])
        await self._guard.close()

    def _groups(self) -> list[int]:
        return [child.group for child in self._children.values() if child.group is not None]

    async def _all_ready(self) -> None:
        for child in self._children.values():
            await child.ready.wait()

    async def _keep(self, child: _Child) -> None:
        policy, failures = child.spec.restart, 0
        while True:
            await self._dependencies_ready(child)
            healthy_s = await self._run(child)
            if child.spec.is_volatile or child.lost_data:
                await self._recall_dependents(child)
            if child.recalled.is_set():
                child.recalled.clear()
                continue
            failures = 1 if healthy_s >= policy.healthy_after_s else failures + 1
            if not child.was_ready and (child.is_final or failures >= policy.attempts):
                times = "" if failures == 1 else f" {failures} times"
                raise Rejected(f"{child.spec.name} failed{times} before it was ready: {child.failure}")
            delay_s = policy.delay_s(failures, random.random())  # noqa: S311 - spreads load, guards nothing
            self._report(Restarting(name=child.spec.name, in_s=delay_s, failures=failures))
            await asyncio.sleep(delay_s)

    async def _dependencies_ready(self, child: _Child) -> None:
        needed = [self._children[name].ready for name in child.spec.depends_on]
        while not all(ready.is_set() for ready in needed):
            for ready in needed:
                await ready.wait()
        # No await from here to the start, or a dependency that dies now would not recall the child.
        child.down.clear()

    async def _recall_dependents(self, lost: _Child) -> None:
        running = [
            child
            for child in self._children.values()
            if lost.spec.name in child.spec.depends_on and not child.down.is_set()
        ]
        for child in running:
            child.recalled.set()
        for child in running:
            await child.down.wait()

    async def _run(self, child: _Child) -> float:
        """Run a child once; return the seconds for which it was ready."""
        now = asyncio.get_running_loop().time
        started = now()
        child.lost_data = False
        ready_at = math.inf

        async def become_ready() -> None:
            nonlocal ready_at
            await self._become_ready(child)
            ready_at = now()
            child.was_ready = True
            child.ready.set()
            self._report(Ready(name=child.spec.name, after_s=ready_at - started))
            await asyncio.Event().wait()

        try:
            process, output = await self._start(child)
            try:
                await _race(process.wait(), child.recalled.wait(), become_ready(), _loss_of_data(child, output))
            except (TimeoutError, InfraError) as error:
                child.failure = str(error) or f"not ready within {child.spec.ready_timeout_s:g} s"
                self._report(NotReady(name=child.spec.name, reason=child.failure))
            finally:
                child.ready.clear()
                await self._end(child, process, output, lasted_s=now() - started)
        finally:
            child.down.set()
        return max(0.0, now() - ready_at)

    async def _start(self, child: _Child) -> tuple[asyncio.subprocess.Process, LogPipe]:
        spec, env = child.spec, {**os.environ, **child.spec.env}
        if isinstance(spec.ready, Path):
            spec.ready.unlink(missing_ok=True)
            env[READY_FILE] = str(spec.ready)
        output = LogPipe(child.log, spec.fatal_output)
        writing = await output.open()
        try:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", _REGISTER, spec.name, *spec.command),
                stdin=self._guard.pipe,
                stdout=writing,
                stderr=writing,
                env=env,
                start_new_session=True,
            )
        except BaseException:
            await output.drain(0)
            raise
        finally:
            os.close(writing)
        child.group = process.pid
        self._report(Started(name=spec.name, pid=process.pid))
        return process, output

    async def _become_ready(self, child: _Child) -> None:
        ready = child.spec.ready
        async with asyncio.timeout(child.spec.ready_timeout_s):
            while not (ready.exists() if isinstance(ready, Path) else await ready()):  # noqa: ASYNC110 - other process
                await asyncio.sleep(PROBE_INTERVAL_S)
        # Before it is prepared: the server of another program or stack would be changed, and workers would join it.
        if child.spec.port and child.group and (other := foreign_listener(child.spec.port, child.group)):
            raise Unavailable(f"{other} listens on its port {child.spec.port}: stop that")
        await self._prepare(child.spec.name)

    async def _end(
        self, child: _Child, process: asyncio.subprocess.Process, output: LogPipe, *, lasted_s: float
    ) -> None:
        """End the remaining processes of the group, and report the result."""
        returncode = process.returncode
        child.is_final = returncode in child.spec.final_statuses
        try:
            if returncode is None and not self._killing:
                await self._ask_to_stop(child, process)
        finally:
            guard.send([process.pid], signal.SIGKILL)
            await process.wait()
            await ends_within(KILLED_WITHIN_S, _vanished(process.pid))
            await output.drain(KILLED_WITHIN_S)
            child.group = None
            self._guard.forget(process.pid)
        # It may have ended before this part of its output was read.
        child.lost_data = output.fatal.is_set()
        if returncode is None:
            self._report(Stopped(name=child.spec.name))
            return
        died = Died(
            name=child.spec.name,
            returncode=returncode,
            lasted_s=lasted_s,
            last_lines=child.log.tail(),
            loss=child.spec.loss,
        )
        child.failure = child.spec.fatal_reason if child.lost_data else "\n".join([died.how, *died.last_lines])
        self._report(died)

    async def _ask_to_stop(self, child: _Child, process: asyncio.subprocess.Process) -> None:
        guard.send([process.pid], child.spec.stop_signal)
        patience_s = child.spec.stop_timeout_s
        if child.recalled.is_set():
            patience_s = min(patience_s, RECALL_TIMEOUT_S)
        await ends_within(patience_s, _ended(process))


async def _race(*runners: Coroutine[None, None, object]) -> None:
    """Wait for the first to end, cancel the others, and raise its exception."""
    tasks = [asyncio.ensure_future(runner) for runner in runners]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel_and_wait(tasks)


async def _loss_of_data(child: _Child, output: LogPipe) -> None:
    """Kill a child whose output says that it lost data, before it confirms more, and raise Unavailable."""
    await output.fatal.wait()
    if child.group is not None:
        guard.send([child.group], signal.SIGKILL)
    raise Unavailable(child.spec.fatal_reason)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait until a process and all that it started have ended."""
    await process.wait()
    await _vanished(process.pid)


async def _vanished(group: int) -> None:
    """Wait until no process of the group runs."""
    while guard.is_alive(group):  # noqa: ASYNC110 - no descendant can be waited for
        await asyncio.sleep(guard.POLL_S)
