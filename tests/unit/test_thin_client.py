"""The thin client: small to import, typed, and honest about what the broker did."""

import asyncio
import gc
import itertools
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import aiokafka.errors
import pytest
from hypothesis import given, settings

from freki.client import (
    Broker,
    Client,
    ClientClosed,
    Deserializer,
    DocumentId,
    IndexOutcome,
    Misconfigured,
    Operation,
    OutcomeStatus,
    Rejected,
    Serializer,
    Unavailable,
    aio,
    kafka,
)
from freki.client.exchange import Publisher, ReceiptBoard
from freki.client.fields import DocumentFields, QueryFields
from freki.client.messages import Outgoing, Stored
from freki.schemas import ContextQuery, ContextResult, DocumentChange, QueryId, TenantId, Timestamp
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.errors import InfraError
from tests.http_api import receipt
from tests.strategies import records
from tests.unit.test_kafka_errors import OURS_TO_FIX, all_errors, made

HEAVY = {
    *("aiokafka", "aiohttp", "faust", "grpc", "huggingface_hub", "httpx", "kafka", "mode", "numpy", "onnxruntime"),
    *("opentelemetry", "pydantic", "pymilvus", "rich", "structlog", "tokenizers", "typer", "yaml"),
}


CUT = "hallo \ud83d"
"""Text that was cut within an emoji."""


def test_importing_it_loads_nothing_of_workers() -> None:
    """A process of its own: here everything is imported."""
    code = "import sys, freki.client; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())

    assert not HEAVY & {name.partition(".")[0] for name in loaded}
    own = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("freki.")}
    assert own == {"freki.client", "freki.schemas"}


def test_its_keywords_are_the_fields_of_the_records() -> None:
    given_by_client = {"tenant", "document_id", "operation", "content", "query_id", "text", "asked_at"}

    assert DocumentFields.__annotations__.keys() == {each.name for each in fields(DocumentChange)} - given_by_client
    assert QueryFields.__annotations__.keys() == {each.name for each in fields(ContextQuery)} - given_by_client


@settings(max_examples=20)
@given(change=records(DocumentChange), result=records(ContextResult))
def test_what_is_serialised_is_read_as_it_was_with_and_without_a_context(
    change: DocumentChange, result: ContextResult
) -> None:
    for record in (change, result):
        data = Serializer(type(record))(record, object())
        assert data == Codec(type(record)).encode(record)
        assert Deserializer(type(record))(data) == record
    assert Serializer(DocumentChange)(None) is None
    assert Deserializer(DocumentChange)(None) is None


@pytest.mark.parametrize(("wrong", "told"), [({"bootstrap": " "}, "bootstrap"), ({"prefix": "a b"}, "prefix 'a b'")])
def test_a_broker_that_cannot_be_named_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        Broker(**wrong)


def test_topics_are_named_as_workers_name_them() -> None:
    assert Broker().topic("documents") == "freki.documents.v1"
    assert Broker(prefix="x", version=2, generation="g2").topic("outcomes") == "x.outcomes.v2.g2"
    assert Broker(generation="g2").topic("contexts") == "freki.contexts.v1"


Answer = Callable[[Outgoing], list[tuple[str, bytes | None, bytes]]]


class Bus:
    """Stands for Kafka: what is sent is answered by `answer`."""

    def __init__(
        self, answer: Callable[[Outgoing], list[tuple[str, bytes | None, bytes]]], *, failures: int = 0
    ) -> None:
        self.answer = answer
        self.failures = failures
        self.sent: list[Outgoing] = []
        self.topics: dict[str, list[asyncio.Queue[Stored]]] = {}

    def producer(self, _: Broker) -> "BusProducer":
        return BusProducer(self)

    def reader(self, _: Broker, topic: str, *, start: str = "latest") -> "BusReader":
        assert start == "latest"
        return BusReader(self.topics.setdefault(topic, []))


