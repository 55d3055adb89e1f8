"""Apache Kafka as three brokers that can be killed, paused, cut off from their clients, and run out of disk."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from freki.infra.local import apache_kafka
from freki.infra.local.apache_kafka import Listener, Node
from freki.infra.local.ports import LOOPBACK
from freki.infra.local.probes import broker_answers
from freki.infra.settings import KafkaSettings
from tests.stack import free_port, log_of

READY_S = 180.0
"""On a machine that others use too."""
STOP_S = 40.0
POLL_S = 0.2
READ_BYTES = 1 << 16
DISK_MB = 192

PROPERTIES: Mapping[str, str] = {
    # Each tells the controller that it lives; 9 s and 2 s unless set. Tests wait for it.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "min.insync.replicas": "2",
    # Files of a quarter of the small disk would be allocated at once.
    "log.index.size.max.bytes": "1048576",
    "log.segment.bytes": "16777216",
    "metadata.log.segment.bytes": "16777216",
}


class Door:
    """A port that leads to a broker, until it is shut: then nothing passes, and nobody is told."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.open = asyncio.Event()
        self.open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connect, LOOPBACK, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.open.wait()
            there, onward = await asyncio.open_connection(LOOPBACK, self.to)
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, onward), (there, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(READ_BYTES):
                    await self.open.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()


@dataclass(slots=True, kw_only=True)
class Broker:
    """A node, its door, and its process."""

    node: Node
    door: Door
    process: subprocess.Popen[bytes] | None = None


@dataclass(kw_only=True)
class Cluster:
    """Brokers by number, from 1."""

    brokers: Mapping[int, Broker]
    libs: Path

    @property
    def settings(self) -> KafkaSettings:
        """Return how clients reach it."""
        doors = ",".join(f"{LOOPBACK}:{broker.door.port}" for broker in self.brokers.values())
        return KafkaSettings(bootstrap=doors, replication=len(self.brokers))

    async def start(self, number: int) -> None:
        """Start a broker, and wait until it answers."""
        broker = self.brokers[number]
        broker.process = await asyncio.to_thread(self._spawn, broker.node)
        async with asyncio.timeout(READY_S):
            while not await broker_answers(broker.node.port):
                if broker.process.poll() is not None:
                    raise RuntimeError(f"broker {number} ended:\n{log_of(broker.node).read_text()[-3000:]}")
                await asyncio.sleep(POLL_S)

    async def kill(self, number: int) -> None:
        """Kill a broker as a power cut would, but for what the system has cached."""
        await self._end(number, signal.SIGKILL)

    async def stop(self, number: int) -> None:
        """Ask a broker to hand its partitions over and end."""
        await self._end(number, signal.SIGTERM)

    def pause(self, number: int) -> None:
        """Let a broker stand still."""
        self._process(number).send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let it go on."""
        self._process(number).send_signal(signal.SIGCONT)

    async def fill(self, number: int) -> None:
        """Fill the disk of a broker until it gives up, as Kafka does where it cannot write."""
        directory = self.brokers[number].node.directory
        with (directory / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(1 << 16)):
                pass
        process = self._process(number)
        while process.poll() is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(POLL_S)

    def empty(self, number: int) -> None:
        """Make room on its disk again."""
        (self.brokers[number].node.directory / "filler").unlink()

    async def healthy(self, patience_s: float = READY_S) -> None:
        """Wait until every partition has all its replicas in sync. Raises TimeoutError with those that have not."""
        behind: Sequence[str] = ()
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    with suppress(KafkaError, OSError):
                        behind = await asyncio.to_thread(self._behind)
                        if not behind:
                            return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise TimeoutError(f"not in sync after {patience_s:g} s: {', '.join(behind) or 'no answer'}") from None

    async def leader(self, topic: str, partition: int) -> int:
        """Return the number of the broker that leads a partition."""
        told = (await asyncio.to_thread(self._topics, [topic]))[0]
        return int(next(each["leader_id"] for each in told["partitions"] if each["partition_index"] == partition))

    async def coordinator(self, group: str) -> int:
        """Return the number of the broker that coordinates a consumer group."""
        topic = "__consumer_offsets"
        told = (await asyncio.to_thread(self._topics, [topic]))[0]
        return await self.leader(topic, java_hash(group) % len(told["partitions"]))

    def _spawn(self, node: Node) -> subprocess.Popen[bytes]:
        with log_of(node).open("ab") as log:
            return subprocess.Popen(apache_kafka.command(self.libs, node), stdout=log, stderr=log)

    def _process(self, number: int) -> subprocess.Popen[bytes]:
        process = self.brokers[number].process
        assert process is not None, f"broker {number} does not run"
        return process

    async def _end(self, number: int, how: signal.Signals) -> None:
        process = self._process(number)
        process.send_signal(how)
        await asyncio.to_thread(process.wait, STOP_S)

    def _behind(self) -> list[str]:
        return [
            f"{topic['name']}-{each['partition_index']}"
            for topic in self._topics(None)
            for each in topic["partitions"]
            if set(each["isr_nodes"]) != set(each["replica_nodes"])
        ]

    def _topics(self, names: Collection[str] | None) -> list[Any]:
        with closing(KafkaAdminClient(bootstrap_servers=self.settings.bootstrap.split(","))) as admin:
            return list(admin.describe_topics(names))


def java_hash(text: str) -> int:
    """Return what Kafka takes of the hash of a group's name: Java's, without its sign."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def can_mount() -> bool:
    """Tell whether this user may mount a small disk."""
    return _run("unshare", "--mount", "true").returncode == 0


@asynccontextmanager
async def cluster(
    directory: Path, *, brokers: int = 3, properties: Mapping[str, str] = PROPERTIES, small_disk: int = 0
) -> AsyncIterator[Cluster]:
    """Run brokers until the end of the block; the one numbered `small_disk` has a disk that can be filled."""
    libs = await asyncio.to_thread(apache_kafka.libraries)
    async with AsyncExitStack() as exits:
        made = {}
        for number in range(1, brokers + 1):
            port, internal = free_port(), Listener(name="INTERNAL", port=free_port(), protocol="PLAINTEXT")
            door = await exits.enter_async_context(Door(port))
            node = Node(
                number=number,
                directory=directory / f"broker-{number}",
                port=port,
                controller_port=free_port(),
                listeners=[internal],
                properties={
                    **properties,
                    # Clients come through the door, other brokers past it.
                    "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{door.port},INTERNAL://{LOOPBACK}:{internal.port}",
                    "inter.broker.listener.name": internal.name,
                },
            )
            node.directory.mkdir(parents=True)
            if number == small_disk:
                _mount(node.directory)
                exits.callback(_unmount, node.directory)
            made[number] = Broker(node=node, door=door)
        nodes = [broker.node for broker in made.values()]
        cluster_id = apache_kafka.new_cluster_id()
        for node in nodes:
            await asyncio.to_thread(apache_kafka.prepare, libs, node, cluster=nodes, cluster_id=cluster_id)
        running = Cluster(brokers=made, libs=libs)
        exits.push_async_callback(_end_all, running)
        await asyncio.gather(*(running.start(number) for number in made))
        yield running


async def _end_all(running: Cluster) -> None:
    for broker in running.brokers.values():
        if broker.process is not None and broker.process.poll() is None:
            broker.process.kill()
            await asyncio.to_thread(broker.process.wait, STOP_S)


def _mount(directory: Path) -> None:
    _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(directory)).check_returncode()


def _unmount(directory: Path) -> None:
    _run("umount", "--lazy", str(directory)).check_returncode()
    shutil.rmtree(directory, ignore_errors=True)


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shutil.which(program) or program, *arguments], check=False, capture_output=True)
