"""A web site for the tests to crawl."""

import time
from collections.abc import Callable, Iterator, Mapping
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
    sent: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """Path and headers of each request; names as they came."""
    times: list[float] = field(default_factory=list)
    """When each request came, in seconds."""
    port: int = 0
    opens: Callable[[Mapping[str, str]], bool] | None = None
    """Whether a request may see pages; others are led to `/login`."""

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def page(self, path: str, html: str) -> None:
        """Put a page there."""
        self.pages[path] = (200, {"Content-Type": "text/html; charset=utf-8"}, html.encode())

    def clear(self) -> None:
        """Forget all pages and requests, and let everybody in."""
        self.pages.clear()
        self.asked.clear()
        self.sent.clear()
        self.times.clear()
        self.opens = None

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Give what lies at a path."""
        self.asked.append(path)
        self.sent.append((path, headers))
        self.times.append(time.monotonic())
        if self.opens is not None and path not in {"/login", "/robots.txt"} and not self.opens(headers):
            return (302, {"Location": f"/login?next={path}"}, b"")
        return self.pages.get(path, (404, {}, b"not here"))


@contextmanager
def serving() -> Iterator[WebSite]:
    """Serve a site until the end of the block."""
    site = WebSite()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = site.answer(self.path, dict(self.headers))
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
