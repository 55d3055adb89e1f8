"""The client for programs without asyncio: no call outlives it, and Ctrl-C ends one at once."""

import _thread
import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nan
from typing import Self, cast

import pytest

from freki.client import (
    BlockingClient,
    Broker,
    Client,
    ClientClosed,
    DocumentId,
    IndexOutcome,
    Misconfigured,
    Published,
    TenantId,
    Unavailable,
    aio,
)
from freki.client.messages import Outgoing
from freki.schemas.avro import Codec
from tests.http_api import receipt
from tests.unit.test_thin_client import Bus, BusProducer, BusReader, StoredAnswer

PATIENCE_S = 60.0


class WatchedBus(Bus):
    """Tells when a call waits; no send ever ends, and each reader begins with what is stored."""

    def __init__(self) -> None:
        super().__init__(lambda _: [])
        self.waits = threading.Event()
        self.open_readers = 0
        self.stored: list[StoredAnswer] = []

    def producer(self, _: Broker) -> "StuckProducer":
        return StuckProducer(self)

    def reader(self, _: Broker, topic: str, *, start: str = "latest") -> "WatchedReader":
        assert start == "latest"
        return WatchedReader(self, topic)


class StuckProducer(BusProducer):
    bus: WatchedBus

    async def send(self, *_: Outgoing) -> None:
        self.bus.waits.set()
        await asyncio.Event().wait()


class WatchedReader(BusReader):
    def __init__(self, bus: WatchedBus, topic: str) -> None:
        super().__init__(bus.topics.setdefault(topic, []))
        self.bus = bus
        for record in bus.stored:
            self.queue.put_nowait(record)

    async def __aenter__(self) -> Self:
        self.bus.open_readers += 1
        self.bus.waits.set()
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        # As with a broker: other tasks run before a connection is closed.
        await asyncio.sleep(0.01)
        await super().__aexit__()
        self.bus.open_readers -= 1


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> WatchedBus:
    made = WatchedBus()
    monkeypatch.setattr(aio, "Producer", made.producer)
    monkeypatch.setattr(aio, "Reader", made.reader)
    return made


def follow(client: BlockingClient) -> object:
    return next(client.subscribe(IndexOutcome))


def publish(client: BlockingClient) -> object:
    return client.publish("a", "Text")


def ask(client: BlockingClient) -> object:
    return client.ask("Frage")


@pytest.mark.parametrize("call", [follow, publish, ask])
def test_a_call_of_another_thread_ends_with_the_client(
    bus: WatchedBus, call: Callable[[BlockingClient], object]
) -> None:
    raised: list[BaseException] = []

    def run(client: BlockingClient) -> None:
        try:
            call(client)
        except Unavailable as error:
            raised.append(error)

    with BlockingClient() as client:
        thread = threading.Thread(target=run, args=[client], daemon=True)
        thread.start()
        assert bus.waits.wait(PATIENCE_S)
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    assert [type(error) for error in raised] == [ClientClosed]
    assert bus.open_readers == 0


@pytest.mark.parametrize("call", [follow, publish, ask])
def test_a_closed_client_says_so(bus: WatchedBus, call: Callable[[BlockingClient], object]) -> None:
    with BlockingClient() as client:
        pass

    with pytest.raises(ClientClosed):
        call(client)
    assert not bus.waits.is_set()


@pytest.mark.parametrize("call", [follow, publish, ask])
def test_a_client_that_was_never_opened_says_what_to_do(call: Callable[[BlockingClient], object]) -> None:
    with pytest.raises(ClientClosed, match="use it in `with`"):
        call(BlockingClient())


@pytest.mark.usefixtures("bus")
def test_a_client_that_is_open_is_not_opened_again_and_stays_usable() -> None:
    threads = threading.active_count()
    with BlockingClient() as client:
        with pytest.raises(Misconfigured, match="open already"):
            client.__enter__()
        with pytest.raises(TypeError):
            client.wait(cast("Published", None))
    assert threading.active_count() == threads

    with client, pytest.raises(TypeError):
        client.wait(cast("Published", None))


