import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freki.streams.deliver.delivery import Delivery
from freki.streams.deliver.progress import AwakeClock, Progress
from freki.streams.deliver.stage import Batching, Stage, StreamEnded
from freki.streams.messages import Stored
from freki.streams.observe.meters import Meters


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_stage_with_nothing_to_do_never_stalls() -> None:
    clock = Clock()
    progress = Progress(clock)

    for _ in range(100):
        clock.now_s += 50
        progress.seen(backlog=False)

    assert not progress.stalled


def test_a_stage_stalls_when_records_wait_and_no_batch_begins() -> None:
    clock = Clock()
    progress = Progress(clock)

    clock.now_s = 50
    progress.seen(backlog=True)
    early = progress.stalled
    clock.now_s = 70
    progress.seen(backlog=True)

    assert (early, progress.stalled) == (False, True)


def test_a_batch_at_hand_has_more_time_but_not_for_ever() -> None:
    clock = Clock()
    progress = Progress(clock)

    with progress.in_flight():
        clock.now_s = 3000
        progress.seen(backlog=True)
        early = progress.stalled
        clock.now_s = 4000

        assert (early, progress.stalled) == (False, True)


def test_nothing_waiting_is_no_excuse_for_a_batch_that_hangs() -> None:
    clock = Clock()
    progress = Progress(clock)

    with progress.in_flight():
        clock.now_s = 4000
        progress.seen(backlog=False)

        assert progress.stalled


def test_batches_that_end_do_not_hide_one_that_hangs() -> None:
    clock = Clock()
    progress = Progress(clock)

    with progress.in_flight():
        for _ in range(40):
            clock.now_s += 100
            with progress.in_flight():
                pass

        assert progress.stalled
        assert progress.idle_s == 4000


def test_the_end_of_a_batch_counts_as_progress() -> None:
    clock = Clock()
    progress = Progress(clock)

    with progress.in_flight():
        clock.now_s = 3000
    clock.now_s = 3050

    assert not progress.stalled


def test_a_process_that_stood_still_has_its_time_to_finish_records_after_that() -> None:
    clock = Clock()
    progress = Progress(AwakeClock(clock))
    progress.seen(backlog=False)

    clock.now_s = 90  # in a paused container, say, while records came
    progress.seen(backlog=True)
    on_waking = progress.stalled
    for _ in range(4):
        clock.now_s += 10
        progress.seen(backlog=True)
    rejoined = progress.stalled
    for _ in range(4):
        clock.now_s += 10
        progress.seen(backlog=True)

    assert (on_waking, rejoined, progress.stalled) == (False, False, True)


def test_a_batch_at_hand_does_not_age_while_the_process_stands_still() -> None:
    clock = Clock()
    progress = Progress(AwakeClock(clock))

    with progress.in_flight():
        clock.now_s = 7200
        progress.seen(backlog=True)

        assert not progress.stalled
        assert progress.idle_s < 60


def test_looks_that_take_long_each_do_not_hide_a_stage_that_stalls() -> None:
    clock = Clock()
    progress = Progress(AwakeClock(clock))

    for _ in range(5):
        clock.now_s += 40
        progress.seen(backlog=True)

    assert progress.stalled


class Stream:
    """What a stage needs of Faust's: batches as they come, and acknowledgements."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Any] = asyncio.Queue()
        self.acked: list[int] = []

    def noack(self) -> "Stream":
        return self

    async def events(self) -> AsyncIterator[Any]:
        while (event := await self.waiting.get()) is not None:
            yield event

    async def ack(self, event: Any) -> None:
        self.acked.append(event.message.offset)

    def put(self, *offsets: int) -> None:
        for offset in offsets:
            self.waiting.put_nowait(
                SimpleNamespace(
                    message=SimpleNamespace(
                        topic="t", partition=0, offset=offset, timestamp=0.0, key=b"k", value=b"v", headers=None
                    )
                )
            )


class Held:
    """A delivery that ends, or fails, when it is told to."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.told: dict[int, asyncio.Future[None]] = {}

    async def deliver(self, events: Sequence[Stored], *, group: str) -> None:
        assert group == "g"
        offsets = [event.offset for event in events]
        self.begun.append(offsets)
        self.told[offsets[0]] = asyncio.get_running_loop().create_future()
        await self.told[offsets[0]]


