"""Wake-ups between producers and readers of the local broker."""

import asyncio
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from freki.infra.kafka import wakeups
from freki.infra.kafka.wakeups import Pauses, Ringer, directory_of
from freki.infra.settings import KafkaSettings


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a short directory, and pauses that only a wake-up ends."""
    monkeypatch.setattr(wakeups, "PAUSE_S", 3600.0)
    monkeypatch.setattr(wakeups, "SHORT_PAUSE_S", 3600.0)
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
        self.pauses = Pauses(directory, lambda: self.topics)
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
    ringer = Ringer(directory)
    readers = [Reading(directory, "a"), Reading(directory, "a", "b"), Reading(directory, "b")]
    for reader in readers:
        await reader.next_fetch()

    ringer.ring("a")
    await asyncio.gather(*(reader.next_fetch() for reader in readers[:2]))

    assert [reader.fetches for reader in readers] == [2, 2, 1]
    for reader in readers:
        await reader.close()
    ringer.close()


async def test_of_many_wake_ups_the_last_is_not_lost(directory: Path) -> None:
    ringer, reader = Ringer(directory), Reading(directory, "a")
    await reader.next_fetch()

    for _ in range(100):
        ringer.ring("a")
    await reader.next_fetch()
    await reader.next_fetch()

    assert 3 <= reader.fetches < 50
    await reader.close()
    ringer.close()


async def test_a_wake_up_during_a_fetch_lets_another_follow_at_once(directory: Path) -> None:
    ringer, pauses = Ringer(directory), Pauses(directory, lambda: ["a"])

    async def fetch() -> bool:
        ringer.ring("a")
        await asyncio.sleep(0.01)
        return False

    assert not await pauses.after(fetch)
    pauses.close()
    ringer.close()


async def test_after_a_record_there_is_no_pause(directory: Path) -> None:
    pauses = Pauses(directory, lambda: ["a"])

    async def fetch() -> bool:
        return True

    assert await pauses.after(fetch)
    pauses.close()


async def test_sockets_go_with_their_reader_or_with_the_next_wake_up(directory: Path) -> None:
    pauses, dead = Pauses(directory, lambda: ["a"]), Pauses(directory, lambda: ["a"])
    asyncio.get_running_loop().remove_reader(dead._socket)
    dead._socket.close()
    ringer = Ringer(directory)

    ringer.ring("a")
    left = sockets(directory)
    pauses.close()
    ringer.ring("b")

    assert (left, sockets(directory)) == (1, 0)
    ringer.close()


def test_only_the_local_broker_needs_wake_ups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    local = KafkaSettings(profile="local", bootstrap="127.0.0.1:4711")

    found = directory_of(local)

    assert found == tmp_path / f"freki-{os.getuid()}" / "4711"
    assert directory_of(KafkaSettings(profile="kafka", bootstrap="127.0.0.1:4711")) is None


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

    assert directory_of(KafkaSettings(profile="local")) is None