@pytest.mark.usefixtures("bus")
async def test_a_client_of_coroutines_that_is_open_is_not_opened_again() -> None:
    async with Client() as client:
        with pytest.raises(Misconfigured, match="open already"):
            await client.__aenter__()
    async with client:
        pass


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda client: client.ask("Frage", timeout_s=0), "timeout_s: 0 is"),
        (lambda client: client.ask("Frage", timeout_s=-1), "timeout_s: -1 is"),
        (lambda client: client.ask("Frage", timeout_s=nan), "timeout_s: nan is"),
        (lambda client: client.ask("Frage", timeout_s=None), "timeout_s: None is"),
        (lambda client: client.wait(None), "published: None is"),
        (lambda client: client.subscribe(IndexOutcome, start="never"), "start: 'never' is"),
        (lambda client: client.subscribe(str), "kind: <class 'str'> is"),
    ],
)
@pytest.mark.usefixtures("bus")
def test_a_wrong_argument_is_refused_at_once_by_name(call: Callable[[BlockingClient], object], named: str) -> None:
    with BlockingClient() as client, pytest.raises((ValueError, TypeError), match=named):
        call(client)


def _press_ctrl_c() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@contextmanager
def interrupted(when: threading.Event, press: Callable[[], None]) -> Iterator[None]:
    """Press Ctrl-C once an event is set.

    `_thread.interrupt_main` wakes no wait that has begun, like a signal that came just before it.
    """

    def press_then() -> None:
        assert when.wait(PATIENCE_S)
        press()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressing = threading.Thread(target=press_then)
    pressing.start()
    try:
        yield
    finally:
        pressing.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("call", [follow, publish, ask])
@pytest.mark.parametrize("press", [_press_ctrl_c, _thread.interrupt_main])
def test_ctrl_c_ends_a_call_and_the_client(
    bus: WatchedBus, call: Callable[[BlockingClient], object], press: Callable[[], None]
) -> None:
    with interrupted(bus.waits, press), pytest.raises(KeyboardInterrupt), BlockingClient() as client:
        call(client)

    assert bus.open_readers == 0


def test_a_subscription_that_was_left_open_is_closed_with_the_client(bus: WatchedBus) -> None:
    outcome = receipt(TenantId("acme"), DocumentId("a"), 1)
    bus.stored.append(StoredAnswer("freki.outcomes.v1", b"acme/a", Codec(IndexOutcome).encode(outcome)))
    with BlockingClient(tenant="acme") as client:
        followed = client.subscribe(IndexOutcome)
        assert next(followed) == outcome
        assert bus.open_readers == 1

    assert bus.open_readers == 0
    with pytest.raises(ClientClosed):
        next(followed)


FORKED = """
import os, signal
from freki.client import BlockingClient, IndexOutcome, Misconfigured, aio
from tests.unit.test_thin_client import Bus

bus = Bus(lambda _: [])
aio.Producer, aio.Reader = bus.producer, bus.reader
with BlockingClient() as client:
    followed = client.subscribe(IndexOutcome)
    # As if another thread was about to call at the moment of the fork.
    client._entrance.acquire()
    if (child := os.fork()) == 0:
        signal.alarm(60)
        for call in (lambda: client.ask("Frage"), lambda: next(followed), client.__enter__):
            try:
                call()
            except Misconfigured as error:
                print(error, flush=True)
        client.__exit__()
        os._exit(0)
    client._entrance.release()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    try:
        client.ask("Frage", timeout_s=0.01)
    except TimeoutError:
        print("the parent goes on", flush=True)
"""


def test_a_process_that_was_forked_is_told_to_open_a_client_of_its_own() -> None:
    """Its copy has no thread that would do what is called: calls would wait for ever, whatever their time."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    *told, ended, parent = done.stdout.splitlines()
    assert len(told) == 3
    assert all("another process" in line for line in told)
    assert (ended, parent) == ("0", "the parent goes on")
    assert done.stderr == ""
