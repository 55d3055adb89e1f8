"""Worker processes that are started, paused, killed, asked to leave, and taken for dead."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation import adapter
from tests.simulation.loop import OUTSIDE, Process, SimulatedLoop
from tests.simulation.nodes import Surroundings, Worker
from tests.simulation.scenario import ANYONE, SENDS, WRITES, Crash, Expire, Leave, Pause, Reclaim, Scenario, Unreadable

KILL_S = 40.0
"""How long a worker that was asked to leave may take."""
ARMED_S = 10.0
"""How long faults still wait for their calls when the last change is sent."""
MOST_RESTARTS = 4
"""Of a worker once there are no more faults."""

Armed = Crash | Pause | Expire


@dataclass(slots=True)
class Slot:
    """Where one worker after the other runs."""

    number: int
    names: tuple[str, ...]
    clock_ms: int
    release: int
    lives: int = 0
    worker: Worker | None = None
    pauses: int = 0
    restarts: int = 0


@dataclass(slots=True)
class Waiting:
    """A fault that waits for so many calls."""

    fault: Armed
    calls: int

    def counts(self, slot: int, call: str, args: Sequence[Any]) -> bool:
        """Tell whether a worker's call is one of those."""
        fault, kind = self.fault, call.partition(":")[0]
        return (
            fault.worker in {slot, ANYONE}
            and (fault.of in {call, kind} or (fault.of == WRITES and call in adapter.WRITES))
            and (not fault.key or (fault.key in args if kind == SENDS else adapter.concerns(args, fault.key)))
        )