class BusProducer:
    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, *sent: Outgoing) -> None:
        if self.bus.failures:
            self.bus.failures -= 1
            raise Unavailable("no broker")
        self.bus.sent += sent
        for record in sent:
            for topic, key, value in self.bus.answer(record):
                for queue in self.bus.topics.get(topic, []):
                    queue.put_nowait(StoredAnswer(topic, key, value))


class StoredAnswer:
    def __init__(self, topic: str, key: bytes | None, value: bytes) -> None:
        self.topic, self.key, self.value = topic, key, value
        self.partition = self.offset = self.timestamp_ms = 0
        self.headers = ()


class BusReader:
    def __init__(self, readers: list[asyncio.Queue[Stored]]) -> None:
        self.queue: asyncio.Queue[Stored] = asyncio.Queue()
        self.readers = readers

    async def __aenter__(self) -> Self:
        self.readers.append(self.queue)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.readers.remove(self.queue)

    async def __aiter__(self) -> AsyncIterator[Stored]:
        while True:
            yield await self.queue.get()


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bus], Client]:
    def connect(bus: Bus) -> Client:
        monkeypatch.setattr(aio, "Producer", bus.producer)
        monkeypatch.setattr(aio, "Reader", bus.reader)
        return Client(Broker(inline_bytes=100), tenant="acme", first_wait_s=0.0)

    return connect


ENDED = {Operation.UPSERT: OutcomeStatus.INDEXED, Operation.DELETE: OutcomeStatus.DELETED}


def receipt_of(record: Outgoing, outcome: IndexOutcome) -> list[tuple[str, bytes | None, bytes]]:
    if record.value is None or not record.topic.startswith("freki.documents"):
        return []
    change = Codec(DocumentChange).decode(record.value)
    made = replace(
        outcome,
        tenant=change.tenant,
        document_id=change.document_id,
        version=change.version,
        status=ENDED[change.operation],
    )
    return [("freki.outcomes.v1", record.key, Codec(IndexOutcome).encode(made))]


@settings(max_examples=5)
@given(outcome=records(IndexOutcome))
async def test_a_receipt_is_that_of_the_change_also_after_failures(outcome: IndexOutcome) -> None:
    with pytest.MonkeyPatch.context() as patch:
        bus = Bus(lambda record: receipt_of(record, outcome), failures=aio.ATTEMPTS - 1)
        patch.setattr(aio, "Producer", bus.producer)
        patch.setattr(aio, "Reader", bus.reader)
        async with Client(tenant="acme", first_wait_s=0.0) as client:
            first, second = await asyncio.gather(
                client.publish("a", "Text", principals=["everyone"], version=7), client.delete("b")
            )
            receipts = [await client.wait(each, timeout_s=5) for each in (second, first)]

    assert [(each.document_id, each.status) for each in receipts] == [
        ("b", OutcomeStatus.DELETED),
        ("a", OutcomeStatus.INDEXED),
    ]
    assert receipts[1].version == 7
    # A deletion is followed by its tombstone.
    assert [each.value is None for each in bus.sent if each.key == b"acme/b"] == [False, True]


async def test_a_broker_that_stays_away_is_told(on: Callable[[Bus], Client]) -> None:
    async with on(Bus(lambda _: [], failures=99)) as client:
        with pytest.raises(Unavailable, match="no broker"):
            await client.publish("a", "Text")


async def test_a_broker_that_is_not_there_is_told_after_some_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Broker] = []

    def counted(broker: Broker) -> dict[str, object]:
        attempts.append(broker)
        return options(broker)

    options = kafka._options
    monkeypatch.setattr(kafka, "_options", counted)

    with pytest.raises(Unavailable, match=r"is Kafka up at 127\.0\.0\.1:1\b"):
        await Client(Broker(bootstrap="127.0.0.1:1"), first_wait_s=0.0).__aenter__()

    assert len(attempts) == aio.ATTEMPTS


