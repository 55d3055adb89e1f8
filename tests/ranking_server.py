"""A small ranking service on the loopback interface that says what a test tells it to."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """What goes over the wire."""

    status: int
    content: Any
    """An object that becomes JSON, or bytes as they are."""
    headers: Mapping[str, str] = {}


def lengths(texts: list[str]) -> list[tuple[int, float]]:
    """Score texts by how long they are, best first, as services do."""
    return sorted(((index, len(text) / 100) for index, text in enumerate(texts)), key=lambda each: -each[1])


def tei(body: dict[str, Any]) -> Reply:
    """Answer as text-embeddings-inference does."""
    return Reply(200, [{"index": index, "score": score} for index, score in lengths(body["texts"])])


def cohere(body: dict[str, Any]) -> Reply:
    """Answer as Cohere does."""
    results = [{"index": index, "relevance_score": score} for index, score in lengths(body["documents"])]
    return Reply(200, {"id": "1", "results": results, "meta": {"api_version": {"version": "2"}}})


def vertex(body: dict[str, Any]) -> Reply:
    """Answer as Vertex AI does."""
    texts = [record["content"] for record in body["records"]]
    return Reply(
        200, {"records": [{"id": body["records"][index]["id"], "score": score} for index, score in lengths(texts)]}
    )


class RankingServer:
    """Answers by a script, and remembers what it was asked: path, authorization, body."""

    def __init__(self, reply: Callable[[dict[str, Any]], Reply]) -> None:
        self.reply = reply
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []
        self.release = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append((self.path, self.headers["Authorization"], body))
                status, content, headers = service.reply(body)
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                # Who gave up waiting has hung up.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def hang_on(self, query: str) -> None:
        """Let calls with this query wait until the test is over."""
        usual = self.reply

        def reply(body: dict[str, Any]) -> Reply:
            if body["query"] == query:
                self.release.wait(60)
            return usual(body)

        self.reply = reply


@contextlib.contextmanager
def a_ranking_server(reply: Callable[[dict[str, Any]], Reply]) -> Iterator[RankingServer]:
    """Run a service for one test."""
    service = RankingServer(reply)
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        service.release.set()
        service.server.shutdown()
        thread.join()
        service.server.server_close()