class Workers:
    """All workers of a scenario, and the supervisor that starts them again."""

    def __init__(
        self,
        scenario: Scenario,
        surroundings: Surroundings,
        random: Random,
        note: Callable[..., None],
    ) -> None:
        kinds = zip(scenario.workers, scenario.clocks_ms, scenario.releases, strict=True)
        self.slots = [Slot(number, *each) for number, each in enumerate(kinds)]
        self._armed: list[Waiting] = []
        self.problems: list[str] = []
        self.is_calm = False
        self._surroundings = surroundings
        self._loop: SimulatedLoop = surroundings.loop
        self._random = random
        self._note = note

    async def calm_down(self) -> None:
        """Wait until nobody is paused any more, and let every worker run from now on."""
        until_s = self._loop.time() + ARMED_S
        while self._armed and self._loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        while any(slot.worker is not None and slot.worker.process.paused for slot in self.slots):  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        self.is_calm = True
        self._loop.starved = None
        for slot in self.slots:
            self.start(slot)

    def at_work(self) -> list[str]:
        """Return the names of the workers that have batches in flight."""
        running = [slot.worker for slot in self.slots if slot.worker is not None]
        return [each.process.name for each in running if any(stage._in_flight for stage in each.stages)]

    def on_call(self, process: Process | None, call: str, args: Sequence[Any]) -> bool:
        """Let faults happen that wait for calls of a worker; tell whether one happened."""
        if not self._armed or self.is_calm:
            return False
        slot = next((slot for slot in self.slots if slot.worker is not None and slot.worker.process is process), None)
        if slot is None:
            return False
        counting = [waiting for waiting in self._armed if waiting.counts(slot.number, call, args)]
        for waiting in counting:
            waiting.calls -= 1
        due = next((waiting for waiting in counting if waiting.calls <= 0), None)
        if due is None:
            return False
        self._armed.remove(due)
        fault = due.fault
        if fault.then is not None:
            self._armed.append(Waiting(fault.then, fault.then.calls))
        if self._random.random() < 0.5:
            # While the request is under way.
            self._loop.outside(0.0, self._disturb_now, fault, slot)
            return False
        self._disturb_now(fault, slot)
        return True

    def _disturb_now(self, fault: Armed, slot: Slot) -> None:
        if slot.worker is not None and not slot.worker.process.paused:
            self._note("now", type(fault).__name__, slot.worker.process.name)
            self._disturb(fault, slot, slot.worker)

    def starve(self) -> None:
        """Let one of them wait for all others from now on."""
        worker = self._random.choice(self.slots).worker
        self._loop.starved = worker.process if worker else None

    def start(self, slot: Slot) -> None:
        """Start a worker where none runs."""
        if slot.worker is not None:
            return
        slot.lives += 1
        process = Process(f"w{slot.number}.{slot.lives}")
        worker = Worker(process, slot.names, self._surroundings, slot.clock_ms, slot.release)
        slot.worker = worker
        task = self._loop.begin(process, worker.run())
        self._note("start", process.name)

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                worker.failure = task.exception()
            self._ended(slot, worker)

        task.add_done_callback(ended, context=OUTSIDE)

    def _ended(self, slot: Slot, worker: Worker) -> None:
        if slot.worker is not worker:
            return
        slot.worker = None
        # What it began and did not wait for ends with its process.
        self._loop.crash(worker.process)
        if worker.failure is not None:
            self._note("failed", worker.process.name, repr(worker.failure)[:200])
            if self.is_calm:
                slot.restarts += 1
                if slot.restarts > MOST_RESTARTS:
                    self.problems.append(f"worker {slot.number} stops again and again: {worker.failure!r}"[:300])
                    return
            self._loop.outside(self._random.uniform(0.5, 3.0), self.start, slot)

    def happen(self, fault: Armed | Leave | Reclaim | Unreadable) -> None:
        """Do it now, or wait for the calls that it waits for."""
        if isinstance(fault, Armed) and fault.calls:
            self._armed.append(Waiting(fault, fault.calls))
            return
        slot = self.slots[fault.worker]
        if slot.worker is not None:
            self._disturb(fault, slot, slot.worker)

    def _disturb(self, fault: Armed | Leave | Reclaim | Unreadable, slot: Slot, worker: Worker) -> None:
        match fault:
            case Crash():
                self._crash(slot, worker, fault.down_s)
            case Pause():
                self._pause(slot, worker, fault.for_s)
            case Leave():
                worker.stop.set()
                self._loop.outside(KILL_S, self._kill, slot, worker)
                self._loop.outside(KILL_S + fault.away_s if worker.process.paused else fault.away_s, self._return, slot)
            case Expire():
                for consumer in worker.consumers:
                    if consumer.coordinator.group == fault.group:
                        consumer.coordinator.expire(consumer.name)
            case Reclaim():
                self._loop.begin(worker.process, worker.reclaim())
            case Unreadable():
                worker.reads_from_s = self._loop.time() + fault.for_s

    def _crash(self, slot: Slot, worker: Worker, down_s: float) -> None:
        self._loop.crash(worker.process)
        slot.worker = None
        self._end_session(worker)
        self._loop.outside(down_s, self.start, slot)

    def _kill(self, slot: Slot, worker: Worker) -> None:
        if slot.worker is worker:
            self._crash(slot, worker, 0.5)

    def _return(self, slot: Slot) -> None:
        """Start the next worker as soon as the last one has left."""
        if slot.worker is not None and slot.worker.stop.is_set():
            self._loop.outside(0.5, self._return, slot)
        else:
            self.start(slot)

    def _pause(self, slot: Slot, worker: Worker, for_s: float) -> None:
        slot.pauses += 1
        self._loop.pause(worker.process)
        self._end_session(worker)
        self._loop.outside(for_s, self._resume, slot, worker, slot.pauses)

    def _resume(self, slot: Slot, worker: Worker, pause: int) -> None:
        if slot.pauses == pause and worker.process.paused and not worker.process.dead:
            self._note("resume", worker.process.name)
            self._loop.resume(worker.process)

    def _end_session(self, worker: Worker) -> None:
        """Let the groups miss the heartbeats of a worker, unless it comes back before."""

        for consumer in worker.consumers:
            rest_s = consumer.coordinator.session_s - consumer.coordinator.heartbeat_s()
            self._loop.outside(rest_s, consumer.missed)