@pytest.mark.parametrize("theirs", [each for each in all_errors() if each.__module__ == aiokafka.errors.__name__])
def test_no_error_of_aiokafka_passes_untranslated(theirs: type[Exception]) -> None:
    error = made(theirs)

    with pytest.raises(InfraError) as raised, kafka._translated("send", Broker()):
        raise error

    assert raised.value.__cause__ is error
    if getattr(theirs, "retriable", False) and theirs.__name__ not in OURS_TO_FIX:
        assert isinstance(raised.value, Unavailable)


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        (aiokafka.errors.KafkaConnectionError, Unavailable, "is Kafka up"),
        (aiokafka.errors.KafkaTimeoutError, Unavailable, "is Kafka up"),
        (aiokafka.errors.NotLeaderForPartitionError, Unavailable, "is Kafka up"),
        (aiokafka.errors.UnknownError, Unavailable, "idempotent=False"),
        (aiokafka.errors.MessageSizeTooLargeError, Rejected, "max_message_bytes"),
        (aiokafka.errors.RecordTooLargeError, Rejected, "max_message_bytes"),
        (aiokafka.errors.TopicAuthorizationFailedError, Misconfigured, "rights"),
        (aiokafka.errors.AuthenticationFailedError, Misconfigured, "options of the Broker"),
        (aiokafka.errors.SaslAuthenticationFailed, Misconfigured, "options of the Broker"),
        (aiokafka.errors.UnknownTopicOrPartitionError, Misconfigured, "options of the Broker"),
    ],
)
def test_an_error_of_the_broker_says_whether_to_try_again_and_what_to_correct(
    theirs: type[Exception], ours: type[InfraError], told: str
) -> None:
    with pytest.raises(InfraError, match=told) as raised, kafka._translated("send", Broker()):
        raise theirs

    assert type(raised.value) is ours
    assert "[Error" not in str(raised.value)


