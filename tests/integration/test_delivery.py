import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from freki.infra.errors import Unavailable
from freki.infra.kafka import Admin, Producer, has_backlog
from freki.infra.settings import KafkaSettings
from freki.operators.errors import OperatorError
from freki.streams.dead_letters import from_record, replay
from freki.streams.messages import Outgoing
from freki.streams.outbox import Outbox
from freki.streams.topics import Topics
from tests.integration.stages import PATIENCE_S, TRACER, Batch, make_stage, read, read_all, read_values, running


@pytest.fixture
async def producer(kafka: KafkaSettings, topics: Topics) -> AsyncIterator[Producer]:
    async with Admin(kafka) as admin:
        await admin.ensure_topics(tuple(topics))
    async with Producer(kafka) as open_producer:
        yield open_producer


@pytest.fixture
def outbox(producer: Producer) -> Outbox:
    return Outbox(producer, TRACER)


def documents(topics: Topics, *pairs: tuple[bytes | None, bytes | None]) -> list[Outgoing]:
    return [Outgoing(topic=topics.documents.name, key=key, value=value) for key, value in pairs]


async def test_every_record_ends_in_its_output_or_in_the_dead_letters_in_order_per_key(
    kafka: KafkaSettings, topics: Topics, producer: Producer, outbox: Outbox, tmp_path: Path
) -> None:
    count, keys = 400, 10
    large = b"x" * (kafka.max_message_bytes - 1_000)
    flaky = {"103": 1, "207": 2}

    async def handle(batch: Batch) -> None:
        out: list[Outgoing] = []
        for one in batch:
            if one.value == "bad":
                raise OperatorError("bad")
            if flaky.get(one.value, 0) > 0:
                flaky[one.value] -= 1
                raise Unavailable("for a moment")
            twice = (one.value * 2).encode() if one.value.startswith("x") else one.value.encode()
            out.append(Outgoing(topic=topics.chunks.name, key=one.key, value=twice, trace=one.trace))
        await outbox.send(*out)

    good = [(b"%d" % (i % keys), b"%d" % i) for i in range(count)]
    spoilt: list[tuple[bytes | None, bytes | None]] = [
        (b"1", b"\xff\xfe"),
        (b"2", b"bad"),
        (None, b"no key"),
        (b"3", None),
        (b"4", large),
    ]
    async with running(make_stage(kafka, topics, producer, handle, tmp_path)):
        await outbox.send(*documents(topics, *good[:200], *spoilt, *good[200:]))
        dead = [from_record(record) for record in await read(kafka, topics.dead_letters.name, len(spoilt))]
        # Batches that failed are handled again in part, so some outputs come twice.
        outputs = await read_values(kafka, topics.chunks.name, count)

    assert sorted(letter.error for letter in dead) == [
        "NullKey",
        "NullValue",
        "OperatorError",
        "Rejected",
        "UnicodeDecodeError",
    ]
    assert {(letter.key, letter.value) for letter in dead} == set(spoilt)
    for key in {key for key, _ in good}:
        first_seen = list(dict.fromkeys(int(record.value or b"") for record in outputs if record.key == key))
        assert first_seen == sorted(int(value) for other, value in good if other == key)


async def test_a_replayed_dead_letter_is_processed_as_if_nothing_had_happened(
    kafka: KafkaSettings, topics: Topics, producer: Producer, outbox: Outbox, tmp_path: Path
) -> None:
    fixed = False

    async def handle(batch: Batch) -> None:
        if not fixed:
            raise OperatorError("not yet")
        await outbox.send(*(Outgoing(topic=topics.chunks.name, key=one.key, value=b"done") for one in batch))

    async with running(make_stage(kafka, topics, producer, handle, tmp_path)):
        await outbox.send(*documents(topics, (b"k", b"v")))
        [record] = await read(kafka, topics.dead_letters.name, 1)
        fixed = True
        await outbox.send(replay(from_record(record)))
        [output] = await read(kafka, topics.chunks.name, 1)

    assert (output.key, output.value) == (b"k", b"done")


