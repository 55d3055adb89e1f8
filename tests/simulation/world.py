"""Runs a scenario: producers and askers, workers that come and go, and a broker and a store that may fail."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from freki.schemas import Timestamp
from freki.schemas.index import Generation
from freki.streams.deliver.stage import Stage
from tests.memory_index import MemoryIndex
from tests.simulation import adapter
from tests.simulation.broker import Broker
from tests.simulation.clients import Clients
from tests.simulation.consumer import Consumer
from tests.simulation.embedder import DIM
from tests.simulation.groups import Coordinator
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.nodes import TOPICS
from tests.simulation.producer import Producer
from tests.simulation.scenario import Compact, Fault, Lose, Retain, Scenario, Weather
from tests.simulation.store import StoreClient, StoreServer
from tests.simulation.virtual import EPOCH_S
from tests.simulation.workers import Workers

DRAIN_S = 900.0
"""How long everything may take to be done when there are no more faults."""
CHECK_INTERVAL_S = 1.0


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

    def __init__(self, scenario: Scenario, *, verbose: bool = False) -> None:
        self.scenario = scenario
        self.random = Random(scenario.schedule)  # noqa: S311 - its seed is the point
        self.loop = SimulatedLoop(self.random, style=scenario.style)
        self.trace = Trace(self.loop)
        self.network = Network(self.loop, self.random, slowest_s=scenario.slowest_s)
        self.broker = Broker(self.loop.time, partitions=scenario.partitions, epoch_ms=EPOCH_S * 1000)
        self.broker.create(*TOPICS)
        self.index = MemoryIndex(Generation(name="g1", embedder=f"fake@{DIM}", dim=DIM, analyser="simulated"))
        self.store = StoreServer(self.index, self.network, self.random, bounded=scenario.bounded)
        if verbose:
            self.store.note = self.trace.note
            self.broker.note = self.trace.note
        self.coordinators: dict[str, Coordinator] = {}
        self.bounded = scenario.bounded
        self.token_s = scenario.token_s
        self.batch_events = scenario.batch_events
        self.clients = Clients(
            self.broker, self.network, self.random, now=self.now, note=self.trace.note, skew_ms=scenario.skew_ms
        )
        self.group_topics: dict[str, tuple[str, ...]] = {}
        self.problems: list[str] = []
        self.final: adapter.FinalState | None = None
        self.workers = Workers(scenario, self, self.random, self.trace.note)
        self._producers = 100

    def now(self) -> Timestamp:
        """Give the time of all processes."""
        return Timestamp(EPOCH_S * 1000 + int(self.loop.time() * 1000))

    def new_producer(self, process: Process) -> Producer:
        """Connect a worker's producer."""
        self._producers += 1
        return Producer(
            self._producers,
            broker=self.broker,
            network=self.network,
            random=self.random,
            idempotent=self.scenario.idempotent,
            skew_ms=None,
            request_records=self.scenario.request_records,
            on_call=partial(self.workers.on_call, process),
        )

    def new_store(self, process: Process | None = None) -> StoreClient:
        """Connect a worker to the store."""
        return StoreClient(self.store, process.name if process else "reclaim", partial(self.workers.on_call, process))

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
        for slot in self.workers.slots:
            self.loop.outside(self.random.uniform(0, self.scenario.starts_s), self.workers.start, slot)
        if self.scenario.style == "starving":
            self.loop.outside(2.0, self.workers.starve)
        plan: list[Any] = [*self.scenario.operations, *self.scenario.faults]
        for each in sorted(plan, key=lambda each: each.at_s):
            if each.at_s > self.loop.time():
                await asyncio.sleep(each.at_s - self.loop.time())
            if isinstance(each, Fault):
                self.trace.note("fault", each)
                self._happen(each)
            else:
                self.clients.do(each)
        await self.workers.calm_down()
        self.trace.note("calm")
        self.network.spells.clear()
        if self.store.watch.lost:
            # A repetition that the scenario has may not have got to the broker.
            self.clients.repeat_newest()
        await self._drain()
        await self._late_effects()
        await adapter.reclaim_at_last(self.new_store())
        self.final = await adapter.final_state(self.index)

    def _happen(self, fault: Fault) -> None:
        match fault:
            case Weather():
                self.network.spells.append(fault.spell)
            case Compact():
                self.broker.compact("documents", dirty=fault.dirty)
            case Retain():
                self._retain()
            case Lose():
                self.store.watch.lost.update(adapter.lose(self.index, fault.share, self.random))
            case _:
                self.workers.happen(fault)

    def _retain(self) -> None:
        for group, topics in self.group_topics.items():
            for topic in topics:
                if topic != "documents" and group in self.coordinators:
                    committed = self.coordinators[group].committed
                    self.broker.retain({place: at for place, at in committed.items() if place[0] == topic})

    async def _drain(self) -> None:
        """Wait until all that was sent is done, and every question is answered."""
        until_s = self.loop.time() + DRAIN_S
        while self.loop.time() < until_s and not self.workers.problems:
            await asyncio.sleep(CHECK_INTERVAL_S)
            if not self._waiting() and self.clients.is_done:
                return
        waiting = self._waiting()
        if waiting:
            self.problems.append(f"not done after {DRAIN_S:.0f} s without faults: {', '.join(waiting)}")

    def _waiting(self) -> list[str]:
        behind = [
            f"{group} has {topic}/{number} at {done} of {log.stable}"
            for group, topics in self.group_topics.items()
            for topic in topics
            for number, log in enumerate(self.broker.topics[topic])
            if (done := self.coordinators[group].committed.get((topic, number), log.start)) < log.stable
        ]
        # What was paused may still write for partitions that others have taken over.
        return behind + [f"{name} has batches in flight" for name in self.workers.at_work()]

    async def _late_effects(self) -> None:
        """Wait until every request that was given up has had its effect."""
        rest_s = self.network.late_until_s - self.loop.time()
        if rest_s > 0:
            await asyncio.sleep(rest_s + CHECK_INTERVAL_S)
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
