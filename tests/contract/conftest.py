"""A store of its own for every test session, on a free port of the loopback interface."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from freki.infra.settings import MilvusSettings

PATIENCE_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Serve Milvus Lite until the end of the block."""
    server = subprocess.Popen([sys.executable, "-m", "freki.infra.milvus_lite", str(path), str(port)])
    try:
        wait_for(port, server)
        yield server
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server accepts connections."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "the store ended before it was ready"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    pytest.fail("the store did not become ready")


@pytest.fixture(scope="session")
def store_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve Milvus Lite, unless FREKI_TEST_MILVUS_URI names another server to test against."""
    if given := os.environ.get("FREKI_TEST_MILVUS_URI"):
        yield given
        return
    port = free_port()
    with serving(tmp_path_factory.mktemp("store") / "test.db", port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def store(store_uri: str) -> MilvusSettings:
    """Settings with a collection prefix that no other test session has."""
    return MilvusSettings(uri=store_uri, collection_prefix=f"test_{secrets.token_hex(4)}")