async def test_when_the_world_stays_down_the_worker_stops_and_the_next_one_reads_again(
    kafka: KafkaSettings, topics: Topics, producer: Producer, outbox: Outbox, tmp_path: Path
) -> None:
    async def down(_: Batch) -> None:
        raise Unavailable("the store is down")

    async def up(batch: Batch) -> None:
        await outbox.send(*(Outgoing(topic=topics.chunks.name, key=one.key, value=one.value.encode()) for one in batch))

    await outbox.send(*documents(topics, *((b"%d" % i, b"%d" % i) for i in range(50))))
    with pytest.raises(Unavailable, match="the store is down"):
        async with running(make_stage(kafka, topics, producer, down, tmp_path)) as run:
            await asyncio.wait({run}, timeout=PATIENCE_S)
    async with running(make_stage(kafka, topics, producer, up, tmp_path)):
        outputs = await read(kafka, topics.chunks.name, 50)

    assert sorted(int(record.value or b"") for record in outputs) == list(range(50))
    assert await read_all(kafka, topics.dead_letters.name) == []


async def test_a_worker_that_is_killed_between_sending_and_acknowledging_loses_nothing(
    kafka: KafkaSettings, topics: Topics, producer: Producer, outbox: Outbox, tmp_path: Path
) -> None:
    async def handle(batch: Batch) -> None:
        await outbox.send(*(Outgoing(topic=topics.chunks.name, key=one.key, value=b"again") for one in batch))

    await outbox.send(*documents(topics, (b"k", b"v")))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.dying_worker", kafka.model_dump_json(), str(tmp_path)
    )
    await asyncio.wait_for(worker.wait(), PATIENCE_S)
    async with running(make_stage(kafka, topics, producer, handle, tmp_path)):
        outputs = await read(kafka, topics.chunks.name, 2)

    assert worker.returncode == -9
    assert [record.value for record in outputs] == [b"out", b"again"]


async def test_on_stop_the_batch_at_hand_is_finished_and_committed(
    kafka: KafkaSettings, topics: Topics, producer: Producer, outbox: Outbox, tmp_path: Path
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(batch: Batch) -> None:
        begun.set()
        await go_on.wait()
        await outbox.send(*(Outgoing(topic=topics.chunks.name, key=one.key, value=b"") for one in batch))

    stage = make_stage(kafka, topics, producer, handle, tmp_path)
    async with running(stage):
        await outbox.send(*documents(topics, (b"k", b"v")))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        behind = await has_backlog(stage.app)
        asyncio.get_running_loop().call_later(0.1, go_on.set)
    async with Admin(kafka) as admin:
        lags = await admin.lag(stage.app.conf.id, [topics.documents.name])

    assert behind
    assert sum(lag.end for lag in lags) == 1
    assert [lag.lag for lag in lags] == [0] * kafka.partitions
    assert len(await read_all(kafka, topics.chunks.name)) == 1


async def test_several_workers_share_the_partitions_and_lose_nothing_when_one_leaves(
    kafka: KafkaSettings, topics: Topics, producer: Producer, outbox: Outbox, tmp_path: Path
) -> None:
    count = 600

    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0.01)
        await outbox.send(*(Outgoing(topic=topics.chunks.name, key=one.key, value=one.value.encode()) for one in batch))

    async with running(make_stage(kafka, topics, producer, handle, tmp_path / "a")):
        await outbox.send(*documents(topics, *((b"%d" % (i % 20), b"%d" % i) for i in range(count // 2))))
        async with running(make_stage(kafka, topics, producer, handle, tmp_path / "b")):
            await outbox.send(*documents(topics, *((b"%d" % (i % 20), b"%d" % i) for i in range(count // 2, count))))
        await read_values(kafka, topics.chunks.name, count)

    assert await read_all(kafka, topics.dead_letters.name) == []
