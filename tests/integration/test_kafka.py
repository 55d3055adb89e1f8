import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from threading import Event
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest
from kafka import errors as kafka_python_errors
from kafka.admin import KafkaAdminClient

from freki.client import kafka as client_kafka
from freki.client import wakeups
from freki.client.broker import Broker
from freki.client.kafka import Record, stop_consumer
from freki.client.messages import Outgoing
from freki.infra.kafka import KafkaProducer, Reader
from freki.infra.kafka import admin as kafka_admin
from freki.infra.kafka.admin import Admin
from freki.infra.kafka.reader import log_ends, open_client
from freki.infra.settings import ClaimSettings, KafkaSettings, MilvusSettings, Settings
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.streams.deliver.lanes import Lane
from freki.streams.topics import Topics
from freki.streams.wire.overview import overview
from tests.integration.stages import World, running
from tests.integration.transactions import transaction
from tests.stack import LocalPrograms, free_port, running_tansu

LARGE_BYTES = 90_000
"""Size of a record of which a fetch returns one."""


@pytest.fixture
async def admin(kafka: KafkaSettings) -> AsyncIterator[Admin]:
    async with Admin(kafka) as open_admin:
        yield open_admin


@pytest.fixture
async def topic(admin: Admin, topics: Topics) -> str:
    await admin.ensure_topics([topics.queries])
    return topics.queries.name


async def test_topics_are_created_once_and_as_declared(admin: Admin, topics: Topics) -> None:
    first = await admin.ensure_topics(tuple(topics))
    second = await admin.ensure_topics(tuple(topics))
    states = await admin.describe([topic.name for topic in topics])

    assert first == tuple(topic.name for topic in topics)
    assert second == ()
    assert [state.differences(topic) for state, topic in zip(states, topics, strict=True)] == [()] * len(first)


async def test_a_topic_that_is_not_as_declared_is_described_in_words(admin: Admin, topics: Topics) -> None:
    await admin.ensure_topics([topics.chunks[Lane.REGULAR]])
    other = replace(topics.chunks[Lane.REGULAR], partitions=9, retention_ms=1)

    [state] = await admin.describe([topics.chunks[Lane.REGULAR].name])

    assert state.differences(other) == (
        "partitions is 2, declared 9",
        f"retention.ms is {topics.chunks[Lane.REGULAR].retention_ms}, declared 1",
    )


async def test_describing_a_topic_does_not_create_it(admin: Admin, topics: Topics) -> None:
    await admin.describe([topics.outcomes.name])
    [state] = await admin.describe([topics.outcomes.name])

    assert state.partitions == 0


async def test_a_reader_of_the_latest_misses_nothing_that_is_sent_once_it_is_open(
    kafka: KafkaSettings, topic: str
) -> None:
    async with KafkaProducer(kafka) as producer:
        # Several records in one batch: the local broker takes its first one for the end of the topic.
        await asyncio.gather(*[await producer.send(topic, key=b"k", value=b"old") for _ in range(10)])
        async with Reader(kafka, topic, start="latest") as reader:
            await (await producer.send(topic, key=b"k", value=b"new", headers=(("h", b"1"), ("h", b"2"))))
            record = await anext(aiter(reader))

    assert (record.key, record.value, record.headers) == (b"k", b"new", (("h", b"1"), ("h", b"2")))


async def test_a_reader_reads_up_to_the_end_that_it_found(kafka: KafkaSettings, topic: str) -> None:
    async with KafkaProducer(kafka) as producer:
        await asyncio.gather(*[await producer.send(topic, key=b"%d" % i, value=b"old") for i in range(10)])
        async with Reader(kafka, topic, start="earliest") as reader:
            await (await producer.send(topic, key=b"k", value=b"new"))
            records = [record async for record in reader.until_end()]

    assert sum(reader.ends.values()) == 10
    assert [record.value for record in records] == [b"old"] * 10


