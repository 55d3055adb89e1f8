"""Kafka Connect with Debezium, fetched from Maven Central, as a process of the test."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.neighbours.programs import running
from tests.stack import free_port

POM = Path(__file__).with_name("debezium.pom.xml")
PATIENCE_S = 180.0


@contextmanager
def running_connect(
    libs: Path, folder: Path, bootstrap: str, connector: Mapping[str, str], worker: Mapping[str, str]
) -> Iterator[None]:
    """Run a worker with one connector until the end of the block; its tasks run when the block begins."""
    port = free_port()
    here = {
        "bootstrap.servers": bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": str(folder / "offsets"),
    }
    _write(folder / "worker.properties", {**worker, **here})
    _write(folder / "connector.properties", connector)
    url = f"http://127.0.0.1:{port}/connectors/{connector['name']}/status"
    command = [
        *("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libs}/*"),
        "org.apache.kafka.connect.cli.ConnectStandalone",
        *(str(folder / "worker.properties"), str(folder / "connector.properties")),
    ]
    with running(command, folder / "connect.log", lambda: _is_running(url), patience_s=PATIENCE_S):
        yield


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")


def _is_running(url: str) -> bool:
    try:
        status = httpx.get(url).json()
    except (httpx.HTTPError, ValueError):
        return False
    states = [task["state"] for task in status.get("tasks", [])]
    assert "FAILED" not in states, status
    return states == ["RUNNING"]
