"""A small server with OpenAI's chat interface that says what a test tells it to."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

CHUNK = re.compile(r"<chunk>\n(?:(\d+)\. )?(.*?)\n</chunk>", re.DOTALL)


class Reply(NamedTuple):
    """What goes over the wire."""

    content: Any
    """An object that becomes JSON, or bytes as they are."""
    status: int = 200
    headers: Mapping[str, str] = {}


Script = Callable[[dict[str, Any]], Reply]


def says(text: str | None, **usage: Any) -> Reply:
    """Answer with a text."""
    counted = {"usage": {"prompt_tokens": 100, "completion_tokens": 10, **usage}}
    return Reply({"choices": [{"message": {"role": "assistant", "content": text}}], **counted})


def asked_of(body: Mapping[str, Any]) -> str:
    """Give what the user says in a request."""
    return str(body["messages"][-1]["content"])


def situates(body: Mapping[str, Any]) -> Reply:
    """Write a line for each chunk of a request, which names its last words; a summary where none is numbered."""
    numbered = [(number, text) for number, text in CHUNK.findall(asked_of(body)) if number]
    if not numbered:
        return says("Eine Zusammenfassung, die von der Satzung der Fischereigenossenschaft handelt.")
    return says(
        "\n".join(f"{number}: Diese Stelle der Satzung handelt von {words(text)}." for number, text in numbered)
    )


def words(text: str) -> str:
    """Give the last words of a chunk."""
    return " ".join(text.rstrip(" .").split()[-3:])


class LlmServer:
    """Answers by a script, and remembers what it was asked."""

    def __init__(self) -> None:
        self.script: Script = situates
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.release = threading.Event()
        self.dead = False
        """Hangs up on whoever asks, as a process that was killed does."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append({"path": self.path, **body})
                service.keys.append(self.headers["Authorization"])
                if service.dead:
                    self.close_connection = True
                    return
                content, status, headers = service.script(body)
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                # Who gave up waiting has hung up.
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def stalls(self, _: Mapping[str, Any]) -> Reply:
        """Let a call wait until the test is over."""
        self.release.wait(60)
        return says("zu spät")


@contextmanager
def an_llm_server() -> Iterator[LlmServer]:
    """Run a server for one test."""
    service = LlmServer()
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        service.release.set()
        service.server.shutdown()
        thread.join()
        service.server.server_close()