async def test_senders_that_are_cancelled_before_a_delivery_begins_take_no_place_for_good(
    kafka: KafkaSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.infra.kafka.producer._IN_FLIGHT", 2)
    async with KafkaProducer(kafka) as producer:

        async def send(value: bytes) -> None:
            await (await producer.send(topic, key=b"k", value=value))

        await send(b"first")
        for _ in range(3):
            async with asyncio.timeout(10):
                sending = asyncio.create_task(send(b"cancelled"))
                # After the sender has run for the first time, and before what it has begun does.
                asyncio.get_running_loop().call_soon(sending.cancel)
                await asyncio.wait([sending])
            assert sending.cancelled()
        async with asyncio.timeout(10):
            await send(b"last")


async def test_a_backlog_is_read_in_few_fetches(kafka: KafkaSettings, topic: str) -> None:
    async with KafkaProducer(kafka) as producer:
        # In a batch each, as from many producers: a short fetch of the local broker finds few or none among so many.
        for number in range(4000):
            await (await producer.send(topic, key=b"k", value=b"%d" % number))
    async with Reader(kafka, topic, start="earliest") as reader:
        fetches, counted = 0, reader._opened()._fetcher._proc_fetch_request

        async def counting(*request: Any) -> bool:
            nonlocal fetches
            fetches += 1
            return bool(await counted(*request))

        reader._opened()._fetcher._proc_fetch_request = counting
        read = [int(record.value or b"") async for record in reader.until_end()]

    assert read == list(range(4000))
    assert fetches < 100


async def test_pauses_of_the_client_end_with_a_record_or_with_the_client(
    kafka: KafkaSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "PAUSE_S", 3600.0)
    broker = Broker(bootstrap=kafka.bootstrap, idempotent=False)
    # A worker makes the directory of the sockets.
    async with (
        KafkaProducer(kafka),
        asyncio.timeout(60),
        client_kafka.Producer(broker) as producer,
        client_kafka.Reader(broker, topic) as reader,
    ):
        # By now it pauses.
        await asyncio.sleep(0.7)
        await producer.send(Outgoing(topic=topic, key=b"k", value=b"new", headers=()))
        record = await anext(aiter(reader))

    assert record.value == b"new"


async def test_a_client_of_a_broker_without_idempotent_producers_is_told_the_option() -> None:
    with running_tansu(free_port()) as kafka, pytest.raises(Unavailable, match=r"idempotent=False"):
        async with client_kafka.Producer(Broker(bootstrap=kafka.bootstrap)):
            pass


def break_fetches(client: Any) -> Event:
    """Let each fetch of a consumer of aiokafka end as if its connection were lost; the event is set with the first."""
    broken, send = Event(), client._client.send

    async def sending(node: Any, request: Any, **options: Any) -> Any:
        if isinstance(request, FetchRequest):
            broken.set()
            raise KafkaConnectionError("lost")
        return await send(node, request, **options)

    client._client.send = sending
    return broken


def no_wakeups(*_: Any) -> None:
    """Do as a machine without Unix sockets: the fetches of aiokafka stay as they are."""
    raise OSError


async def test_readers_close_while_a_fetch_waits_to_be_tried_again(
    kafka: KafkaSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "FetchPauses", no_wakeups)
    thin = client_kafka.Reader(Broker(bootstrap=kafka.bootstrap, idempotent=False), topic)
    for reader in (Reader(kafka, topic, start="earliest"), thin):
        async with asyncio.timeout(60), reader:
            client = cast("Any", reader._client)
            assert await asyncio.to_thread(break_fetches(client).wait, 20)

        assert not client._client._conns or all(not one.connected() for one in client._client._conns.values())


async def test_the_admin_client_answers_while_a_fetch_waits_to_be_tried_again(
    admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[Any] = []

    async def then_broken(client: Any, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        ends = await log_ends(client, places)
        assert await asyncio.to_thread(break_fetches(client).wait, 20)
        clients.append(client)
        return ends

    monkeypatch.setattr(kafka_admin, "log_ends", then_broken)
    async with asyncio.timeout(60):
        assert [one.lag for one in await admin.lag("nobody", [topic])] == [0, 0]
        assert await admin.held(topic) == 0
        assert await admin.held(f"{topic}-missing") is None

    assert len(clients) == 2
    assert all(not one.connected() for client in clients for one in client._client._conns.values())


async def test_a_group_whose_offset_is_past_the_end_has_all_records_before_it(
    kafka: KafkaSettings, admin: Admin, topic: str
) -> None:
    """As after a loss of records, or of a recreated topic: consumers begin at the first record that is there."""
    async with KafkaProducer(kafka) as producer:
        await asyncio.gather(*[await producer.send(topic, key=b"k", value=b"v") for _ in range(3)])
    places = {TopicPartition(topic, number): 100 for number in range(2)}

    await admin._commit("ahead", [topic], places)

    assert sorted(one.lag for one in await admin.lag("ahead", [topic])) == [0, 3]


async def test_groups_of_which_the_lag_is_asked_together_are_told_apart(
    kafka: KafkaSettings, admin: Admin, topic: str
) -> None:
    async with KafkaProducer(kafka) as producer:
        await asyncio.gather(*[await producer.send(topic, key=b"k", value=b"v") for _ in range(3)])
    ends = {(one.topic, one.partition): one.end for one in await admin.lag("behind", [topic])}
    await admin._commit("done", [topic], {TopicPartition(*place): end for place, end in ends.items()})

    lags = await admin.lags({"behind": [topic], "done": [topic], "elsewhere": [f"{topic}-missing"]})

    assert {group: sum(one.lag for one in each) for group, each in lags.items()} == {
        "behind": 3,
        "done": 0,
        "elsewhere": 0,
    }
    assert {group: sum(one.oldest_ms is not None for one in each) for group, each in lags.items()} == {
        "behind": 1,
        "done": 0,
        "elsewhere": 0,
    }
    assert not lags["elsewhere"]


async def test_topics_are_described_although_the_broker_that_was_asked_goes_away(
    admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, left = KafkaAdminClient.describe_topics, [kafka_python_errors.KafkaConnectionError("socket disconnected")]

    def interrupted(client: KafkaAdminClient, *args: Any) -> Any:
        if left:
            raise left.pop()
        return ask(client, *args)

    monkeypatch.setattr(KafkaAdminClient, "describe_topics", interrupted)

    assert await admin.partitions([topic]) == {topic: 2}


async def test_many_can_ask_one_admin_client_at_once(admin: Admin) -> None:
    """A connection of kafka-python takes five requests, and refuses the sixth as if no broker were there."""
    assert await asyncio.gather(*(admin.committed(f"group-{number}") for number in range(20))) == [{}] * 20


async def test_a_reader_of_one_partition_reads_no_other(kafka: KafkaSettings, topic: str) -> None:
    """The record of a dead letter without its value is one of millions, and there may be thousands of such letters."""
    async with KafkaProducer(kafka) as producer:
        await asyncio.gather(*[await producer.send(topic, key=b"%d" % at, value=b"v") for at in range(40)])
    whole = [record async for record in read_to_end(kafka, topic)]
    wanted = [record.offset for record in whole if record.partition == 1]

    async with Reader(kafka, topic, start={1: wanted[2]}, partition=1) as reader:
        read = [(record.partition, record.offset) async for record in reader.until_end()]

    assert {record.partition for record in whole} == {0, 1}
    assert read == [(1, offset) for offset in wanted[2:]]
    with pytest.raises(Misconfigured, match="no partition 2 any more"):
        await Reader(kafka, topic, start="earliest", partition=2).__aenter__()


async def read_to_end(kafka: KafkaSettings, topic: str) -> AsyncIterator[Record]:
    async with Reader(kafka, topic, start="earliest") as reader:
        async for record in reader.until_end():
            yield record


async def test_the_ends_of_topics_are_told_without_a_wait_for_records(
    kafka: KafkaSettings, admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_ms: list[int] = []
    send = Fetcher._proc_fetch_request

    async def recorded(self: Any, assignment: Any, node: Any, request: Any) -> Any:
        waits_ms.append(request._max_wait_ms)
        return await send(self, assignment, node, request)

    monkeypatch.setattr(Fetcher, "_proc_fetch_request", recorded)
    await admin.lag("nobody", [topic])
    await admin.held(topic)
    client = await open_client(kafka, topic, Reader(kafka, topic, start="earliest")._take_position)
    asked, waits = len(waits_ms), client._fetcher._fetch_max_wait_ms
    await stop_consumer(client)

    assert asked
    assert max(waits_ms[:asked]) <= 1
    assert waits > 1, "who reads records waits for them"


async def test_a_stage_ends_while_a_fetch_waits_to_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "FetchPauses", no_wakeups)
    stage = world.stage(world.forward)
    async with asyncio.timeout(60), running(stage):
        client = cast("Any", stage.app.consumer)._thread._consumer
        assert await asyncio.to_thread(break_fetches(client).wait, 20)

    assert all(not one.connected() for one in client._client._conns.values())


async def test_a_reader_begins_where_it_is_told(kafka: KafkaSettings, topic: str) -> None:
    async with KafkaProducer(kafka) as producer:
        places = await asyncio.gather(*[await producer.send(topic, key=b"k", value=b"%d" % i) for i in range(5)])
    async with Reader(kafka, topic, start={places[3].partition: places[3].offset}) as reader:
        records = [record async for record in reader.until_end()]

    assert [record.value for record in records] == [b"3", b"4"]


async def test_an_empty_topic_is_at_its_end_at_once(kafka: KafkaSettings, topic: str) -> None:
    async with Reader(kafka, topic, start="earliest") as reader:
        records = [record async for record in reader.until_end()]

    assert records == []


async def test_reading_a_topic_that_does_not_exist_says_how_to_make_it(kafka: KafkaSettings) -> None:
    with pytest.raises(Misconfigured, match=r"freki topics apply.*FREKI_MILVUS__GENERATION"):
        async with Reader(kafka, f"{kafka.topic_prefix}.outcomes.v1.g7", start="latest"):
            pass


async def test_topics_that_do_not_exist_are_a_problem_of_the_state_of_all_parts(
    kafka: KafkaSettings, topics: Topics, admin: Admin
) -> None:
    store = MilvusSettings(uri=f"http://127.0.0.1:{free_port()}", timeout_s=0.1)
    await admin.ensure_topics([each for each in topics if each is not topics.queries])

    found = await overview(Settings(kafka=kafka, milvus=store, claims=ClaimSettings(inline_bytes=1_000)))

    (problem,) = [each for each in found.problems if each.startswith("broker: ")]
    assert problem.startswith(f"broker: topics {topics.queries.name} do not exist")
    assert "`freki topics apply`" in problem
    assert "FREKI_MILVUS__GENERATION" in problem


async def test_a_record_that_is_too_large_is_rejected(kafka: KafkaSettings, topic: str) -> None:
    async with KafkaProducer(kafka) as producer:
        with pytest.raises(Rejected, match="FREKI_KAFKA__MAX_MESSAGE_BYTES"):
            await producer.send(topic, key=b"k", value=b"x" * 2 * kafka.max_message_bytes)
        with pytest.raises(Rejected, match="key or a value"):
            await producer.send(topic, key=None, value=None)


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("kind", ["producer", "reader"])
async def test_a_client_whose_end_is_cancelled_too_leaves_nothing_behind(
    kafka: KafkaSettings, topic: str, kind: str, after: int
) -> None:
    client = KafkaProducer(kafka) if kind == "producer" else Reader(kafka, topic, start="latest")
    before, there, is_open = asyncio.all_tasks(), wakeup_sockets(kafka), asyncio.Event()

    async def use() -> None:
        async with client:
            is_open.set()
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    await is_open.wait()
    using.cancel()
    for _ in range(after):
        await asyncio.sleep(0)
    using.cancel()
    await asyncio.wait({using})

    assert using.cancelled()
    assert wakeup_sockets(kafka) == there
    # A consumer that was told to stop stops by itself.
    if left := asyncio.all_tasks() - before:
        await asyncio.wait(left, timeout=60)
    assert asyncio.all_tasks() <= before


def wakeup_sockets(kafka: KafkaSettings) -> set[str]:
    directory = wakeups.find_directory(kafka.bootstrap)
    return set() if directory is None else {path.name for path in directory.iterdir()}


async def test_without_a_broker_every_client_names_the_setting(kafka: KafkaSettings) -> None:
    nowhere = kafka.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}", "delivery_timeout_s": 0.5})

    for client in (KafkaProducer(nowhere), Reader(nowhere, "topic", start="latest"), Admin(nowhere)):
        with pytest.raises(Unavailable, match="FREKI_KAFKA__BOOTSTRAP"):
            await client.__aenter__()


async def test_what_an_open_transaction_has_written_is_not_there_yet(
    kafka: KafkaSettings, topic: str, admin: Admin
) -> None:
    async with KafkaProducer(kafka) as producer:
        await (await producer.send(topic, key=b"k", value=b"before"))
        async with transaction(kafka, topic, b"k", b"uncommitted") as commit:
            await (await producer.send(topic, key=b"k", value=b"behind"))
            early = await values_of(kafka, topic)
            lag = await admin.lag("nobody", [topic])
            async with Reader(kafka, topic, start="latest") as reader:
                await commit()
                late = [(await anext(records := aiter(reader))).value, (await anext(records)).value]

    assert early == [b"before"]
    assert sum(one.lag for one in lag) == 1
    assert late == [b"uncommitted", b"behind"]
    assert await values_of(kafka, topic) == [b"before", b"uncommitted", b"behind"]


async def values_of(kafka: KafkaSettings, topic: str) -> list[bytes | None]:
    async with asyncio.timeout(60), Reader(kafka, topic, start="earliest") as reader:
        return [record.value async for record in reader.until_end()]


async def test_a_reader_from_a_time_on_has_all_that_came_since(kafka: KafkaSettings, topic: str) -> None:
    async with KafkaProducer(kafka) as producer:
        await (await producer.send(topic, key=b"a", value=b"before"))
        async with Reader(kafka, topic, start="earliest") as reader:
            before = [record async for record in reader.until_end()]
        await asyncio.sleep(0.05)
        await (await producer.send(topic, key=b"a", value=b"after"))

    async with Reader(kafka, topic, start=before[-1].timestamp_ms + 1) as reader:
        found = [record.value async for record in reader.until_end()]

    assert found[-1:] == [b"after"]
    async with Reader(kafka, topic, start=2**60) as reader:
        assert b"after" not in [record.value async for record in reader.until_end()] or kafka.profile == "local"


async def test_reading_to_the_end_of_a_topic_ends_where_the_broker_is_lost(topics: Topics) -> None:
    """Else a command such as `freki verify` waits for records until somebody ends it."""
    with ExitStack() as own:
        kafka = own.enter_context(LocalPrograms().broker()).model_copy(update={"delivery_timeout_s": 5.0})
        topic = topics.queries
        async with Admin(kafka) as admin:
            await admin.ensure_topics([topic])
        async with KafkaProducer(kafka) as producer:
            await asyncio.gather(
                *[await producer.send(topic.name, key=b"k", value=bytes(LARGE_BYTES)) for _ in range(20)]
            )
        async with Reader(kafka, topic.name, start="earliest") as reader:
            own.close()
            with pytest.raises(Unavailable, match=f"read {topic.name}"):
                [record async for record in reader.until_end()]


async def test_a_reader_goes_on_where_the_local_broker_lost_its_records(topics: Topics) -> None:
    """`freki serve` saw no receipt until there were as many records again."""
    topic, port = topics.queries, free_port()

    async def send(kafka: KafkaSettings, *values: bytes) -> None:
        async with Admin(kafka) as admin:
            await admin.ensure_topics([topic])
        async with KafkaProducer(kafka) as producer:
            await asyncio.gather(*[await producer.send(topic.name, key=b"k", value=value) for value in values])

    with ExitStack() as first:
        kafka = first.enter_context(running_tansu(port))
        await send(kafka, *[b"lost"] * 5)
        async with asyncio.timeout(60), Reader(kafka, topic.name, start="latest") as reader:
            first.close()
            with running_tansu(port):
                await send(kafka, b"new")

                assert (await anext(aiter(reader))).value == b"new"
