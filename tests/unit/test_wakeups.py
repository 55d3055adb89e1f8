"""Wake-ups between producers and readers of the local broker."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka import TopicPartition
from aiokafka.protocol.fetch import FetchRequest

from freki.client import Broker, wakeups
from freki.client.kafka import _wakeups_of
from freki.client.wakeups import (
    BACKLOG_FETCH_MS,
    FETCH_MS,
    FetchPauses,
    WakeupSender,
    find_directory,
    make_directory,
    pace,
    remove_directory,
    remove_left_directories,
)
from freki.infra.kafka.connection import wakeups_of
from freki.infra.settings import KafkaSettings


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a short directory, and pauses that only a wake-up ends."""
    monkeypatch.setattr(wakeups, "PAUSE_S", 3600.0)
    path = tmp_path_factory.mktemp("w")
    yield path
    for left in path.iterdir():
        left.unlink()


def sockets(directory: Path) -> int:
    return len(list(directory.iterdir()))


class Reading:
    """A reader that counts its fetches, none of which finds a record."""

    def __init__(self, directory: Path, *topics: str) -> None:
        self.topics: Collection[str] = topics
        self.pauses = FetchPauses(directory, lambda: self.topics)
        self.fetches = 0
        self.fetched = asyncio.Event()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            await self.pauses.after(self._fetch)

    async def _fetch(self) -> bool:
        self.fetches += 1
        self.fetched.set()
        return False

    async def next_fetch(self) -> None:
        await self.fetched.wait()
        self.fetched.clear()

    async def close(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        self.pauses.close()


async def test_a_wake_up_ends_the_pause_of_each_reader_of_the_topic(directory: Path) -> None:
    sender = WakeupSender(directory)
    readers = [Reading(directory, "a"), Reading(directory, "a", "b"), Reading(directory, "b")]
    for reader in readers:
        await reader.next_fetch()

    sender.wake_up("a")
    await asyncio.gather(*(reader.next_fetch() for reader in readers[:2]))

    assert [reader.fetches for reader in readers] == [2, 2, 1]
    for reader in readers:
        await reader.close()
    sender.close()


async def test_of_many_wake_ups_the_last_is_not_lost(directory: Path) -> None:
    sender, reader = WakeupSender(directory), Reading(directory, "a")
    await reader.next_fetch()

    for _ in range(100):
        sender.wake_up("a")
    await reader.next_fetch()
    await reader.next_fetch()

    assert 3 <= reader.fetches < 50
    await reader.close()
    sender.close()


async def test_a_wake_up_during_a_fetch_lets_another_follow_at_once(directory: Path) -> None:
    sender, pauses = WakeupSender(directory), FetchPauses(directory, lambda: ["a"])

    async def fetch() -> bool:
        sender.wake_up("a")
        await asyncio.sleep(0.01)
        return False

    assert not await pauses.after(fetch)
    pauses.close()
    sender.close()


async def test_a_fetch_that_is_cancelled_and_ends_without_an_error_is_followed_by_no_pause(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "PAUSE_S", 3600.0)
    pauses, fetching = FetchPauses(directory, lambda: ["a"]), asyncio.Event()

    async def fetch() -> bool:
        fetching.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return False

    task = asyncio.create_task(pauses.after(fetch))
    await fetching.wait()
    task.cancel()

    async with asyncio.timeout(60):
        assert await task is False
    pauses.close()


async def test_after_a_record_there_is_no_pause(directory: Path) -> None:
    pauses = FetchPauses(directory, lambda: ["a"])

    async def fetch() -> bool:
        return True

    assert await pauses.after(fetch)
    pauses.close()


async def test_where_records_are_known_to_wait_there_is_no_pause(directory: Path) -> None:
    pauses = FetchPauses(directory, lambda: ["a"])

    async def fetch() -> bool:
        return False

    assert not await pauses.after(fetch, lambda: True)
    pauses.close()


async def test_pauses_get_longer_until_there_is_a_record_or_a_wake_up(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_s = 0.001
    monkeypatch.setattr(wakeups, "PAUSE_S", first_s)
    pauses, waited = FetchPauses(directory, lambda: ["a"]), list[float]()
    timeout, sender = asyncio.timeout, WakeupSender(directory)

    def noting(delay: float) -> asyncio.Timeout:
        waited.append(delay / first_s)
        return timeout(delay)

    async def fetch(*, wakes: bool = False, finds: bool = False) -> bool:
        if wakes:
            sender.wake_up("a")
            # The datagram is read in a turn of the event loop.
            while not pauses._woken.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0)
        return finds

    monkeypatch.setattr(asyncio, "timeout", noting)
    for _ in range(4):
        await pauses.after(fetch)
    await pauses.after(partial(fetch, finds=True))
    for _ in range(2):
        await pauses.after(fetch)
    await pauses.after(partial(fetch, wakes=True))
    await pauses.after(fetch)

    assert waited == pytest.approx([1, 2, 4, 4, 1, 2, 4, 1])
    pauses.close()
    sender.close()


@dataclass
class Place:
    """What aiokafka knows of a partition."""

    highwater: int | None = None
    lso: int | None = None


class Consumer:
    """A consumer of aiokafka with one partition, whose fetches are recorded."""

    def __init__(self, *answers: tuple[int, int | None]) -> None:
        """Give what each fetch tells: the end of the partition, and the last stable offset."""
        self.state = Place()
        self.active = True
        self.waits: list[int] = []
        self._answers = iter(answers)
        self._fetcher = self
        self._fetch_max_wait_ms = 0
        self._records: dict[TopicPartition, object] = {}

    def assignment(self) -> Collection[TopicPartition]:
        return [TopicPartition("a", 0)]

    def state_value(self, _: TopicPartition) -> Place:
        return self.state

    async def _proc_fetch_request(self, _: object, __: object, request: FetchRequest) -> bool:
        self.waits.append(request._max_wait_ms)
        self.state.highwater, self.state.lso = next(self._answers)
        return False

    async def fetch(self, offset: int) -> None:
        request = FetchRequest(self._fetch_max_wait_ms, 1, 1024, 1, [("a", [(0, offset, 1024)])])
        await self._proc_fetch_request(self, 0, request)


async def test_the_pause_grows_with_the_partitions(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "PAUSE_S", 0.0)
    monkeypatch.setattr(wakeups, "PAUSE_PER_PARTITION_S", 3600.0)
    sender, consumer = WakeupSender(directory), Consumer((0, None))
    pauses = pace(consumer, directory)
    assert pauses is not None

    fetch = asyncio.create_task(consumer.fetch(0))
    for _ in range(100):
        await asyncio.sleep(0)

    assert consumer.waits
    assert not fetch.done()
    sender.wake_up("a")
    await fetch
    pauses.close()
    sender.close()


async def test_a_fetch_waits_longer_where_the_last_answer_told_of_records(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "PAUSE_S", 0.0)
    consumer = Consumer((7, 7), (7, 7), (9, 7), (9, None), (9, -1), (9, 9))
    pauses = pace(consumer, directory)
    assert pauses is not None

    for offset in (5, 5, 7, 7, 8, 9):
        await consumer.fetch(offset)

    # Of an open transaction nothing can be read.
    assert consumer.waits == [FETCH_MS, BACKLOG_FETCH_MS, FETCH_MS, FETCH_MS, BACKLOG_FETCH_MS, FETCH_MS]
    pauses.close()


async def test_sockets_go_with_their_reader_or_with_the_next_wake_up(directory: Path) -> None:
    pauses, dead = FetchPauses(directory, lambda: ["a"]), FetchPauses(directory, lambda: ["a"])
    asyncio.get_running_loop().remove_reader(dead._socket)
    dead._socket.close()
    sender = WakeupSender(directory)

    sender.wake_up("a")
    left = sockets(directory)
    pauses.close()
    sender.wake_up("b")

    assert (left, sockets(directory)) == (1, 0)
    sender.close()


DIES = """\
import asyncio, os, sys
from pathlib import Path

os.getpid = lambda: 7  # as in containers, where every start has the ids of the last one

from freki.client.wakeups import FetchPauses

async def listen():
    FetchPauses(Path(sys.argv[1]), list)
    os._exit(0)

asyncio.run(listen())
"""


def test_what_a_killed_process_left_does_not_keep_one_with_its_id_from_listening(directory: Path) -> None:
    for number in range(1, 3):
        subprocess.run([sys.executable, "-c", DIES, str(directory)], check=True)
        assert sockets(directory) == number


async def test_a_reader_that_comes_later_is_woken_too(directory: Path) -> None:
    sender, first = WakeupSender(directory), Reading(directory, "a")
    await first.next_fetch()
    sender.wake_up("a")
    await first.next_fetch()

    second = Reading(directory, "b")
    await second.next_fetch()
    sender.wake_up("b")
    await second.next_fetch()

    assert (first.fetches, second.fetches) == (2, 2)
    for reader in (first, second):
        await reader.close()
    sender.close()


async def test_sockets_are_not_listed_for_each_wake_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "WAKEUP_INTERVAL_S", 0.0)
    sender, reader = WakeupSender(directory), Reading(directory, "a")
    await reader.next_fetch()
    os.utime(directory, (0, 0))
    sender.wake_up("a")
    listing = Mock(side_effect=AssertionError("the directory is listed again"))
    monkeypatch.setattr(Path, "glob", listing)

    await reader.next_fetch()
    sender.wake_up("a")
    await reader.next_fetch()

    listing.assert_not_called()
    await reader.close()
    sender.close()


