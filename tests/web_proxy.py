"""An HTTP proxy for tests, which connects to the loopback interface whatever host is named."""

import base64
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.http_server import serving_http

_PIECE_BYTES = 1 << 16


@dataclass
class WebProxy:
    """A proxy that opens tunnels, and passes on requests with whole URLs."""

    asked: list[str] = field(default_factory=list)
    """Method and target of each request."""
    user: str = ""
    """`name:password` that it asks for; empty: it serves everybody."""
    port: int = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def admits(self, authorization: str | None) -> bool:
        """Whether a request may pass."""
        return not self.user or authorization == f"Basic {base64.b64encode(self.user.encode()).decode()}"


@contextmanager
def serving_proxy() -> Iterator[WebProxy]:
    """Run a proxy until the end of the block."""
    proxy = WebProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not self._enter():
                return
            target = urlsplit(self.path)
            there = HTTPConnection("127.0.0.1", target.port or 80, timeout=20)
            kept = {name: value for name, value in self.headers.items() if name.lower() != "proxy-authorization"}
            path = target.path + (f"?{target.query}" if target.query else "")
            try:
                there.request("GET", path, headers=kept)
            except OSError:
                self.send_error(502)
                return
            answer = there.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"content-length", "connection", "server", "date"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
            there.close()
            self.close_connection = True

        def do_CONNECT(self) -> None:
            if not self._enter():
                return
            self.close_connection = True
            try:
                there = socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2])), timeout=20)
            except OSError:
                self.send_error(502)
                return
            with there:
                self.send_response(200)
                self.end_headers()
                _pass_on(self.connection, there)

        def _enter(self) -> bool:
            proxy.asked.append(f"{self.command} {self.path}")
            if proxy.admits(self.headers["Proxy-Authorization"]):
                return True
            self.send_response(407)
            self.send_header("Proxy-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with serving_http(Handler) as proxy.port:
        yield proxy


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Pass on bytes in both directions until one side ends."""
    with suppress(OSError):
        while ready := select.select([one, other], [], [], 20)[0]:
            for source in ready:
                piece = source.recv(_PIECE_BYTES)
                if not piece:
                    return
                (other if source is one else one).sendall(piece)