async def test_content_that_is_too_large_is_refused_with_what_to_do(on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    async with on(bus) as client:
        with pytest.raises(Rejected, match="give its claim"):
            await client.publish("a", "x" * 101)
    assert bus.sent == []


@pytest.mark.parametrize(
    "wrong",
    [{"document": CUT}, {"content": CUT}, {"principals": [CUT]}, {"attributes": {"a": CUT}}, {"version": 2**63}],
)
async def test_a_change_that_no_record_can_hold_is_rejected(wrong: dict[str, Any], on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    async with on(bus) as client:
        with pytest.raises(Rejected):
            await client.publish(**{"document": "a", "content": "x", **wrong})

    assert bus.sent == []


async def test_a_change_of_no_document_is_rejected(on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    async with on(bus) as client:
        for change in (client.delete(""), client.delete(" "), client.publish("", "x")):
            with pytest.raises(Rejected, match="document_id: it is empty"):
                await change

    assert bus.sent == []


async def test_a_question_that_no_record_can_hold_is_rejected(on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    async with on(bus) as client:
        with pytest.raises(Rejected, match="half of a character"):
            await client.ask(CUT)

    assert bus.sent == []


async def test_content_that_is_neither_text_nor_bytes_is_rejected_by_name(on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    wrong: Any = Path("a.md")
    async with on(bus) as client:
        with pytest.raises(Rejected, match=r"content: a PosixPath is neither .* give"):
            await client.publish("a", wrong)

    assert bus.sent == []


async def test_changes_of_one_document_at_one_time_have_versions_of_their_own(
    on: Callable[[Bus], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.client.aio._now", lambda: 1_700_000_000_000)
    async with on(Bus(lambda _: [])) as client:
        published = await asyncio.gather(client.publish("a", "x"), client.publish("a", "y"), client.delete("a"))

    assert [each.change.version - 1_700_000_000_000 for each in published] == [0, 1, 2]


async def test_one_name_in_place_of_several_is_rejected_and_not_taken_apart(on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    async with on(bus) as client:
        with pytest.raises(Rejected, match=r"principals: .* a list"):
            await client.publish("a", "x", principals="everyone")
        with pytest.raises(Rejected, match=r"principals: .* a list"):
            await client.ask("x", principals="ada")
        with pytest.raises(Rejected, match=r"expect: .* a list"):
            await client.ask("x", expect="drei Monate")

    assert bus.sent == []


@settings(max_examples=5)
@given(result=records(ContextResult))
async def test_each_question_gets_its_own_answer_and_carries_the_token(result: ContextResult) -> None:
    def answer(record: Outgoing) -> list[tuple[str, bytes | None, bytes]]:
        query = Codec(ContextQuery).decode(record.value or b"")
        made = replace(result, query_id=query.query_id, context=query.text)
        return [("freki.contexts.v1", record.key, Codec(ContextResult).encode(made))]

    bus = Bus(answer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aio, "Producer", bus.producer)
        patch.setattr(aio, "Reader", bus.reader)
        async with Client(tenant="acme", token=lambda: "secret") as client:
            answers = await asyncio.gather(*(client.ask(f"Frage {number}", top_k=3) for number in range(4)))

    assert [each.context for each in answers] == [f"Frage {number}" for number in range(4)]
    assert {each.headers for each in bus.sent} == {(("freki-token", b"secret"),)}
    assert {Codec(ContextQuery).decode(each.value or b"").top_k for each in bus.sent} == {3}


@settings(max_examples=1)
@given(result=records(ContextResult))
async def test_a_text_is_asked_when_it_leaves_and_a_whole_query_when_it_says(result: ContextResult) -> None:
    def answer(record: Outgoing) -> list[tuple[str, bytes | None, bytes]]:
        return [("freki.contexts.v1", record.key, Codec(ContextResult).encode(result))]

    bus = Bus(answer, failures=2)
    clock = itertools.count(1)
    whole = ContextQuery(query_id=QueryId("q"), tenant=TenantId("acme"), text="Frage", asked_at=Timestamp(77))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aio, "Producer", bus.producer)
        patch.setattr(aio, "Reader", bus.reader)
        patch.setattr(aio, "_now", lambda: Timestamp(next(clock)))
        async with Client(tenant="acme", first_wait_s=0.0) as client:
            await client.ask("Frage", deadline_ms=100)
            await client.ask(whole)

    asked = [Codec(ContextQuery).decode(each.value or b"") for each in bus.sent]
    # The third attempt is the first that leaves.
    assert [each.asked_at for each in asked] == [3, 77]


async def test_a_client_that_is_not_open_says_so_and_connects_nowhere(on: Callable[[Bus], Client]) -> None:
    bus = Bus(lambda _: [])
    client = on(bus)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: client.publish("a", "Text"),
        lambda: client.delete("a"),
        lambda: client.ask("Frage"),
        lambda: anext(client.subscribe(IndexOutcome)),
    ]
    for call in calls:
        with pytest.raises(ClientClosed, match="async with"):
            await call()
    async with client:
        published = await client.publish("a", "Text")
    for call in [*calls, lambda: client.wait(published)]:
        with pytest.raises(ClientClosed, match="async with"):
            await call()

    assert [readers for readers in bus.topics.values() if readers] == []


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), None])
async def test_a_time_to_wait_that_is_none_is_refused_by_name(timeout_s: Any, on: Callable[[Bus], Client]) -> None:
    async with on(Bus(lambda _: [])) as client:
        published = await client.publish("a", "Text")
        with pytest.raises(ValueError, match="timeout_s: "):
            await client.wait(published, timeout_s=timeout_s)
        with pytest.raises(TimeoutError):
            await client.wait(published, timeout_s=0)


async def test_calls_that_wait_when_the_client_is_closed_end_and_are_not_cancelled(on: Callable[[Bus], Client]) -> None:
    asked = asyncio.Event()

    def silent(record: Outgoing) -> list[tuple[str, bytes | None, bytes]]:
        if record.topic == "freki.queries.v1":
            asked.set()
        return []

    async with on(Bus(silent)) as client:
        published = await client.publish("a", "Text")
        waiting = [asyncio.create_task(client.wait(published)), asyncio.create_task(client.ask("Frage"))]
        await asked.wait()

    ends = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(end) for end in ends] == [ClientClosed, ClientClosed]


async def _follow(followed: AsyncIterator[IndexOutcome]) -> None:
    async for _ in followed:
        pass


async def test_subscriptions_end_with_the_client(on: Callable[[Bus], Client]) -> None:
    """Whoever waits in one is told, and the connection of one in which nobody waits is closed."""
    outcome = receipt(TenantId("acme"), DocumentId("a"), 1)
    bus = Bus(lambda _: [("freki.outcomes.v1", b"acme/a", Codec(IndexOutcome).encode(outcome))])
    readers = bus.topics.setdefault("freki.outcomes.v1", [])
    async with asyncio.timeout(60):
        async with on(bus) as client:
            left = client.subscribe(IndexOutcome)
            first = asyncio.create_task(anext(left))
            waiting = asyncio.create_task(_follow(client.subscribe(IndexOutcome)))
            while len(readers) < 2:  # noqa: ASYNC110 - both follow
                await asyncio.sleep(0)
            await client.publish("a", "Text")
            assert await first == outcome
            assert len(readers) == 3, "with the one that reads receipts"

        assert readers == []
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await anext(left)


async def test_what_is_being_opened_when_the_client_is_closed_is_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, opening, go_on = Bus(lambda _: []), asyncio.Event(), asyncio.Event()

    class SlowReader(BusReader):
        async def __aenter__(self) -> Self:
            opening.set()
            await go_on.wait()
            return await super().__aenter__()

    monkeypatch.setattr(aio, "Producer", bus.producer)
    monkeypatch.setattr(aio, "Reader", lambda _, topic: SlowReader(bus.topics.setdefault(topic, [])))
    async with Client() as client:
        asked = asyncio.create_task(client.ask("Frage"))
        await opening.wait()
        asyncio.get_running_loop().call_soon(go_on.set)

    with pytest.raises(ClientClosed):
        await asked
    assert bus.topics == {"freki.contexts.v1": []}


@settings(max_examples=1)
@given(result=records(ContextResult))
async def test_who_gives_up_while_the_client_connects_leaves_a_connection_to_later_calls(result: ContextResult) -> None:
    def answer(record: Outgoing) -> list[tuple[str, bytes | None, bytes]]:
        return [("freki.contexts.v1", record.key, Codec(ContextResult).encode(result))]

    bus, opening, go_on, opened = Bus(answer), asyncio.Event(), asyncio.Event(), 0

    class SlowReader(BusReader):
        async def __aenter__(self) -> Self:
            nonlocal opened
            opened += 1
            opening.set()
            await go_on.wait()
            return await super().__aenter__()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aio, "Producer", bus.producer)
        patch.setattr(aio, "Reader", lambda _, topic: SlowReader(bus.topics.setdefault(topic, [])))
        async with Client(tenant="acme") as client:
            hasty, patient = (asyncio.create_task(client.ask("Frage")) for _ in range(2))
            await opening.wait()
            hasty.cancel()
            await asyncio.wait({hasty})
            go_on.set()
            answers = [await patient, await client.ask("Frage")]

    assert hasty.cancelled()
    assert (answers, opened) == ([result, result], 1)
    assert bus.topics == {"freki.contexts.v1": []}


@settings(max_examples=1)
@given(outcome=records(IndexOutcome), result=records(ContextResult))
async def test_no_connection_outlives_a_client_however_often_it_is_cancelled(
    outcome: IndexOutcome, result: ContextResult
) -> None:
    """As by the scopes of anyio, which cancel each wait of clean-up again."""
    tasks = asyncio.all_tasks()
    is_used = False
    for steps in itertools.count():
        with pytest.MonkeyPatch.context() as patch:
            bus = _open_for_some_steps(patch, outcome, result)
            using = asyncio.create_task(_use(Client(tenant="acme", answers_on="acme.answers")))
            for _ in range(steps):
                await asyncio.sleep(0)
            is_used = using.done()
            while not using.done():
                using.cancel()
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)

        assert (steps, bus.open) == (steps, 0)
        assert asyncio.all_tasks() <= tasks
        if is_used:
            break

    assert steps > 20


