"""The OpenTelemetry collector takes the configuration in deploy/, our traces and our metrics."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.metrics import metering
from freki.infra.telemetry.traces import tracing
from tests.compose import ROOT, read_compose
from tests.neighbours.programs import answers, digest_of, go_program, running
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
    builder = f"go.opentelemetry.io/collector/cmd/builder@{VERSION}"
    return go_program(f"otelcol-{digest_of(PARTS)}", ["run", builder, f"--config={PARTS}"], "build/otelcol")


@contextmanager
def running_collector(folder: Path, jaeger: Jaeger) -> Iterator[tuple[str, str]]:
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
    command, metrics = [str(built()), f"--config={folder / 'collector.yml'}"], f"http://127.0.0.1:{own}/metrics"
    with running(command, log, lambda: answers(metrics), patience_s=PATIENCE_S):
        assert "deprecated" not in log.read_text()
        yield f"http://127.0.0.1:{port}", metrics


def test_traces_go_through_to_jaeger_and_metrics_are_taken(jaeger: Jaeger, tmp_path: Path) -> None:
    with running_collector(tmp_path, jaeger) as (endpoint, own):
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
