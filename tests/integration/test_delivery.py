import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from itertools import pairwise
from typing import Any

import faust
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import GroupAuthorizationFailedError
from aiokafka.protocol.api import Request
from aiokafka.protocol.group import LeaveGroupRequest, SyncGroupRequest

from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import look_behind
from freki.infra.kafka.consumer import Consumer, _ConsumerThread, _DaemonThread
from freki.infra.settings import KafkaSettings
from freki.operators.errors import OperatorError
from freki.schemas.errors import Rejected, Unavailable
from freki.streams.deliver.dead_letters import replay
from freki.streams.deliver.lanes import Lane
from freki.streams.deliver.run import Stalled, run_stages
from freki.streams.deliver.stage import Stage
from freki.streams.messages import Outgoing
from tests.integration.members import group_members
from tests.integration.stages import PATIENCE_S, Batch, World, a_world, running
from tests.integration.transactions import transaction

MANY = 32
"""Partitions."""
POLLED = 256
"""Maximum records of a poll."""
FETCH_S = 3.0
"""Longer than one fetch waits for records."""


def numbered(first: int, last: int, *, keys: int) -> list[tuple[bytes, bytes]]:
    return [(b"%d" % (i % keys), b"%d" % i) for i in range(first, last)]


def of_many_partitions(world: World) -> KafkaSettings:
    prefix = f"{world.kafka.topic_prefix}.many"
    return world.kafka.model_copy(update={"topic_prefix": prefix, "partitions": MANY})


