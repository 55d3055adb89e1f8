"""Runs a scenario: producers and askers, workers that come and go, and a broker and a store that may fail."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from freki.infra.memory_index import MemoryIndex
from freki.schemas import Timestamp
from freki.schemas.index import Generation
from freki.streams.stage import Stage
from tests.simulation import adapter
from tests.simulation.broker import Broker
from tests.simulation.clients import Clients
from tests.simulation.consumer import Consumer
from tests.simulation.embedder import DIM
from tests.simulation.groups import Coordinator
from tests.simulation.loop import OUTSIDE, Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.nodes import TOPICS, Worker
from tests.simulation.producer import Producer
from tests.simulation.scenario import Compact, Crash, Expire, Fault, Leave, Pause, Retain, Scenario, Weather
from tests.simulation.store import StoreClient, StoreServer
from tests.simulation.virtual import EPOCH_S

DRAIN_S = 900.0
"""How long everything may take to be done when there are no more faults."""
LOOK_S = 1.0
KILL_S = 40.0
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


@dataclass(slots=True)
class Trace:
    """What happened, with the virtual second."""

    loop: SimulatedLoop
    lines: list[str] = field(default_factory=list)

    def note(self, *what: object) -> None:
        """Add a line."""
        self.lines.append(f"{self.loop.time():10.3f}  {' '.join(map(str, what))}")


class World:
    """All that a scenario has, for one run."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.random = Random(scenario.schedule)
        self.loop = SimulatedLoop(self.random, style=scenario.style)
        self.trace = Trace(self.loop)
        self.network = Network(self.loop, self.random, slowest_s=scenario.slowest_s)
        self.broker = Broker(self.loop.time, partitions=scenario.partitions, epoch_ms=EPOCH_S * 1000)
        self.broker.create(*TOPICS)
        self.index = MemoryIndex(Generation(name="g1", embedder=f"fake@{DIM}", dim=DIM, analyser="simulated"))
        self.store = StoreServer(self.index, self.network, self.random, bounded=scenario.bounded)
        self.coordinators: dict[str, Coordinator] = {}
        self.slots = [Slot(number, names) for number, names in enumerate(scenario.workers)]
        self.bounded = scenario.bounded
        self.token_s = scenario.token_s
        self.batch_events = scenario.batch_events
        self.clients = Clients(self.broker, self.network, self.random, self.now, self.trace.note, scenario.skew_ms)
        self.group_topics: dict[str, tuple[str, ...]] = {}
        self.problems: list[str] = []
        self.final: adapter.FinalState | None = None
        self._producers = 100
        self._is_calm = False

    def now(self) -> Timestamp:
        """Give the time of all processes."""
        return Timestamp(EPOCH_S * 1000 + int(self.loop.time() * 1000))

    def new_producer(self, _process: Process) -> Producer:
        """Connect a worker's producer."""
        self._producers += 1
        return Producer(
            self._producers,
            broker=self.broker,
            network=self.network,
            random=self.random,
            idempotent=self.scenario.idempotent,
            skew_ms=None,
        )

    def new_store(self, process: Process | None = None) -> StoreClient:
        """Connect a worker to the store."""
        return StoreClient(self.store, partial(self._on_write, process))

    def _on_write(self, process: Process | None) -> bool:
        """Let faults happen that wait for writes of a worker; tell whether one happened."""
        slot = next((slot for slot in self.slots if slot.worker is not None and slot.worker.process is process), None)
        if slot is None or not slot.armed or self._is_calm:
            return False
        writes, fault = slot.armed[0]
        slot.armed[0] = (writes - 1, fault)
        if writes > 1:
            return False
        del slot.armed[0]
        if self.random.random() < 0.5:
            # While the request is under way.
            self.loop.outside(0.0, self._disturb_now, fault, slot)
            return False
        self._disturb_now(fault, slot)
        return True

    def _disturb_now(self, fault: Armed, slot: Slot) -> None:
        if slot.worker is not None and not slot.worker.process.paused:
            self.trace.note("now", type(fault).__name__, slot.worker.process.name)
            self._disturb(fault, slot, slot.worker)

    def new_consumer(self, process: Process, group: str, topics: Sequence[str], stages: Sequence[Stage]) -> Consumer:
        """Connect a worker to a group."""
        self.group_topics.setdefault(group, tuple(topics))
        if group not in self.coordinators:
            self.coordinators[group] = Coordinator(
                group,
                self.loop,
                self.random,
                self.scenario.partitions,
                self.scenario.session_s,
                note=self.trace.note,
            )
        return Consumer(
            f"{process.name}@{group}",
            topics,
            process=process,
            broker=self.broker,
            coordinator=self.coordinators[group],
            network=self.network,
            random=self.random,
            on_revoked=lambda: adapter.give_up(stages),
        )

    def run(self) -> str:
        """Run the whole scenario; return a digest of all that happened."""
        try:
            self.loop.run_until_complete(self.loop.begin(Process("world"), self._run()))
            return self._digest()
        finally:
            self.network.over = True
            self.loop.dispose()

    async def _run(self) -> None:
        self.clients.open()
        for slot in self.slots:
            self.loop.outside(self.random.uniform(0, 1), self._start, slot)
        if self.scenario.style == "starving":
            self.loop.outside(2.0, self._starve)
        plan: list[Any] = [*self.scenario.operations, *self.scenario.faults]
        for each in sorted(plan, key=lambda each: each.at_s):
            if each.at_s > self.loop.time():
                await asyncio.sleep(each.at_s - self.loop.time())
            if isinstance(each, Fault):
                self.trace.note("fault", each)
                self._happen(each)
            else:
                self.clients.do(each)
        await self._calm_down()
        await self._drain()
        await self._late_effects()
        await adapter.reclaim(self.new_store())
        self.final = await adapter.final_state(self.index)

    def _starve(self) -> None:
        worker = self.random.choice(self.slots).worker
        self.loop.starved = worker.process if worker else None

    def _start(self, slot: Slot) -> None:
        if slot.worker is not None:
            return
        slot.lives += 1
        process = Process(f"w{slot.number}.{slot.lives}")
        worker = Worker(process, slot.names, self)
        slot.worker = worker
        task = self.loop.begin(process, worker.run())
        self.trace.note("start", process.name)

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                worker.failure = task.exception()
            self._ended(slot, worker)

        task.add_done_callback(ended, context=OUTSIDE)

    def _ended(self, slot: Slot, worker: Worker) -> None:
        if slot.worker is not worker:
            return
        slot.worker = None
        if worker.failure is not None:
            self.trace.note("failed", worker.process.name, repr(worker.failure)[:200])
            if self._is_calm:
                slot.restarts += 1
                if slot.restarts > MOST_RESTARTS:
                    self.problems.append(f"worker {slot.number} stops again and again: {worker.failure!r}"[:300])
                    return
            self.loop.outside(self.random.uniform(0.5, 3.0), self._start, slot)

    def _happen(self, fault: Fault) -> None:
        match fault:
            case Weather():
                self.network.spells.append(fault.spell)
            case Compact():
                self.broker.compact("documents", dirty=fault.dirty)
            case Retain():
                self._retain()
            case Crash() | Pause() | Leave() | Expire():
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
                self.loop.outside(KILL_S, self._kill, slot, worker)
                self.loop.outside(KILL_S + fault.away_s if worker.process.paused else fault.away_s, self._return, slot)
            case Expire():
                for consumer in worker.consumers:
                    if consumer.coordinator.group == fault.group:
                        consumer.coordinator.expire(consumer.name)

    def _crash(self, slot: Slot, worker: Worker, down_s: float) -> None:
        self.loop.crash(worker.process)
        slot.worker = None
        self._end_session(worker)
        self.loop.outside(down_s, self._start, slot)

    def _kill(self, slot: Slot, worker: Worker) -> None:
        if slot.worker is worker:
            self._crash(slot, worker, 0.5)

    def _return(self, slot: Slot) -> None:
        """Start the next worker as soon as the last one has left."""
        if slot.worker is not None and slot.worker.stop.is_set():
            self.loop.outside(0.5, self._return, slot)
        else:
            self._start(slot)

    def _pause(self, slot: Slot, worker: Worker, for_s: float) -> None:
        slot.pauses += 1
        self.loop.pause(worker.process)
        self._end_session(worker)
        self.loop.outside(for_s, self._resume, slot, worker, slot.pauses)

    def _resume(self, slot: Slot, worker: Worker, pause: int) -> None:
        if slot.pauses == pause and worker.process.paused and not worker.process.dead:
            self.trace.note("resume", worker.process.name)
            self.loop.resume(worker.process)

    def _end_session(self, worker: Worker) -> None:
        """Let the groups miss the heartbeats of a worker, unless it comes back before."""

        def missed(consumer: Consumer) -> None:
            if worker.process.paused or worker.process.dead:
                consumer.coordinator.expire(consumer.name)

        for consumer in worker.consumers:
            rest_s = consumer.coordinator.session_s - consumer.coordinator.heartbeat_s()
            self.loop.outside(rest_s, missed, consumer)

    def _retain(self) -> None:
        for group, topics in self.group_topics.items():
            for topic in topics:
                if topic != "documents" and group in self.coordinators:
                    committed = self.coordinators[group].committed
                    self.broker.retain({place: at for place, at in committed.items() if place[0] == topic})

    async def _calm_down(self) -> None:
        """End all faults, and let every worker run."""
        while any(slot.worker is not None and slot.worker.process.paused for slot in self.slots):
            await asyncio.sleep(LOOK_S)
        self.trace.note("calm")
        self._is_calm = True
        self.network.spells.clear()
        self.loop.starved = None
        for slot in self.slots:
            if slot.worker is not None:
                self._resume(slot, slot.worker, slot.pauses)
            else:
                self._start(slot)

    async def _drain(self) -> None:
        """Wait until all that was sent is done, and every question is answered."""
        until_s = self.loop.time() + DRAIN_S
        while self.loop.time() < until_s and len(self.problems) == 0:
            await asyncio.sleep(LOOK_S)
            if not self._waiting() and self.clients.is_done:
                return
        waiting = self._waiting()
        if waiting:
            self.problems.append(f"not done after {DRAIN_S:.0f} s without faults: {', '.join(waiting)}")

    def _waiting(self) -> list[str]:
        return [
            f"{group} has {topic}/{number} at {done} of {log.stable}"
            for group, topics in self.group_topics.items()
            for topic in topics
            for number, log in enumerate(self.broker.topics[topic])
            if (done := self.coordinators[group].committed.get((topic, number), log.start)) < log.stable
        ]

    async def _late_effects(self) -> None:
        """Wait until every request that was given up has had its effect."""
        rest_s = self.network.late_until_s - self.loop.time()
        if rest_s > 0:
            await asyncio.sleep(rest_s + LOOK_S)
            await self._drain()

    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=12)
        for line in self.trace.lines:
            digest.update(line.encode())
        for topic in TOPICS:
            for record in self.broker.everything(topic):
                digest.update(repr((record.order, record.appended_s, record.key, record.value)).encode())
        digest.update(repr((self.loop.steps, self.random.random(), self.final)).encode())
        return digest.hexdigest()