async def _use(client: Client) -> None:
    async with client:
        await client.wait(await client.publish("a", "Text"))
        await client.ask("Frage")


class CountingBus(Bus):
    """Has connections that take some steps of the event loop to open and close; counts those that are open."""

    open = 0


def _open_for_some_steps(patch: pytest.MonkeyPatch, outcome: IndexOutcome, result: ContextResult) -> CountingBus:
    def answer(record: Outgoing) -> list[tuple[str, bytes | None, bytes]]:
        return receipt_of(record, outcome) or [("freki.contexts.v1", record.key, Codec(ContextResult).encode(result))]

    async def some_steps() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    class SlowlyOpened:
        async def __aenter__(self) -> Self:
            await some_steps()
            bus.open += 1
            return await super().__aenter__()  # type: ignore[misc, no-any-return]

        async def __aexit__(self, *error: object) -> None:
            await some_steps()
            bus.open -= 1
            await super().__aexit__(*error)  # type: ignore[misc]

    class SlowProducer(SlowlyOpened, BusProducer):
        pass

    class SlowReader(SlowlyOpened, BusReader):
        pass

    bus = CountingBus(answer)
    patch.setattr(aio, "Producer", lambda _: SlowProducer(bus))
    patch.setattr(aio, "Reader", lambda _, topic: SlowReader(bus.topics.setdefault(topic, [])))
    return bus


