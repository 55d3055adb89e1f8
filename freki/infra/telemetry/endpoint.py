"""The HTTP endpoint of a worker: `/metrics` for Prometheus, `/health/…` for orchestrators."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EADDRNOTAVAIL
from http import HTTPStatus
from socket import gaierror
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from freki.infra.settings import TelemetrySettings
from freki.schemas.errors import Misconfigured

Checks = Callable[[], Mapping[str, str]]
"""Returns the problem of each check by name, empty if healthy. Thread-safe."""
Application = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

METRICS = "/metrics"
HEALTH = "/health/"


@contextmanager
def serving(settings: TelemetrySettings, registry: CollectorRegistry, health: Mapping[str, Checks]) -> Iterator[str]:
    """Serve requests in a separate thread, independent of the event loop; yield the URL, empty if not served.

    health: checks by the last part of their path. Raises Misconfigured where the address cannot be bound.
    """
    if settings.http_port is None:
        yield ""
        return
    try:
        server = make_server(
            settings.http_host, settings.http_port, _application(registry, health), ThreadingWSGIServer, _Silent
        )
    except OSError as error:
        raise Misconfigured(
            f"FREKI_TELEMETRY__HTTP_HOST={settings.http_host} with FREKI_TELEMETRY__HTTP_PORT={settings.http_port} "
            f"cannot be listened on: {error}; {_remedy(error)}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="freki-endpoint", daemon=True)
    thread.start()
    try:
        yield f"http://{settings.http_host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _remedy(error: OSError) -> str:
    if isinstance(error, gaierror) or error.errno == EADDRNOTAVAIL:
        return "choose an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
    return "choose another port, or 0 for a free one"


class _Silent(WSGIRequestHandler):
    """A handler without access log."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _application(registry: CollectorRegistry, health: Mapping[str, Checks]) -> Application:
    metrics: Application = make_wsgi_app(registry)

    def application(environment: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path == METRICS:
            return metrics(environment, start_response)
        checks = health.get(path.removeprefix(HEALTH)) if path.startswith(HEALTH) else None
        if checks is None:
            known = [METRICS, *(f"{HEALTH}{name}" for name in health)]
            return _reply(start_response, HTTPStatus.NOT_FOUND, {"paths": known})
        found = checks()
        status = HTTPStatus.SERVICE_UNAVAILABLE if any(found.values()) else HTTPStatus.OK
        described = {name: {"ok": not why, "why": why} for name, why in found.items()}
        return _reply(start_response, status, {"ok": status is HTTPStatus.OK, "checks": described})

    return application


def _reply(start_response: StartResponse, status: HTTPStatus, content: object) -> list[bytes]:
    body = json.dumps(content).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(f"{status.value} {status.phrase}", headers)
    return [body]