def test_only_the_local_broker_needs_wake_ups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    at = "127.0.0.1:4711"
    local = Broker(bootstrap=at, idempotent=False)

    before = _wakeups_of(local)
    made = wakeups_of(KafkaSettings(profile="local", bootstrap=at))

    assert made == tmp_path / f"freki-{os.getuid()}" / "4711"
    assert (before, _wakeups_of(local)) == (None, made)
    assert wakeups_of(KafkaSettings(profile="kafka", bootstrap=at)) is None
    assert _wakeups_of(Broker(bootstrap=at)) is None
    assert _wakeups_of(Broker(bootstrap="kafka.example:4711", idempotent=False)) is None


async def test_a_broker_that_has_ended_leaves_no_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = make_directory("127.0.0.1:4711")
    assert directory is not None
    left = FetchPauses(directory, lambda: ["a"])

    remove_directory("127.0.0.1:4711")
    remove_directory("127.0.0.1:4712")
    left.close()

    assert not directory.exists()


async def test_left_directories_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Named briefly: the path of a socket is short.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ports = [socket.socket() for _ in range(4)]
    for port in ports:
        port.bind(("127.0.0.1", 0))
    runs, killed, empty, read = (make_directory(f"127.0.0.1:{port.getsockname()[1]}") for port in ports)
    assert runs is not None
    assert killed is not None
    assert empty is not None
    assert read is not None
    ports[0].listen()
    for directory in (runs, killed):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
            left.bind(str(directory / "left.sock"))
    reader = FetchPauses(read, lambda: ["a"])
    others = {runs.parent / "foreign", runs.parent / "70000"}
    for other in others:
        other.mkdir()

    remove_left_directories()
    found = set(runs.parent.iterdir())
    reader.close()
    for port in ports:
        port.close()

    assert found == {runs, read} | others


def test_a_left_directory_may_go_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two local stacks that start at once both remove what was left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, listens = make_directory("127.0.0.1:1"), wakeups._listens
    assert left is not None

    def removed_first(*asked: Any) -> bool:
        left.rmdir()
        # Python looks for the directory first, and opens it then.
        monkeypatch.setattr(Path, "is_dir", lambda _: True)
        return listens(*asked)

    monkeypatch.setattr(wakeups, "_listens", removed_first)
    remove_left_directories()

    assert not left.exists()


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_directory_that_is_not_private_is_not_used(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    base = tmp_path / f"freki-{os.getuid()}"
    if kind == "open to others":
        base.mkdir()
        base.chmod(0o755)
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        base.symlink_to(tmp_path / "elsewhere")
    else:
        base.touch()

    assert make_directory("127.0.0.1:4711") is None
    assert find_directory("127.0.0.1:4711") is None
