"""An HTTP proxy for tests, which connects to the loopback interface whatever host is named."""

import base64
import select
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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
            if self._enter():
                _forward(self)

        def do_CONNECT(self) -> None:
            if self._enter():
                _tunnel(self)

        def _enter(self) -> bool:
            self.close_connection = True
            proxy.asked.append(f"{self.command} {self.path}")
            if proxy.admits(self.headers["Proxy-Authorization"]):
                return True
            self.send_error(407)
            return False

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with serving_http(Handler) as proxy.port:
        yield proxy


def _forward(request: BaseHTTPRequestHandler) -> None:
    """Send a request on, and its answer back."""
    target = urlsplit(request.path)
    kept = {name: value for name, value in request.headers.items() if name.lower() != "proxy-authorization"}
    with closing(HTTPConnection("127.0.0.1", target.port or 80, timeout=20)) as there:
        try:
            there.request("GET", target.path + (f"?{target.query}" if target.query else ""), headers=kept)
        except OSError:
            request.send_error(502)
            return
        answer = there.getresponse()
        content = answer.read()
    request.send_response_only(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in {"content-length", "connection"}:
            request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.write(content)


def _tunnel(request: BaseHTTPRequestHandler) -> None:
    """Connect to a port, and pass on bytes in both directions until one side ends."""
    try:
        there = socket.create_connection(("127.0.0.1", int(request.path.rpartition(":")[2])), timeout=20)
    except OSError:
        request.send_error(502)
        return
    request.send_response_only(200)
    request.end_headers()
    here = request.connection
    with there, suppress(OSError):
        while ready := select.select([here, there], [], [], 20)[0]:
            for source in ready:
                piece = source.recv(_PIECE_BYTES)
                if not piece:
                    return
                (there if source is here else here).sendall(piece)
