"""Fetches from the local broker, which do not end when records arrive, and wake-ups for those that wait.

A reader pauses between empty fetches. After a record is stored, its producer sends the name of the topic to the readers
of this user on this machine, as a datagram to a Unix socket each; they fetch at once. A lost datagram delays a record
until the end of the pause, as records of other producers are.
"""

import asyncio
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

FETCH_MS = 2
"""Wait of a fetch where no record is known to wait: it lasts to its end, whatever arrives meanwhile."""
BACKLOG_FETCH_MS = 250
"""Wait of a fetch where records are known to wait: it ends with them.

The broker stops reading at the end of the wait, so that a short one brings one record at a time or none: 8 seconds and
more for 2,900 records that one longer fetch brings in 60 ms.
"""
PAUSE_S = 0.05
"""First pause after an empty fetch, in seconds; five consumers with it cost the broker a thirtieth of a core."""
_LONGEST_PAUSE = 4
"""Longest pause, in first ones; each is twice the one before until a record comes. An idle stack takes half the CPU."""
PAUSE_PER_PARTITION_S = 0.001
"""Minimum pause per partition that was fetched, in seconds.

An empty fetch costs reader and broker 0.05 ms for each: ten a second of 512 partitions would take a quarter of a core.
"""
WAKEUP_INTERVAL_S = 0.01
"""Minimum interval of wake-ups for one topic, in seconds."""
_SETTLED_S = 1.0
"""Age from which on the time of a directory's last change tells whether it has changed since, in seconds."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MAX_NAME_BYTES = 1024
_SUFFIX = ".sock"


def make_directory(bootstrap: str) -> Path | None:
    """Make and return the directory of the sockets of a local broker; None where it cannot be private."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    path = _path(bootstrap)
    try:
        for each in (path.parent, path):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return path if _is_private(path) else None


def find_directory(bootstrap: str) -> Path | None:
    """Return the directory of the sockets of a local broker, made by its workers; None for other brokers."""
    host, _, _ = bootstrap.rpartition(":")
    if host not in _LOOPBACK or not hasattr(socket, "AF_UNIX"):
        return None
    path = _path(bootstrap)
    return path if _is_private(path) else None


def remove_directory(bootstrap: str) -> None:
    """Remove the directory of a local broker that has ended."""
    path = find_directory(bootstrap)
    if path is not None:
        with suppress(OSError):
            for left in path.glob(f"*{_SUFFIX}"):
                left.unlink(missing_ok=True)
            path.rmdir()


def remove_left_directories() -> None:
    """Remove those of local brokers that were killed: neither a broker listens at their port, nor a reader."""
    for path in (each for each in _home().glob("*") if each.name.isdecimal()):
        broker = (_LOOPBACK[0], int(path.name))
        if not _listens(socket.AF_INET, broker) and not _is_read(path):
            remove_directory(f"{broker[0]}:{broker[1]}")


def _is_read(path: Path) -> bool:
    # Another process that starts may remove it meanwhile.
    with suppress(FileNotFoundError):
        return any(_listens(socket.AF_UNIX, str(each)) for each in path.glob(f"*{_SUFFIX}"))
    return False


def _listens(family: socket.AddressFamily, address: Any) -> bool:  # noqa: ANN401 - as `socket.connect` takes it
    kind = socket.SOCK_DGRAM if family is socket.AF_UNIX else socket.SOCK_STREAM
    with socket.socket(family, kind) as asking:
        try:
            asking.connect(address)
        except (OSError, OverflowError):
            return False
    return True


def _path(bootstrap: str) -> Path:
    return _home() / bootstrap.rpartition(":")[2]


def _home() -> Path:
    # Short, because the path of a socket has at most 107 bytes.
    return Path(tempfile.gettempdir()) / f"freki-{os.getuid()}"


def _is_private(path: Path) -> bool:
    """Return whether a directory and the one above belong to this user alone."""
    try:
        found = [each.lstat() for each in (path.parent, path)]
    except OSError:
        return False
    return all(stat.S_ISDIR(each.st_mode) and each.st_uid == os.getuid() and not each.st_mode & 0o077 for each in found)


