"""What is committed: never more than is finished, and no less."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from faust.types import TP, Message
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.kafka.app import holds, make_app, on_lost, on_revoked
from freki.infra.kafka.connection import PROFILES
from freki.infra.kafka.offsets import Offsets
from freki.infra.settings import KafkaSettings

PLACE = TP("documents", 0)


class Broker:
    """A partition of which one member reads a part, through Faust's own loop."""

    def __init__(self, state_dir: Path, *, committed: int | None = None) -> None:
        self.app = make_app(KafkaSettings(partitions=1), "g", state_dir=state_dir)
        self.app.finalize()
        self.commits: list[int] = []
        self.taken: dict[int, Message] = {}
        self.position: int | None = None
        self.committed = committed
        consumer: Any = self.app.transport.create_consumer(
            self._take, on_partitions_revoked=self._nothing, on_partitions_assigned=self._nothing
        )
        consumer.app.topics.acks_enabled_for = lambda _: True
        consumer.seek_to_committed = self._committed
        consumer.assignment = lambda: {PLACE}
        consumer.highwater = lambda _: 0
        consumer._commit = self._commit
        consumer._passed = self._passed
        self.consumer = self.app.consumer = consumer

    async def read(self, *offsets: int) -> None:
        """Bring records to the stream."""
        records = [
            SimpleNamespace(
                topic=PLACE.topic,
                partition=PLACE.partition,
                offset=offset,
                timestamp=0,
                timestamp_type=0,
                headers=(),
                key=b"k",
                value=b"v",
                checksum=None,
                serialized_key_size=1,
                serialized_value_size=1,
            )
            for offset in offsets
        ]
        stopped = asyncio.Event()

        async def fetched(_: float) -> tuple[dict[TP, list[Any]], set[TP]]:
            stopped.set()
            return {PLACE: records}, {PLACE}

        self.consumer._wait_next_records = fetched
        self.consumer.read[PLACE] = self.position = offsets[-1] + 1
        await self.consumer._drain_messages(SimpleNamespace(_stopped=stopped))

    def ack(self, *offsets: int) -> None:
        for offset in offsets:
            self.consumer.ack(self.taken[offset])

    async def commit(self) -> int | None:
        """Commit, and give the offset that the next owner begins at."""
        await self.consumer.commit()
        return self.commits[-1] if self.commits else None

    async def _take(self, message: Message) -> None:
        self.taken[message.offset] = message

    async def _committed(self) -> dict[TP, int | None]:
        return {PLACE: self.committed}

    async def _commit(self, offsets: dict[TP, int]) -> bool:
        self.commits.append(offsets[PLACE])
        return True

    async def _passed(self, places: Collection[TP]) -> dict[TP, tuple[int, int]]:
        assert set(places) <= {PLACE}
        return {place: (self.consumer.read[place], cast("int", self.position)) for place in places}

    def _nothing(self, *_: Any) -> Any:
        return asyncio.sleep(0)


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Make a member."""
    made: list[Broker] = []

    def new(**begun: Any) -> Broker:
        made.append(Broker(tmp_path, **begun))
        return made[-1]

    yield new
    for broker in made:
        broker.consumer._thread.thread_loop.close()


@pytest.mark.parametrize(
    ("committed", "offsets", "end"),
    [
        (None, (0, 5, 6, 7), 8),  # compaction left the first record
        (None, (0, 2, 3), 4),  # a marker of a transaction
        (None, (0,), 1),
        (3, (5, 6), 7),
        (0, (0, 9), 10),
    ],
)
async def test_offsets_that_no_record_has_hold_up_no_commit(
    new: Callable[..., Broker], committed: int | None, offsets: Sequence[int], end: int
) -> None:
    broker = new(committed=committed)
    await broker.consumer.perform_seek()
    await broker.read(*offsets)

    broker.ack(*offsets)

    assert await broker.commit() == end


@pytest.mark.parametrize("in_flight", [(100,), (100, 101), (100, 105)])
async def test_a_record_at_the_head_that_is_at_hand_is_not_stepped_over(
    new: Callable[..., Broker], in_flight: Sequence[int]
) -> None:
    broker = new(committed=100)
    await broker.consumer.perform_seek()
    await broker.read(*range(100, 110))

    broker.ack(*(offset for offset in range(100, 110) if offset not in in_flight))
    early = await broker.commit()
    broker.ack(*in_flight)

    assert early is None
    assert await broker.commit() == 110


async def test_the_gap_after_the_last_record_is_committed_too(new: Callable[..., Broker]) -> None:
    broker = new()
    await broker.read(0, 1)
    broker.position = 4
    broker.ack(0)
    early = await broker.commit()
    broker.ack(1)

    assert (early, await broker.commit()) == (1, 4)


async def test_what_is_on_its_way_to_the_stream_is_no_gap(new: Callable[..., Broker]) -> None:
    broker = new()
    await broker.read(0)
    broker.ack(0)
    broker.position = broker.consumer.read[PLACE] = 3

    assert await broker.commit() == 1


async def test_an_acknowledgement_that_comes_after_the_partition_was_taken_away_counts_for_nothing(
    new: Callable[..., Broker],
) -> None:
    broker = new(committed=0)
    await broker.read(0, 1)
    late = broker.taken[0]
    await broker.consumer.on_partitions_revoked({PLACE})
    broker.app.consumer_generation_id = 1
    await broker.consumer.perform_seek()
    broker.consumer.resume_flow()
    await broker.read(0, 1)

    broker.consumer.ack(late)
    early = await broker.commit()
    broker.ack(0)

    assert (early, await broker.commit()) == (None, 1)


async def test_what_is_finished_while_partitions_move_is_committed_and_nothing_else_begins(
    new: Callable[..., Broker],
) -> None:
    broker = new(committed=0)
    await broker.read(0, 1)
    held = [holds(broker.app, broker.taken[0])]

    async def release(within_s: float) -> None:
        assert within_s > 0
        held.append(holds(broker.app, broker.taken[1]))
        broker.ack(0)

    on_revoked(broker.app, release)
    await broker.consumer.on_partitions_revoked({PLACE})
    held.append(holds(broker.app, broker.taken[1]))
    broker.ack(1)
    await broker.commit()

    assert broker.commits == [1]
    assert held == [True, False, False]


async def test_what_is_read_again_after_partitions_moved_is_held_again(new: Callable[..., Broker]) -> None:
    broker = new(committed=0)
    await broker.read(0)
    before = broker.taken[0]
    await broker.consumer.on_partitions_revoked({PLACE})
    broker.app.consumer_generation_id = 1
    await broker.consumer.perform_seek()
    broker.consumer.resume_flow()
    await broker.read(0)

    assert [holds(broker.app, message) for message in (before, broker.taken[0])] == [False, True]


@pytest.mark.parametrize("profile", ["local", "kafka"])
def test_a_member_that_finishes_what_is_at_hand_stays_one(profile: Literal["local", "kafka"], tmp_path: Path) -> None:
    conf = make_app(KafkaSettings(profile=profile), "g", state_dir=tmp_path).conf

    assert PROFILES[profile].hand_over_s < min(conf.broker_session_timeout, conf.broker_rebalance_timeout)


async def test_what_retention_took_before_it_was_read_is_told_once(new: Callable[..., Broker]) -> None:
    broker, told = new(), list[tuple[str, int, int]]()
    on_lost(broker.app, lambda *lost: told.append(lost))

    for committed, earliest in ((None, 9), (3, 3), (3, 9), (3, 9), (9, 9), (3, 10)):
        broker.consumer._compare({PLACE: committed}, {PLACE: earliest})

    assert told == [("documents", 0, 6), ("documents", 0, 1)]


async def test_batches_that_end_in_any_order_leave_no_record_that_seems_to_wait(new: Callable[..., Broker]) -> None:
    broker = new()
    await broker.read(10, 11)

    broker.ack(11, 10)

    assert broker.consumer.finished[PLACE] == broker.consumer.read[PLACE] == 12


@given(data=st.data(), gaps=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_what_may_be_committed_is_where_the_first_unfinished_record_lies(data: st.DataObject, gaps: list[int]) -> None:
    offsets, places, unfinished, at = Offsets(), [], set[int](), 0
    for gap in gaps:
        at += gap
        places.append(at)
        at += 1
    todo = list(places)
    while todo or unfinished:
        if todo and (not unfinished or data.draw(st.booleans())):
            offsets.read(todo[0])
            unfinished.add(todo.pop(0))
        else:
            done = data.draw(st.sampled_from(sorted(unfinished)))
            unfinished.remove(done)
            offsets.finish(done)
        read = [place for place in places if place not in todo]
        assert offsets.finished == (min(unfinished) if unfinished else read[-1] + 1)
        assert offsets.idle is not bool(unfinished)
    for place in places:
        offsets.read(place)
        offsets.finish(place)
    assert offsets.finished == at
