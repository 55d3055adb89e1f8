"""What the simulated broker promises to consumers: each partition has one owner, and only owners commit."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from freki.streams.deliver.gather import Gathering
from tests.simulation.broker import Broker
from tests.simulation.consumer import Consumer
from tests.simulation.groups import Coordinator, Fenced
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.stream import Event

TOPIC = "documents"


class Bench:
    """A group on a topic of two partitions, and who reads it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)  # noqa: S311 - its seed is the point
        self.loop = SimulatedLoop(random)
        self.network = Network(self.loop, random)
        self.random = random
        self.broker = Broker(self.loop.time, partitions=2, epoch_ms=0)
        self.broker.create(TOPIC)
        self.coordinator = Coordinator("g", self.loop, random, partitions=2, session_s=10.0)
        self.read: list[tuple[str, int, int]] = []

    def consumer(self, name: str) -> tuple[Process, Consumer]:
        process = Process(name)

        async def nothing() -> None:
            pass

        return process, Consumer(
            name,
            [TOPIC],
            process=process,
            broker=self.broker,
            coordinator=self.coordinator,
            network=self.network,
            random=self.random,
            on_revoked=nothing,
        )

    async def work(self, consumer: Consumer, *, acknowledge: bool = True) -> None:
        consumer.start()
        stream = consumer.streams[TOPIC]
        arriving = Gathering(stream.events(), most=4, wait_s=0.0)
        while events := await arriving.next():
            for event in events:
                self.note(consumer, event)
                if acknowledge:
                    await stream.ack(event)

    def note(self, consumer: Consumer, event: Event) -> None:
        self.read.append((consumer.name, event.message.partition, event.message.offset))

    def fill(self, records: int) -> None:
        for number in range(records):
            self.broker.append((TOPIC, number % 2), b"k", b"%d" % number)


@pytest.fixture(params=range(5))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    yield bench
    bench.network.over = True
    bench.loop.dispose()


def test_members_share_partitions_and_read_each_in_order(bench: Bench) -> None:
    async def main() -> None:
        for name in "ab":
            process, consumer = bench.consumer(name)
            bench.loop.begin(process, bench.work(consumer))
        await asyncio.sleep(5)
        bench.fill(20)
        await asyncio.sleep(5)

    bench.loop.run_until_complete(main())

    for partition in (0, 1):
        owners = {name for name, number, _ in bench.read if number == partition}
        assert len(owners) == 1
        assert [offset for _, number, offset in bench.read if number == partition] == list(range(10))
    assert bench.coordinator.committed == {(TOPIC, 0): 10, (TOPIC, 1): 10}


def test_what_is_not_acknowledged_comes_again_to_the_next_owner(bench: Bench) -> None:
    async def main() -> None:
        dying, consumer = bench.consumer("dies")
        bench.loop.begin(dying, bench.work(consumer, acknowledge=False))
        bench.fill(6)
        await asyncio.sleep(5)
        bench.loop.crash(dying)
        bench.coordinator.expire("dies")
        process, successor = bench.consumer("lives")
        bench.loop.begin(process, bench.work(successor))
        await asyncio.sleep(90)

    bench.loop.run_until_complete(main())

    for name in ("dies", "lives"):
        assert sorted(each[1:] for each in bench.read if each[0] == name) == [
            (number, offset) for number in (0, 1) for offset in range(3)
        ]


def test_who_was_thrown_out_commits_nothing_and_comes_back(bench: Bench) -> None:
    async def main() -> None:
        process, consumer = bench.consumer("slow")
        bench.loop.begin(process, bench.work(consumer))
        await asyncio.sleep(5)
        generation = bench.coordinator.generation
        bench.coordinator.expire("slow")
        with pytest.raises(Fenced):
            bench.coordinator.commit("slow", generation, {(TOPIC, 0): 99})
        await asyncio.sleep(20)
        bench.fill(4)
        await asyncio.sleep(5)

    bench.loop.run_until_complete(main())

    assert bench.coordinator.committed == {(TOPIC, 0): 2, (TOPIC, 1): 2}
    assert len(bench.read) == 4


def test_a_later_record_that_is_done_does_not_move_the_commit_past_an_earlier_one(bench: Bench) -> None:
    async def main() -> None:
        process, consumer = bench.consumer("c")
        stream = consumer.streams[TOPIC]

        async def work() -> None:
            consumer.start()
            arriving = Gathering(stream.events(), most=10, wait_s=0.5)
            while events := await arriving.next():
                for event in events:
                    if event.message.offset != 1:
                        await stream.ack(event)

        bench.loop.begin(process, work())
        await asyncio.sleep(5)
        bench.fill(8)
        await asyncio.sleep(5)

    bench.loop.run_until_complete(main())

    assert bench.coordinator.committed == {(TOPIC, 0): 1, (TOPIC, 1): 1}


def test_who_gave_up_a_join_joins_again(bench: Bench) -> None:
    async def main() -> bool:
        first = bench.coordinator.join("a", (TOPIC,), lambda: None)
        first.cancel()
        return not bench.coordinator.join("a", (TOPIC,), lambda: None).cancelled()

    assert bench.loop.run_until_complete(main())
