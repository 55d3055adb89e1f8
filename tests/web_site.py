"""A web site for the tests to crawl."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.http_server import serving_http

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class WebSite:
    """A server on the loopback interface."""

    pages: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def page(self, path: str, html: str) -> None:
        """Put a page there."""
        self.pages[path] = (200, {"Content-Type": "text/html; charset=utf-8"}, html.encode())

    def answer(self, path: str) -> Answer:
        """Give what lies at a path."""
        self.asked.append(path)
        return self.pages.get(path, (404, {}, b"not here"))


@contextmanager
def serving() -> Iterator[WebSite]:
    """Serve a site until the end of the block."""
    site = WebSite()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = site.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with serving_http(Handler) as site.port:
        yield site