def answers_to(kind: type[Request[Any]], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the answers to all requests of this kind from now on."""
    answers: list[Any] = []
    send = AIOKafkaClient.send

    async def sent(client: AIOKafkaClient, node: int, request: Any, **options: Any) -> Any:
        answer = await send(client, node, request, **options)
        if isinstance(request, kind):
            answers.append(answer)
        return answer

    monkeypatch.setattr(AIOKafkaClient, "send", sent)
    return answers


def takes_null_keys(world: World) -> bool:
    """Tansu takes records without a key on compacted topics, Apache Kafka does not."""
    return world.kafka.profile == "local"


async def test_every_record_ends_in_its_output_or_in_the_dead_letters_in_order_per_key(world: World) -> None:
    count, keys = 400, 10
    spoilt: list[tuple[bytes | None, bytes | None]] = [
        (b"1", b"\xff\xfe"),
        (b"2", b"bad"),
        (b"3", None),
        (b"4", b"x" * (world.kafka.max_message_bytes - 1_000)),
    ]
    if takes_null_keys(world):
        spoilt.append((None, b"no key"))
    flaky = {"103": 1, "207": 2}

    async def handle(batch: Batch) -> None:
        for one in batch:
            if one.value == "bad":
                raise OperatorError("bad")
            if flaky.get(one.value, 0) > 0:
                flaky[one.value] -= 1
                raise Unavailable("for a moment")
        # The large one is too large when it is sent twice over.
        await world.outbox.send(
            *(
                Outgoing(
                    topic=world.topics.chunks[Lane.REGULAR].name,
                    key=one.key,
                    value=one.value.encode() * (2 if one.value.startswith("x") else 1),
                )
                for one in batch
            )
        )

    async with running(world.stage(handle)):
        await world.publish(*numbered(0, 200, keys=keys), *spoilt, *numbered(200, count, keys=keys))
        dead = await world.dead_letters(len(spoilt))
        outputs = await world.outputs(count)

    assert {letter.error for letter in dead} == {
        *({"NullKey"} if takes_null_keys(world) else set()),
        *("NullValue", "OperatorError", "Rejected", "UnicodeDecodeError"),
    }
    assert {(letter.key, letter.value) for letter in dead} == set(spoilt)
    for key in range(keys):
        first_seen = list(dict.fromkeys(int(one.value or b"") for one in outputs if one.key == b"%d" % key))
        assert first_seen == list(range(key, count, keys))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_records_of_producers_that_compress_are_read(world: World, codec: str) -> None:
    taken: list[str] = []

    async def handle(batch: Batch) -> None:
        taken.extend(one.value for one in batch)

    async with (
        running(world.stage(handle)),
        AIOKafkaProducer(bootstrap_servers=world.kafka.bootstrap, compression_type=codec) as producer,
    ):
        # Kafka's clients send a batch as it is where compression gains nothing.
        await producer.send_and_wait(world.topics.documents.name, b"a" * 10_000, key=b"1")
        async with asyncio.timeout(PATIENCE_S):
            while not taken:  # noqa: ASYNC110 - the stage says so
                await asyncio.sleep(0.02)

    assert taken == ["a" * 10_000]


async def test_a_compacted_topic_takes_no_record_without_a_key_on_apache_kafka(world: World) -> None:
    if takes_null_keys(world):
        pytest.skip("Tansu takes it")
    with pytest.raises(Rejected, match="without a key"):
        await world.publish((None, b"no key"))


async def test_what_a_new_group_fetched_while_partitions_moved_is_fetched_again(world: World) -> None:
    stage = world.stage(world.forward)
    async with running(stage):
        # given a group that has offsets in one partition only, and a fetch under way when partitions begin to move
        await world.publish((b"0", b"first"))
        await world.outputs(1)
        consumer: Any = stage.app.consumer
        consumer.stop_flow()
        # Faust drops what the fetch brings, and seeks back.
        await world.publish(*numbered(0, 20, keys=20))
        with suppress(TimeoutError):  # of one partition alone, or hardly ever none was under way
            async with asyncio.timeout(FETCH_S):
                while sum(consumer.read.values()) < 21:  # noqa: ASYNC110 - the thread that reads notes it
                    await asyncio.sleep(0.01)

        # when it has its partitions again
        await consumer.perform_seek()
        consumer.resume_flow()

        await world.outputs(21)


async def test_a_new_group_has_an_offset_in_each_partition_from_its_first_assignment(world: World) -> None:
    """By which a later start tells that records which it never read were deleted."""
    async with running(world.stage(world.forward)), Admin(world.kafka) as admin:
        begun = await admin.committed(f"{world.kafka.topic_prefix}.stage")
    await world.publish((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    async with running(world.stage(world.forward)):
        outputs = await world.outputs(3)

    assert begun == {(world.topics.documents.name, partition): 0 for partition in range(world.kafka.partitions)}
    assert sorted(each.value or b"" for each in outputs) == [b"1", b"2", b"3"]


async def test_offsets_of_many_partitions_are_asked_for_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    fetch = GroupCoordinator._do_fetch_commit_offsets

    async def counted(self: Any, places: Collection[Any]) -> Any:
        asked.append(len(places))
        return await fetch(self, places)

    monkeypatch.setattr(GroupCoordinator, "_do_fetch_commit_offsets", counted)
    async with a_world(of_many_partitions(world), world.state) as many:
        for first in (0, MANY):
            async with running(many.stage(many.forward)):
                await many.publish(*numbered(first, first + MANY, keys=MANY))
                outputs = await many.outputs(first + MANY)
                assert sorted(int(each.value or b"") for each in outputs) == list(range(first + MANY))

    assert max(asked) == MANY
    assert len(asked) < MANY


async def test_a_look_at_the_backlog_of_many_partitions_asks_the_reading_thread_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    call = _ConsumerThread.call_thread

    async def counted(self: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
        calls[method.__name__] += 1
        return await call(self, method, *args, **kwargs)

    async with a_world(of_many_partitions(world), world.state) as many, running(stage := many.stage(many.forward)):
        await many.publish(*numbered(0, MANY, keys=MANY))
        await many.outputs(MANY)
        monkeypatch.setattr(_ConsumerThread, "call_thread", counted)
        async with asyncio.timeout(PATIENCE_S):
            while (backlog := await look_behind(stage.app)) is None or any(backlog.values()):
                calls.clear()

    assert len(backlog) == MANY
    assert sum(count for name, count in calls.items() if "position" in name) == 1


async def test_a_poll_brings_as_many_records_of_many_partitions_as_of_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[int] = []
    fetch = _ConsumerThread._fetch_records

    async def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = await fetch(self, *args, **kwargs)
        polls.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(_ConsumerThread, "_fetch_records", counted)
    async with a_world(of_many_partitions(world), world.state) as many:
        await many.publish(*numbered(0, POLLED, keys=POLLED))
        async with running(many.stage(many.forward)):
            await many.outputs(POLLED)

    assert max(polls) > POLLED // MANY


async def test_a_replayed_dead_letter_is_processed_as_if_nothing_had_happened(world: World) -> None:
    fixed = False

    async def handle(batch: Batch) -> None:
        if not fixed:
            raise OperatorError("not yet")
        await world.forward(batch)

    async with running(world.stage(handle)):
        await world.publish((b"k", b"v"))
        [letter] = await world.dead_letters(1)
        fixed = True
        await world.outbox.send(replay(letter))
        [output] = await world.outputs(1)

    assert (output.key, output.value) == (b"k", b"v")


async def test_when_the_world_stays_down_the_worker_stops_and_the_next_one_reads_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def down(_: Batch) -> None:
        raise Unavailable("the store is down")

    async def until_it_stops() -> None:
        async with running(world.stage(down)) as run:
            await asyncio.wait({run}, timeout=PATIENCE_S)

    await world.publish(*numbered(0, 50, keys=50))
    with pytest.raises(Unavailable, match="the store is down"):
        await until_it_stops()
    assert "Error while stopping" not in caplog.text
    async with running(world.stage(world.forward)):
        outputs = await world.outputs(50)

    assert {one.value for one in outputs} == {value for _, value in numbered(0, 50, keys=50)}
    assert await world.read_all(world.topics.dead_letters) == []


async def test_a_worker_that_is_killed_between_sending_and_acknowledging_loses_nothing(world: World) -> None:
    await world.publish((b"k", b"again"))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.dying_worker", world.kafka.model_dump_json(), str(world.state)
    )
    await asyncio.wait_for(worker.wait(), PATIENCE_S)
    async with running(world.stage(world.forward)):
        outputs = await world.outputs(2)

    assert worker.returncode == -9
    assert [one.value for one in outputs] == [b"first", b"again"]


async def test_on_stop_the_batch_at_hand_is_finished_and_committed(world: World) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(batch: Batch) -> None:
        begun.set()
        await go_on.wait()
        await world.forward(batch)

    stage = world.stage(handle)
    async with running(stage):
        await world.publish((b"k", b"v"))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        behind = await look_behind(stage.app) or {}
        # The block ends, and with it the stage is told to stop, before the handler goes on.
        asyncio.get_running_loop().call_later(0.1, go_on.set)
    async with Admin(world.kafka) as admin:
        lags = await admin.lag(stage.app.conf.id, [world.topics.documents.name])

    assert sum(behind.values()) == 1
    assert sum(lag.end for lag in lags) == 1
    assert [lag.lag for lag in lags] == [0] * world.kafka.partitions
    assert len(await world.read_all(world.topics.chunks[Lane.REGULAR])) == 1


async def test_a_stage_that_stands_still_while_records_wait_ends_the_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.streams.deliver.run._CHECKS_PER_WATCH", 1)
    stage = world.stage(world.forward)
    before: list[int] = []

    async def until_it_stops() -> None:
        async with running(stage) as run:
            await stage.app._fetcher.stop()
            before.append(sum((await look_behind(stage.app) or {}).values()))
            # Not before: to join the group may take longer.
            monkeypatch.setattr("freki.streams.deliver.progress.STALLED_S", 0.5)
            await world.publish((b"k", b"v"))
            await asyncio.wait({run}, timeout=PATIENCE_S)

    with pytest.raises(Stalled, match=r"records wait \(1 in test-.*/\d\)"):
        await until_it_stops()

    assert before == [0]
    assert await world.read_all(world.topics.chunks[Lane.REGULAR]) == []


async def test_a_worker_whose_broker_does_not_answer_for_long_ends_with_that_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.streams.deliver.run._CHECKS_PER_WATCH", 1)
    monkeypatch.setattr("freki.streams.deliver.progress.STALLED_S", 0.5)

    async def unanswered(_: faust.App) -> None:
        return None

    stage = world.stage(world.forward)
    with pytest.raises(Unavailable, match=r"the broker does not answer.* FREKI_KAFKA__BOOTSTRAP"):
        async with asyncio.timeout(PATIENCE_S):
            await run_stages([stage], asyncio.Event(), look_behind=unanswered, on_ready=lambda: None)
    assert not stage.hears_broker, "it is not ready"


async def test_large_records_wait_at_the_broker_and_not_in_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, size = 60, 90_000
    monkeypatch.setattr("freki.infra.kafka.consumer._HELD_BYTES", 4 * size)
    held: list[int] = []
    done: set[int] = set()
    finished = asyncio.Event()

    async def handle(batch: Batch) -> None:
        by_topic = getattr(stage.app.consumer, "held_bytes")  # noqa: B009 - Faust's types do not know it
        held.append(by_topic.total())
        done.update(one.offset for one in batch)
        if len(done) == count:
            finished.set()

    stage = world.stage(handle)
    await world.publish(*((b"k", b"x" * size) for _ in range(count)))
    async with running(stage):
        await asyncio.wait_for(finished.wait(), PATIENCE_S)

    assert max(held) < count * size / 2


async def test_several_workers_share_the_partitions_and_lose_nothing_when_one_leaves(world: World) -> None:
    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0.01)
        await world.forward(batch)

    async with running(world.stage(handle)):
        await world.publish(*numbered(0, 300, keys=20))
        async with running(world.stage(handle)):
            await world.publish(*numbered(300, 600, keys=20))
        await world.outputs(600)

    assert await world.read_all(world.topics.dead_letters) == []


async def test_a_group_whose_leader_left_while_another_member_joined_elects_a_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = answers_to(SyncGroupRequest, monkeypatch)
    async with group_members(world.kafka, f"{world.kafka.topic_prefix}.stage") as members:
        leader = await members.join()
        answers.clear()
        leaving = asyncio.create_task(members.leave_amid_a_join(leader))

        async with running(world.stage(world.forward)) as run:
            await leaving
            assert not run.done()
            await world.publish(*numbered(0, 10, keys=5))
            await world.outputs(10)

    # It waits for no leader that is not there.
    assert [answer.error_code for answer in answers] == [0] * len(answers)


async def test_a_worker_that_stops_amid_a_rebalance_leaves_its_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its partitions stand still until its session ends."""
    answers = answers_to(LeaveGroupRequest, monkeypatch)
    stage = world.stage(world.forward)
    async with running(stage):
        # As Faust does where partitions are revoked or assigned once the app stops.
        stage.app.consumer.close()
        # What it begins in the loop of the app has a turn before the reading thread stops.
        await asyncio.sleep(0.05)

    assert [answer.error_code for answer in answers] == [0]


async def test_a_worker_that_stops_while_its_reading_thread_begins_ends_that_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the process waits for the thread without end."""
    begun, release = asyncio.Event(), threading.Event()

    class Late(_DaemonThread):
        """A thread that gets no turn of the processor at first."""

        def start(self) -> None:
            super().start()
            begun.set()

        def run(self) -> None:
            release.wait(PATIENCE_S)
            super().run()

    monkeypatch.setattr(_ConsumerThread, "Worker", Late)
    stage, stop = world.stage(world.forward), asyncio.Event()
    run = asyncio.create_task(run_stages([stage], stop, look_behind=look_behind, on_ready=lambda: None))
    await begun.wait()
    consumer: Any = stage.app.consumer
    reading = consumer._thread
    stop.set()
    await asyncio.wait({run}, timeout=0.5)
    release.set()
    await run

    was_told = reading.should_stop
    reading._stopped_set()
    assert was_told


async def test_a_worker_whose_stop_does_not_end_ends_anyway(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.streams.deliver.run._STOP_S", 0.1)
    monkeypatch.setattr("freki.streams.deliver.run._CANCEL_S", 0.1)
    stage, release, is_stopped = world.stage(world.forward), asyncio.Event(), asyncio.Event()
    stop = stage.app.stop

    async def endless() -> None:
        """Stop, and take no notice of being cancelled, as services of Faust may."""
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        await stop()
        is_stopped.set()

    monkeypatch.setattr(stage.app, "stop", endless)
    async with asyncio.timeout(PATIENCE_S), running(stage):
        pass

    release.set()
    await is_stopped.wait()


async def test_a_rebalance_in_which_offsets_are_refused_does_not_stop_the_handling_of_records(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = Consumer.commit, asyncio.Event()

    async def refuse(consumer: Consumer, *args: Any, **kwargs: Any) -> Any:
        if consumer._is_handing_over and not refused.is_set():
            refused.set()
            raise GroupAuthorizationFailedError
        return await commit(consumer, *args, **kwargs)

    monkeypatch.setattr(Consumer, "commit", refuse)
    async with running(world.stage(world.forward)):
        await world.publish(*numbered(0, 10, keys=5))
        await world.outputs(10)
        async with running(world.stage(world.forward)):
            await refused.wait()
        await world.publish(*numbered(10, 20, keys=5))
        await world.outputs(20)


async def test_a_slow_batch_is_given_up_before_another_worker_begins_with_its_records(world: World) -> None:
    begun, never = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def slow(batch: Batch) -> None:
        order.extend(f"slow takes {one.value}" for one in batch)
        begun.set()
        try:
            await never.wait()
        finally:
            order.extend(f"slow leaves {one.value}" for one in batch)

    async def quick(batch: Batch) -> None:
        order.extend(f"quick takes {one.value}" for one in batch)
        await world.forward(batch)

    first, second = world.stage(slow), world.stage(quick)
    # One key, so that all is in one partition; it moves when the first worker leaves at the latest.
    await world.publish(*numbered(0, 20, keys=1))
    stopping = asyncio.Event()

    async def crowd() -> None:
        async with running(first):
            await stopping.wait()
            # A member that goes does not wait for its batch: it is given up too.
            await first.release(0.0)

    leaving = asyncio.create_task(crowd())
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    async with running(second):
        mine = len([line for line in order if line.startswith("slow takes")])
        assert [line for line in order if line.startswith("slow leaves")] != []
        stopping.set()
        await leaving
        outputs = await world.outputs(20)

    assert mine >= 1
    assert {one.value for one in outputs} == {b"%d" % n for n in range(20)}
    for n in range(20):
        lines = [line for line in order if line.endswith(f" {n}")]
        assert all("leaves" in after for before, after in pairwise(lines) if before.startswith("slow takes"))


async def test_what_an_open_transaction_has_written_is_neither_handled_nor_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.streams.deliver.run._CHECKS_PER_WATCH", 1)
    topic = world.topics.documents.name
    stage = world.stage(world.forward)
    await world.publish((b"k", b"before"))
    async with (
        running(stage) as run,
        transaction(world.kafka, topic, b"k", b"uncommitted") as commit,
    ):
        await world.publish((b"k", b"behind"))
        await world.outputs(1)
        # Not before: to join the group may take longer.
        with monkeypatch.context() as impatient:
            impatient.setattr("freki.streams.deliver.progress.STALLED_S", 1.0)
            # Longer than it takes to call a stage stalled that has something to do.
            await asyncio.wait({run}, timeout=3.0)
            early, runs = await world.read_all(world.topics.chunks[Lane.REGULAR]), not run.done()
        # From here on records do wait, on a busy machine for longer than that.
        await commit()
        outputs = await world.outputs(3)
    async with Admin(world.kafka) as admin:
        lags = await admin.lag(stage.app.conf.id, [topic])

    assert ([one.value for one in early], runs) == ([b"before"], True)
    assert [one.value for one in outputs] == [b"before", b"uncommitted", b"behind"]
    assert [lag.lag for lag in lags] == [0] * world.kafka.partitions


async def test_all_lanes_of_a_partition_are_in_one_worker(world: World) -> None:
    seen: dict[tuple[int, int], set[str]] = {}

    def worker(number: int) -> list[Stage]:
        async def handle(batch: Batch) -> None:
            for one in batch:
                seen.setdefault((number, one.partition), set()).add(one.topic)
            await world.forward(batch, world.topics.outcomes)

        return world.lanes(handle)

    async with running(*worker(1)), running(*worker(2)):
        for name in (topic.name for topic in world.topics.chunks.values()):
            await world.outbox.send(
                *(Outgoing(topic=name, key=b"%d" % n, value=f"{name} {n}".encode()) for n in range(40))
            )
        await world.outputs(40 * len(Lane), world.topics.outcomes)

    partitions = [partition for _, partition in seen]
    assert {number for number, _ in seen} == {1, 2}
    assert sorted(partitions) == list(range(world.kafka.partitions))
    assert all(len(topics) == len(Lane) for topics in seen.values())
