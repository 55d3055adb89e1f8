"""A schema registry in memory with the part of Confluent's REST interface that clients need."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NO_SUBJECT = (404, {"error_code": 40401, "message": "Subject not found."})
_NO_SCHEMA = (404, {"error_code": 40403, "message": "Schema not found"})
_INCOMPATIBLE = (409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"})
_UNAUTHORISED = (401, {"error_code": 401, "message": "Unauthorized"})
_FORBIDDEN = (403, {"error_code": 40301, "message": "User may not write"})

Answer = tuple[int, Any]


class RegistryServer(ThreadingHTTPServer):
    """Keeps schemas by id, and for each subject the ids of its versions; the same schema has one id everywhere."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.account: str | None = None
        """`name:password` that is asked for."""
        self.read_only = False
        self.frozen = False
        """Every schema is incompatible with what a subject has."""
        self.broken: Answer | None = None
        """The answer to everything."""
        self.broken_paths: dict[str, Answer] = {}
        """The answers to some paths."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, subject: str, schema: str) -> int:
        """Register a schema, as anybody else would."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        schema_id = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, account: str | None, body: Any) -> Answer:
        if broken := self.broken or self.broken_paths.get(path):
            return broken
        if account != self.account:
            return _UNAUTHORISED
        routes: list[tuple[str, str, Callable[..., Answer]]] = [
            ("POST", r"/subjects/([^/]+)", self._look_up),
            ("POST", r"/subjects/([^/]+)/versions", self._register),
            ("GET", r"/subjects/([^/]+)/versions", self._versions),
            ("GET", r"/subjects/([^/]+)/versions/(\d+)", self._version),
            ("GET", r"/schemas/ids/(\d+)", self._schema),
            ("GET", r"/subjects", lambda: (200, sorted(self.subjects))),
        ]
        for route_method, pattern, route in routes:
            match = re.fullmatch(pattern, path)
            if match and method == route_method:
                return route(*match.groups(), *([body["schema"]] if method == "POST" else []))
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _look_up(self, subject: str, schema: str) -> Answer:
        if subject not in self.subjects:
            return _NO_SUBJECT
        known = [schema_id for schema_id in self.subjects[subject] if self.schemas[schema_id - 1] == schema]
        return (200, {"subject": subject, "id": known[0], "version": 1, "schema": schema}) if known else _NO_SCHEMA

    def _register(self, subject: str, schema: str) -> Answer:
        if self.read_only:
            return _FORBIDDEN
        if self.frozen and subject in self.subjects:
            return _INCOMPATIBLE
        return 200, {"id": self.add(subject, schema)}

    def _versions(self, subject: str) -> Answer:
        if subject not in self.subjects:
            return _NO_SUBJECT
        return 200, list(range(1, len(self.subjects[subject]) + 1))

    def _version(self, subject: str, version: str) -> Answer:
        schema_id = self.subjects[subject][int(version) - 1]
        schema = self.schemas[schema_id - 1]
        return 200, {"subject": subject, "id": schema_id, "version": int(version), "schema": schema}

    def _schema(self, schema_id: str) -> Answer:
        known = 1 <= int(schema_id) <= len(self.schemas)
        return (200, {"schema": self.schemas[int(schema_id) - 1]}) if known else _NO_SCHEMA


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        authorization = self.headers.get("Authorization")
        account = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else None
        status, answer = self.server.answer(self.command, self.path, account, body)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextmanager
def running_registry() -> Iterator[RegistryServer]:
    """Run a registry on a free port."""
    with RegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