async def test_a_client_of_another_event_loop_is_refused_instead_of_waiting_without_end(
    on: Callable[[Bus], Client],
) -> None:
    async with on(Bus(lambda _: [])) as client:
        published = await client.publish("a", "Text")

        async def elsewhere() -> None:
            for call in (client.ask("Frage"), client.publish("a", "Text"), client.wait(published)):
                with pytest.raises(Misconfigured, match="BlockingClient"):
                    await call

        await asyncio.to_thread(asyncio.run, elsewhere())


@settings(max_examples=1)
@given(result=records(ContextResult))
async def test_after_an_answer_that_can_not_be_read_the_next_question_is_answered(result: ContextResult) -> None:
    answers = iter([b"?", Codec(ContextResult).encode(result)])
    bus = Bus(lambda record: [("freki.contexts.v1", record.key, next(answers))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aio, "Producer", bus.producer)
        patch.setattr(aio, "Reader", bus.reader)
        async with Client(tenant="acme") as client:
            with pytest.raises(UndecodableError):
                await client.ask("Frage")
            assert await client.ask("Frage") == result


async def test_a_receipt_that_nobody_waits_for_takes_no_memory() -> None:
    async def nothing() -> AsyncIterator[Stored]:
        await asyncio.Event().wait()
        yield StoredAnswer("", None, b"")

    change = DocumentChange(**_minimal())
    async with ReceiptBoard(nothing(), Codec(IndexOutcome).decode) as board:
        receipt = board.expect(change)
        assert len(board._waiting) == 1
        del receipt
        gc.collect()
        assert not board._waiting


def _minimal() -> dict[str, Any]:
    return {"tenant": "t", "document_id": "d", "operation": "UPSERT", "version": 1, "occurred_at": 1}


def test_one_implementation_serves_workers_and_services() -> None:
    from freki.streams import client

    assert client.Publisher is Publisher
    assert client.ReceiptBoard is ReceiptBoard


def test_its_own_package_has_the_version_of_freki_and_no_other_requirements() -> None:
    root = Path(__file__).parents[2]
    whole, thin = (
        tomllib.loads((root / place / "pyproject.toml").read_text(encoding="utf-8")) for place in (".", "client")
    )

    assert thin["project"]["version"] == whole["project"]["version"]
    assert thin["project"]["dependencies"] == [
        each for each in whole["project"]["dependencies"] if each.startswith("fastavro")
    ]
    assert thin["tool"]["setuptools"]["packages"]["find"]["include"] == ["freki", "freki.client*", "freki.schemas*"]
    extras = thin["project"]["optional-dependencies"]
    for name in ("langchain", "llamaindex", "haystack"):
        assert extras[name] == ["freki-client[kafka]", *whole["project"]["optional-dependencies"][name]]
