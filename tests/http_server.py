"""HTTP servers of tests on the loopback interface."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serving_http(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve until the end of the block; yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving_json(
    get: Callable[[], tuple[int, Any]], post: Callable[[str, bytes], tuple[int, Any]] | None = None
) -> Iterator[int]:
    """Serve statuses and JSON until the end of the block; yield the port. post: takes Authorization and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(*get())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._reply(*(post(self.headers["Authorization"], body) if post else (405, {})))

        def _reply(self, status: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with serving_http(Handler) as port:
        yield port
