"""A member of a consumer group as the pipeline's client is one: it reads, keeps account of what is done, commits."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import TypeVar

from freki.schemas.errors import Unavailable
from tests.simulation.broker import Broker, Place, Record
from tests.simulation.groups import Assignment, Coordinator, Fenced
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.stream import Account, Event, Message, Stream, message

T = TypeVar("T")

COMMIT_S = 0.5
RETRY_S = 0.3
FETCHED_RECORDS = 16
"""Of each partition, in one answer."""
BUFFERED_RECORDS = 64
JOIN_PATIENCE_S = 90.0


class Consumer:
    """Reads some topics in a group; every coroutine of it runs in its worker's process."""

    committed_only = True
    """Leave out records of aborted transactions, and wait at open ones."""
    passes_gaps = False
    """Commit past records that are not done."""

    def __init__(  # noqa: PLR0913 - what a client is made of
        self,
        name: str,
        topics: Iterable[str],
        *,
        process: Process,
        broker: Broker,
        coordinator: Coordinator,
        network: Network,
        random: Random,
        on_revoked: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        self.process = process
        self.coordinator = coordinator
        self.streams = {topic: Stream(self.acknowledge) for topic in topics}
        self._broker = broker
        self._network = network
        self._random = random
        self._on_revoked = on_revoked
        self._loop: SimulatedLoop = network.loop
        self._generation = 0
        self._epoch = 0
        self._is_leaving = False
        self._accounts: dict[Place, Account] = {}
        self._told = asyncio.Event()
        self._wake = asyncio.Event()
        self._is_dirty = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Join, read and commit from now on."""
        self._tasks = [asyncio.create_task(work) for work in (self._belong(), self._fetch(), self._commit_at_times())]

    @property
    def failed(self) -> Iterable[asyncio.Task[None]]:
        """Give the tasks, none of which ends but by failing."""
        return self._tasks

    async def stop(self) -> None:
        """Commit and leave."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commit()
        self._broker.unlisten(self._wake.set)
        await self._asked(partial(self.coordinator.leave, self.name))

    def told(self) -> None:
        """Learn, by a heartbeat, that the group is assigned again."""
        if self.process.paused:
            self._loop.outside(self.coordinator.heartbeat_s(), self.told)
        else:
            self._told.set()

    def holds(self, message: Message) -> bool:
        """Tell whether the partition of a record is still this consumer's."""
        return not self._is_leaving and message.epoch == self._epoch

    def acknowledge(self, event: Event) -> None:
        """Note that a record is done, unless its partition was taken away since."""
        message = event.message
        account = self._accounts.get((message.topic, message.partition))
        if account is None or message.epoch != self._epoch:
            return
        account.done.add(message.offset)
        if self.passes_gaps:
            account.finished = max(account.finished, message.offset + 1)
        account.settle()
        self._is_dirty.set()
        self._wake.set()

    async def _belong(self) -> None:
        """Join; whenever the group is assigned again, give up what is owned and join again."""
        while True:
            self._told.clear()
            assignment = await self._joined()
            offsets = await self._asked(partial(self.coordinator.offsets, assignment.places))
            self._begin(assignment, offsets)
            await self._told.wait()
            # What waits is dropped before what is at hand is given up, or it would be taken in its place.
            self._is_leaving = True
            for stream in self.streams.values():
                stream.waiting.clear()
            await self._on_revoked()
            await self._commit()
            self._give_up()

    async def _joined(self) -> Assignment:
        while True:
            try:
                async with asyncio.timeout(JOIN_PATIENCE_S):
                    return await (await self._asked(self._join))
            except TimeoutError:
                continue

    def _join(self) -> asyncio.Future[Assignment]:
        """Enter the group; a process that ended or stands still by then sends no heartbeats."""
        self._loop.outside(self.coordinator.session_s, self.missed)
        return self.coordinator.join(self.name, tuple(self.streams), self.told)

    def missed(self) -> None:
        """Let the group end the session if there were no heartbeats."""
        if self.process.paused or self.process.dead:
            self.coordinator.expire(self.name)

    def _begin(self, assignment: Assignment, offsets: Mapping[Place, int]) -> None:
        self._epoch += 1
        self._is_leaving = False
        self._generation = assignment.generation
        self._accounts = {}
        for place in assignment.places:
            position = max(offsets.get(place, 0), self._broker.partition(place).start)
            self._accounts[place] = Account(position, finished=position)
        self._broker.listen(assignment.places, self._wake.set)
        self._wake.set()

    def _give_up(self) -> None:
        self._epoch += 1
        self._accounts = {}
        self._broker.unlisten(self._wake.set)
        for stream in self.streams.values():
            stream.waiting.clear()

    async def _fetch(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            epoch, positions = self._epoch, self._wanted()
            if not positions:
                continue
            found = await self._asked(partial(self._read, positions))
            if epoch == self._epoch and not self._is_leaving:
                self._take(found)

    def _wanted(self) -> dict[Place, int]:
        """Choose what to read: partitions with more, as long as not too much of them waits."""
        return {
            place: account.position
            for place, account in self._accounts.items()
            if account.position < self._broker.partition(place).end and len(account.handed_out) < BUFFERED_RECORDS
        }

    def _read(self, positions: Mapping[Place, int]) -> dict[Place, tuple[list[Record], int]]:
        return {
            place: self._broker.partition(place).read(position, FETCHED_RECORDS, committed=self.committed_only)
            for place, position in positions.items()
        }

    def _take(self, found: Mapping[Place, tuple[list[Record], int]]) -> None:
        for place, (records, following) in found.items():
            account = self._accounts[place]
            stream = self.streams[place[0]]
            if following > account.position:
                account.position = following
                self._wake.set()
            for record in records:
                account.handed_out.append(record.offset)
                stream.waiting.append(Event(message(record, self._epoch)))
            if records:
                stream.arrived.set()
            elif not account.handed_out and account.finished < following:
                account.settle()
                self._is_dirty.set()

    async def _commit_at_times(self) -> None:
        while True:
            await self._is_dirty.wait()
            await asyncio.sleep(COMMIT_S)
            await self._commit()

    async def _commit(self) -> None:
        """Commit what is done; a worker that was fenced off goes on, and learns by a heartbeat."""
        self._is_dirty.clear()
        offsets = {place: account.finished for place, account in self._accounts.items()}
        generation = self._generation
        try:
            if offsets:
                await self._asked(partial(self.coordinator.commit, self.name, generation, offsets), attempts=3)
        except Fenced:
            return
        except Unavailable:
            self._is_dirty.set()

    async def _asked(self, effect: Callable[[], T], *, attempts: int = 1_000_000) -> T:
        """Ask the broker until it answers."""
        while True:
            attempts -= 1
            try:
                return await self._network.request("broker", effect, late=False)
            except Unavailable:
                if attempts <= 0:
                    raise
            await asyncio.sleep(RETRY_S * (0.5 + self._random.random()))
