"""An HTTP server on the loopback interface that answers requests as the script of a test says."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeVar


class Reply(NamedTuple):
    """The response to one request."""

    content: Any
    """An object that becomes JSON, or bytes as they are."""
    status: int = 200
    headers: Mapping[str, str] = {}


class Request(NamedTuple):
    """A request that the server received."""

    path: str
    authorization: str | None
    body: dict[str, Any]


Script = Callable[[dict[str, Any]], Reply]
"""Returns the reply to the body of a request."""


class ScriptedServer:
    """Answers by a script, and records the requests."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.release = threading.Event()
        """Set when the test is over."""
        self.dead = False
        """Hangs up on every client, as a process that was killed does."""
        self.pieces: list[bytes | None] = []
        """Sent one by one as server-sent events, in place of the script; at None until the test is over nothing."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer({})

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: dict[str, Any]) -> None:
                service.requests.append(Request(self.path, self.headers["Authorization"], body))
                if service.dead:
                    self.close_connection = True
                    return
                if service.pieces:
                    _stream(self, service.pieces, service.release)
                    return
                content, status, headers = service.script(body)
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                # A client that gave up waiting has hung up.
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Return the bodies of all requests, in order."""
        return [request.body for request in self.requests]


def _stream(handler: BaseHTTPRequestHandler, pieces: Sequence[bytes | None], release: threading.Event) -> None:
    handler.close_connection = True
    with suppress(BrokenPipeError, ConnectionResetError):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for piece in pieces:
            if piece is None:
                release.wait(60)
            else:
                handler.wfile.write(piece)
                handler.wfile.flush()


S = TypeVar("S", bound=ScriptedServer)


@contextmanager
def serving(service: S) -> Iterator[S]:
    """Run a server for one test."""
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        service.release.set()
        service.server.shutdown()
        thread.join()
        service.server.server_close()
