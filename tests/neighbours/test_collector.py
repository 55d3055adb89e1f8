"""The OpenTelemetry collector takes the configuration in deploy/, our traces and our metrics."""

import hashlib
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from filelock import FileLock

from freki.infra.local import apache_kafka
from freki.infra.metrics import metering
from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry import tracing
from tests.compose import ROOT, read_compose
from tests.stack import free_port

pytestmark = pytest.mark.timeout(1800)  # the first time it is built

PARTS = Path(__file__).with_name("collector.builder.yml")
CONFIGURATION = (ROOT / "deploy" / "otel" / "collector.yml").read_text(encoding="utf-8")
VERSION = "v0.157.0"
PATIENCE_S = 60.0


class Jaeger(ThreadingHTTPServer):
    """Takes what is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[tuple[str, bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Jaeger

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture
def jaeger() -> Iterator[Jaeger]:
    with Jaeger() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def built() -> Path:
    """Build the collector once; skip the test where it cannot be had."""
    digest = hashlib.sha256(PARTS.read_bytes()).hexdigest()[:12]
    folder = apache_kafka.CACHE.expanduser() / f"otelcol-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "otelcol"
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if program.exists():
            return program
        go = shutil.which("go")
        if go is None:
            pytest.skip("there is no `go` on the PATH to build the OpenTelemetry collector with")
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            done = subprocess.run(
                [go, "run", f"go.opentelemetry.io/collector/cmd/builder@{VERSION}", f"--config={PARTS}"],
                cwd=fresh,
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                pytest.skip(f"Go cannot build the OpenTelemetry collector: {done.stderr.strip()[-500:]}")
            (Path(fresh) / "build" / program.name).replace(program)
    return program


@contextmanager
def running(folder: Path, jaeger: Jaeger) -> Iterator[tuple[str, str]]:
    """Run it with other addresses; Phoenix is not there. Gives where it takes telemetry, and its own metrics."""
    port, own = free_port(), free_port()
    text = CONFIGURATION
    for there, here in (
        ('"0.0.0.0:4318"', f'"127.0.0.1:{port}"'),
        ('host: "0.0.0.0", port: 8888', f'host: "127.0.0.1", port: {own}'),
        ("http://jaeger:4318", f"http://127.0.0.1:{jaeger.server_port}"),
    ):
        assert there in text
        text = text.replace(there, here)
    (folder / "collector.yml").write_text(text, encoding="utf-8")
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([str(built()), f"--config={folder / 'collector.yml'}"], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(f"http://127.0.0.1:{own}/metrics"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        assert "deprecated" not in log.read_text()
        yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{own}/metrics"
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def test_traces_go_through_to_jaeger_and_metrics_are_taken(jaeger: Jaeger, tmp_path: Path) -> None:
    with running(tmp_path, jaeger) as (endpoint, own):
        settings = TelemetrySettings(otlp_endpoint=endpoint)
        with tracing(settings, "test") as tracer, tracer.start_as_current_span("a span of ours"):
            pass
        with metering(settings, "test") as (meter, _):
            meter.create_counter("freki.test").add(1)
        deadline = time.monotonic() + PATIENCE_S
        while not jaeger.taken and time.monotonic() < deadline:
            time.sleep(0.1)
        measured = httpx.get(own).text

    assert [path for path, _ in jaeger.taken] == ["/v1/traces"]
    for received in ("spans", "metric_points"):
        (line,) = [line for line in measured.splitlines() if line.startswith(f"otelcol_receiver_accepted_{received}")]
        assert line.endswith(" 1")


def test_the_version_is_that_of_the_compose_file() -> None:
    image: str = read_compose({})["services"]["otel-collector"]["image"]

    assert image.rpartition(":")[2] == VERSION.removeprefix("v")
    assert f"otlpreceiver {VERSION}" in PARTS.read_text(encoding="utf-8")
