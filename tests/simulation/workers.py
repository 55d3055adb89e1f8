"""Worker processes that are started, paused, killed, asked to leave, and taken for dead."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulation.loop import OUTSIDE, Process, SimulatedLoop
from tests.simulation.nodes import Surroundings, Worker
from tests.simulation.scenario import Crash, Expire, Leave, Pause

KILL_S = 40.0
"""How long a worker that was asked to leave may take."""
MOST_RESTARTS = 4
"""Of a worker once there are no more faults."""

Armed = Crash | Pause | Expire


@dataclass(slots=True)
class Slot:
    """Where one worker after the other runs."""

    number: int
    names: tuple[str, ...]
    lives: int = 0
    worker: Worker | None = None
    pauses: int = 0
    restarts: int = 0
    armed: list[tuple[int, Armed]] = field(default_factory=list)
    """Faults that wait for so many writes."""


class Workers:
    """All workers of a scenario, and the supervisor that starts them again."""

    def __init__(
        self,
        names: Sequence[tuple[str, ...]],
        surroundings: Surroundings,
        random: Random,
        note: Callable[..., None],
    ) -> None:
        self.slots = [Slot(number, each) for number, each in enumerate(names)]
        self.problems: list[str] = []
        self.is_calm = False
        self._surroundings = surroundings
        self._loop: SimulatedLoop = surroundings.loop
        self._random = random
        self._note = note

    async def calm_down(self) -> None:
        """Wait until nobody is paused any more, and let every worker run from now on."""
        while any(slot.worker is not None and slot.worker.process.paused for slot in self.slots):  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        self.is_calm = True
        self._loop.starved = None
        for slot in self.slots:
            self.start(slot)

    def on_write(self, process: Process | None) -> bool:
        """Let faults happen that wait for writes of a worker; tell whether one happened."""
        slot = next((slot for slot in self.slots if slot.worker is not None and slot.worker.process is process), None)
        if slot is None or not slot.armed or self.is_calm:
            return False
        writes, fault = slot.armed[0]
        slot.armed[0] = (writes - 1, fault)
        if writes > 1:
            return False
        del slot.armed[0]
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
        worker = Worker(process, slot.names, self._surroundings)
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

    def happen(self, fault: Armed | Leave) -> None:
        """Do it now, or wait for the writes that it waits for."""
        slot = self.slots[fault.worker]
        if not isinstance(fault, Leave) and fault.writes:
            slot.armed.append((fault.writes, fault))
        elif slot.worker is not None:
            self._disturb(fault, slot, slot.worker)

    def _disturb(self, fault: Crash | Pause | Leave | Expire, slot: Slot, worker: Worker) -> None:
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