class Running:
    """A stage that takes a stream through a delivery."""

    def __init__(
        self, at_once: int, *, delivery: Held | None = None, holds: Callable[[Any], bool] = lambda _: True
    ) -> None:
        self.stream, self.delivery = Stream(), delivery or Held()
        app = SimpleNamespace(conf=SimpleNamespace(id="g"), should_stop=False)
        self.stage = Stage(cast("Any", app), "retrieve", "t", meters=Meters(), holds=holds)
        batching = Batching(records=8, wait_s=0.0, in_flight=at_once)
        work = self.stage.consume(cast("Any", self.stream), cast("Delivery[Any]", self.delivery), batching)
        self.task = asyncio.create_task(work)

    async def put(self, *offsets: int) -> None:
        """Let records arrive that form a batch of their own, unless one in flight holds it back."""
        self.stream.put(*offsets)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


async def test_batches_are_delivered_side_by_side_up_to_a_number_and_acknowledged_when_done() -> None:
    running = Running(at_once=2)
    for offset in range(3):
        await running.put(offset)
    both = list(running.delivery.begun)

    running.delivery.told[1].set_result(None)
    await running.settle()

    assert both == [[0], [1]]
    assert running.delivery.begun == [[0], [1], [2]]
    assert running.stream.acked == [1]
    running.task.cancel()


async def test_one_batch_waits_for_another_unless_told_otherwise() -> None:
    running = Running(at_once=1)
    await running.put(0, 1)
    await running.put(2)

    assert running.delivery.begun == [[0, 1]]
    running.task.cancel()


async def test_a_batch_that_fails_stops_the_stage_and_is_not_acknowledged() -> None:
    running = Running(at_once=2)
    await running.put(0)
    await running.put(1)

    running.delivery.told[0].set_exception(ConnectionError("the store is down"))

    with pytest.raises(ConnectionError, match="the store is down"):
        await running.task
    assert running.stream.acked == []


async def test_a_stage_that_leaves_finishes_what_is_at_hand_and_begins_nothing() -> None:
    running = Running(at_once=2)
    await running.put(0)

    draining = asyncio.create_task(running.stage.drain())
    await running.settle()
    await running.put(1)
    waits = not draining.done()
    running.delivery.told[0].set_result(None)
    await draining
    await running.settle()

    assert waits
    assert (running.stream.acked, running.delivery.begun) == ([0], [[0]])
    running.task.cancel()


async def test_a_stream_that_ends_by_itself_is_an_error() -> None:
    running = Running(at_once=2)
    running.stream.waiting.put_nowait(None)

    with pytest.raises(StreamEnded):
        await running.task


async def test_partitions_that_move_are_waited_for_and_what_is_done_in_time_is_acknowledged() -> None:
    running = Running(at_once=2)
    await running.put(0)

    releasing = asyncio.create_task(running.stage.release(60.0))
    await running.settle()
    waits = not releasing.done()
    running.delivery.told[0].set_result(None)
    await releasing

    assert (waits, running.stream.acked) == (True, [0])
    running.task.cancel()


async def test_what_is_not_done_in_time_is_given_up_and_the_stage_goes_on() -> None:
    running = Running(at_once=2)
    await running.put(0)
    await running.put(1)

    await running.stage.release(0.0)
    given_up = [told.cancelled() for told in running.delivery.told.values()]
    await running.put(2)
    running.delivery.told[2].set_result(None)
    await running.settle()

    assert given_up == [True, True]
    assert running.stream.acked == [2]
    assert running.stage.progress.idle_s == 0
    assert not running.task.done()
    running.task.cancel()


async def test_a_batch_that_fails_when_it_is_given_up_stops_nothing() -> None:
    class Fails(Held):
        async def deliver(self, events: Sequence[Stored], *, group: str) -> None:
            try:
                await super().deliver(events, group=group)
            except asyncio.CancelledError:
                raise ConnectionError("cut off") from None

    running = Running(at_once=1, delivery=Fails())
    await running.put(0)

    await running.stage.release(0.0)
    await running.put(1)
    running.delivery.told[1].set_result(None)
    await running.settle()

    assert (running.delivery.begun, running.stream.acked) == ([[0], [1]], [1])
    assert not running.task.done()
    running.task.cancel()


async def test_records_that_are_not_held_any_more_are_dropped_without_a_word() -> None:
    running = Running(at_once=1, holds=lambda message: message.offset != 1)
    await running.put(0, 1)
    await running.put(1)
    await running.put(2)
    running.delivery.told[0].set_result(None)
    await running.settle()
    running.delivery.told[2].set_result(None)
    await running.settle()

    assert running.delivery.begun == [[0], [2]]
    assert running.stream.acked == [0, 2]
    running.task.cancel()
