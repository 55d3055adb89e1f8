"""Kafka Connect with Debezium, fetched from Maven Central, as a process of the test."""

import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from filelock import FileLock

from freki.infra.local import apache_kafka
from tests.stack import free_port

POM = Path(__file__).with_name("debezium.pom.xml")
PATIENCE_S = 180.0
LOG_CHARACTERS = 5_000


def libraries(pom: Path = POM) -> Path:
    """Fetch the jar files that a POM names, once; skip the test where they cannot be had."""
    program = shutil.which("mvn")
    # Other versions are another folder.
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = apache_kafka.CACHE.expanduser() / f"{pom.name.removesuffix('.pom.xml')}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if folder.exists():
            return folder
        if program is None:
            pytest.skip("there is no `mvn` on the PATH to fetch Kafka Connect and Debezium with")
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        done = subprocess.run(
            [
                *(program, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"),
                *(f"-DoutputDirectory={partial}", "-DincludeScope=runtime"),
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"Maven cannot fetch {pom.name}: {done.stdout.strip()[-500:]}")
        partial.rename(folder)
    return folder


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
    log = folder / "connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libs}/*"),
                "org.apache.kafka.connect.cli.ConnectStandalone",
                *(str(folder / "worker.properties"), str(folder / "connector.properties")),
            ],
            stdout=output,
            stderr=output,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/connectors/{connector['name']}/status", process, log)
        yield
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        said = log.read_text(errors="replace")[-LOG_CHARACTERS:]
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        try:
            status = httpx.get(url).json()
        except (httpx.HTTPError, ValueError):
            status = {}
        states = [task["state"] for task in status.get("tasks", [])]
        assert "FAILED" not in states, f"{status}\n{said}"
        if states == ["RUNNING"]:
            return
        time.sleep(0.5)