class WakeupSender:
    """Sender of wake-ups."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        self._paths: Sequence[str] = ()
        self._listed_ns = -1
        self._sent_s: dict[str, float] = {}
        self._later: dict[str, asyncio.TimerHandle] = {}

    def wake_up(self, topic: str) -> None:
        """Wake up the readers of a topic, at intervals of at least `WAKEUP_INTERVAL_S`; never raises."""
        wait_s = self._sent_s.get(topic, 0.0) + WAKEUP_INTERVAL_S - time.monotonic()
        if wait_s <= 0:
            self._send(topic)
        elif topic not in self._later:
            self._later[topic] = asyncio.get_running_loop().call_later(wait_s, self._send, topic)

    def close(self) -> None:
        """Send no more wake-ups."""
        for timer in self._later.values():
            timer.cancel()
        self._socket.close()

    def _send(self, topic: str) -> None:
        self._later.pop(topic, None)
        self._sent_s[topic] = time.monotonic()
        with suppress(OSError):
            for path in self._readers():
                try:
                    self._socket.sendto(topic.encode(), path)
                except ConnectionRefusedError:
                    # Its process ended without removing it.
                    Path(path).unlink(missing_ok=True)
                except OSError:
                    continue

    def _readers(self) -> Sequence[str]:
        """Return the sockets, listed again if the directory has changed."""
        changed_ns = self._directory.stat().st_mtime_ns
        if changed_ns != self._listed_ns:
            self._paths = [str(path) for path in self._directory.glob(f"*{_SUFFIX}")]
            # A later change within the same tick of the clock would not be seen.
            is_settled = time.time_ns() - changed_ns > _SETTLED_S * 1e9
            self._listed_ns = changed_ns if is_settled else -1
        return self._paths


class FetchPauses:
    """Pauses of a reader between empty fetches, which wake-ups for its topics end."""

    def __init__(self, directory: Path, topics: Callable[[], Collection[str]]) -> None:
        """Listen from now on, in the running event loop. Raises OSError if that is not possible."""
        self._topics = topics
        # Not by the process id: in containers ids repeat, and a killed process leaves its sockets.
        self._path = directory / f"{secrets.token_hex(8)}{_SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        try:
            self._socket.bind(str(self._path))
        except OSError:
            self._socket.close()
            raise
        self._woken = asyncio.Event()
        self._pause = 1
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        """Stop listening."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    async def after(
        self, fetch: Callable[[], Awaitable[bool]], behind: Callable[[], bool] = lambda: False, *, partitions: int = 1
    ) -> bool:
        """Run a fetch; pause if it returned False: no record. A wake-up since its beginning ends the pause.

        Pauses without a record or a wake-up between them get longer.

        behind: asked after the fetch, whether records are known to wait; then there is no pause. partitions: how many
        are fetched.
        """
        self._woken.clear()
        found = await fetch()
        # A fetch of aiokafka that is cancelled ends without an error; its consumer waits for the end of this.
        if found or behind() or _is_cancelled():
            self._pause = 1
            return found
        try:
            async with asyncio.timeout(max(self._pause * PAUSE_S, partitions * PAUSE_PER_PARTITION_S)):
                await self._woken.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        else:
            self._pause = 1
        return False

    def _read(self) -> None:
        with suppress(OSError):
            while topic := self._socket.recv(_MAX_NAME_BYTES):
                if topic.decode(errors="replace") in self._topics():
                    self._woken.set()


def pace(consumer: Any, directory: Path | None) -> FetchPauses | None:  # noqa: ANN401 - aiokafka is untyped
    """Let a started consumer of aiokafka pause between empty fetches, if there is a directory and sockets are possible.

    Call it in the event loop of the consumer, and give the result to `stop_consumer`.
    """
    if directory is None:
        return None

    def topics() -> Collection[str]:
        return {place.topic for place in consumer.assignment()}

    try:
        pauses = FetchPauses(directory, topics)
    except OSError:
        return None
    fetcher = consumer._fetcher  # noqa: SLF001
    process = fetcher._proc_fetch_request  # noqa: SLF001

    async def paced(assignment: Any, node: Any, request: Any) -> bool:  # noqa: ANN401 - passed on as they are
        def behind() -> bool:
            return _is_behind(assignment, request)

        async def fetch() -> bool:
            asked_ms = time.time_ns() // 1_000_000
            found: bool = await process(assignment, node, request)
            for state in _beyond_end(assignment, request, since_ms=asked_ms):
                state.await_reset(fetcher._default_reset_strategy)  # noqa: SLF001
            return found

        if behind():
            request._max_wait_ms = BACKLOG_FETCH_MS  # noqa: SLF001
        try:
            # Partitions of which fetched records wait are in the next fetch, and more of their records may wait.
            count = 1 if fetcher._records else sum(len(places) for _, places in request.topics)  # noqa: SLF001
            return await pauses.after(fetch, behind, partitions=count)
        except asyncio.CancelledError:
            # As aiokafka's own: it awaits the requests that it cancels, and expects no error.
            return False

    fetcher._proc_fetch_request = paced  # noqa: SLF001
    fetcher._fetch_max_wait_ms = FETCH_MS  # noqa: SLF001
    return pauses


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_behind(assignment: Any, request: Any) -> bool:  # noqa: ANN401 - aiokafka is untyped
    """Return whether a partition of a fetch is known to have records from its offset on; every response tells."""
    return assignment.active and any(
        (state := assignment.state_value((topic, partition))).highwater is not None
        and offset < end_of(state.highwater, state.lso)
        for topic, partitions in request.topics
        for partition, offset, _ in partitions
    )


def _beyond_end(assignment: Any, request: Any, *, since_ms: int) -> Sequence[Any]:  # noqa: ANN401 - as above
    """Return the partitions of a fetch that end before its offset, as a response since a time tells.

    The broker keeps records in memory and was started again. Apache Kafka answers that the offset is out of range, and
    aiokafka resets its position; this broker answers that there is nothing yet, until there are as many records again.
    """
    if not assignment.active:
        return ()
    asked = [
        (assignment.state_value((topic, partition)), offset)
        for topic, partitions in request.topics
        for partition, offset, _ in partitions
    ]
    return [
        state
        for state, offset in asked
        if state.highwater is not None
        and state.highwater < offset
        and state.timestamp >= since_ms
        and state.has_valid_position
        and state.position == offset
    ]


def end_of(highwater: int, last_stable: int | None) -> int:
    """Return the end of what can be read of a partition: records of an open transaction, and all after, cannot."""
    return highwater if last_stable is None or last_stable < 0 else min(highwater, last_stable)
