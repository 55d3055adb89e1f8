"""Secrets show in nothing that people or other programs read."""

import base64
import json
import logging
import subprocess
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from pydantic import BaseModel, SecretStr

from freki.infra.http.credentials import split_credentials
from freki.infra.kafka import KafkaProducer
from freki.infra.kafka.connection import ssl_context
from freki.infra.kafka.tokens import Tokens
from freki.infra.llm import client
from freki.infra.llm.client import LlmClient
from freki.infra.milvus.store import MilvusStore
from freki.infra.models.remote.service import EmbeddingService
from freki.infra.ocr import ServiceOcr
from freki.infra.processes import child
from freki.infra.processes.environment import without_settings
from freki.infra.registry import RegistryClient
from freki.infra.rerankers.remote import RemoteReranker
from freki.infra.rerankers.vertex import VertexReranker
from freki.infra.settings import CrawlSettings, LlmSettings, OAuthSettings, Settings, TelemetrySettings
from freki.infra.settings.inspect import given
from freki.infra.settings.read import WrongSettings, read_settings
from freki.infra.sources.web import Guard, Login, WebClient, read_headers
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.logs import set_up_logging
from freki.schemas import Prompt
from freki.schemas.errors import InfraError, Unavailable
from freki.schemas.index import RerankPair
from freki.schemas.masking import MASK, masked

MARKER = "hush-Zm9v/s3cr3t#mark"
ENCODED = quote(MARKER, safe="")
CLOSED = "127.0.0.1:9"
"""Nothing listens at the port of the discard protocol."""
PAIRS = [RerankPair(query="q", heading="", text="t")]

pytestmark = pytest.mark.usefixtures("folder")


def settings_of(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_of(field.annotation, (*path, name))
        else:
            yield (*path, name), field.annotation


SECRETS = [path for path, kind in settings_of(Settings) if kind == SecretStr | None]
URLS = [
    path
    for path, kind in settings_of(Settings)
    if kind in (str, str | None) and path[-1].endswith(("url", "uri", "endpoint", "jwks"))
]


def variable(path: tuple[str, ...]) -> str:
    return "FREKI_" + "__".join(path).upper()


def hidden(text: str) -> None:
    """Assert that text holds the marker in no form."""
    assert MARKER not in text
    assert ENCODED not in text
    assert base64.b64encode(f"user:{MARKER}".encode()).decode() not in text


def test_a_setting_that_is_called_like_a_secret_is_one() -> None:
    called = [
        path
        for path, _ in settings_of(Settings)
        if path[-1].endswith(("password", "secret", "token", "api_key", "credentials", "headers"))
    ]

    assert called == SECRETS


@pytest.mark.parametrize("path", SECRETS, ids=variable)
def test_a_secret_is_masked_wherever_settings_are_shown(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(path), MARKER)
    # Others of its section that it is refused without.
    monkeypatch.setenv("FREKI_REGISTRY__USERNAME", "user")
    monkeypatch.setenv("FREKI_CRAWL__PROXY_USER", "user")
    monkeypatch.setenv("FREKI_CRAWL__PROXY_PASSWORD", "other")
    monkeypatch.setenv(variable(path), MARKER)
    settings = read_settings()

    shown = given(settings, read=settings)

    assert MASK in [each.value for each in shown]
    hidden(f"{shown} {settings!r} {settings} {settings.model_dump_json()} {settings.model_dump()}")


@pytest.mark.parametrize("path", URLS, ids=variable)
def test_credentials_in_an_address_are_masked_wherever_settings_are_shown(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(path), f"https://user:{ENCODED}@127.0.0.1/x?api_key={ENCODED}")
    for name, value in {"AUTH__ISSUER": "i", "AUTH__AUDIENCE": "a", "KAFKA__OAUTH__CLIENT_ID": "c"}.items():
        monkeypatch.setenv(f"FREKI_{name}", value)
    monkeypatch.setenv("FREKI_KAFKA__OAUTH__CLIENT_SECRET", "other")
    monkeypatch.setenv("FREKI_ENCRYPTION__KEYS", "none")
    if path != ("auth", "jwks"):
        monkeypatch.setenv("FREKI_AUTH__JWKS", "keys.json")
    settings = read_settings()

    hidden(f"{given(settings, read=settings)} {settings!r} {settings}")


@pytest.mark.parametrize("path", SECRETS, ids=variable)
@pytest.mark.parametrize("wrong", ['{"%s": ["%s"]}', '{"%s": "%s", "zzz": 1}', '{"%s": "%s"'])
def test_settings_that_are_refused_do_not_repeat_a_secret(
    wrong: str, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(path[:-1]), wrong % (path[-1], MARKER))

    with pytest.raises(WrongSettings) as refused:
        read_settings()

    hidden("".join(traceback.format_exception(refused.value)))


class Echo:
    """A server that repeats the credentials of each request, plain and decoded."""

    def __init__(self, status: int) -> None:
        self.asked = 0
        echo = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                echo.asked += 1
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                sent = self.headers.get("Authorization", "")
                scheme, _, value = sent.partition(" ")
                plain = base64.b64decode(value).decode() if scheme == "Basic" else ""
                raw = json.dumps({"message": f"wrong: {sent} {plain}", "id": [sent, plain]}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST  # noqa: N815 - its name in the library

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a language model again at once, with all the time that a busy machine takes to answer."""
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(client, "_LONGEST_WAIT_S", 0.0)


Provoke = Callable[[str], Awaitable[object]]


async def ask_llm(url: str, **given: Any) -> None:
    named = LlmSettings(url=url, model="m", **given)
    async with LlmClient(named, Calls()) as client:
        (answer,) = await client.complete([Prompt(system="s", user="u")], max_tokens=1)
    raise Unavailable(getattr(answer, "reason", ""))


async def ask_registry(place: str) -> None:
    named = settings(registry={"url": f"http://{place}", "username": "user", "password": MARKER}).registry
    async with RegistryClient(named) as client:
        await client._registered("/subjects/t", "{}")


async def read_scan(url: str, **given: Any) -> None:
    await ServiceOcr(settings(ocr={"url": url, **given}).ocr).read(b"scan", "image/png")
    # Whatever is answered is text, which is parsed and not shown.
    raise Unavailable("it answered")


async def embed(url: str, **given: Any) -> None:
    given = {"model": "m", "dim": 2, "attempts": 1, **given}
    async with EmbeddingService(settings(models={"remote": {"url": url, **given}}).models.remote):
        raise AssertionError("nothing listens there")


async def rerank(reranker: RemoteReranker | VertexReranker) -> None:
    async with reranker:
        await reranker.score(PAIRS, budget_s=None)


async def fetch_token(place: str, user_info: str = "") -> None:
    oauth = {"token_url": f"http://{user_info}{place}", "client_id": "user", "client_secret": MARKER}
    Tokens(OAuthSettings.model_validate(oauth)).get()


async def open_kafka(place: str, password: str = MARKER) -> None:
    kafka = {"bootstrap": place, "security": "SASL_PLAINTEXT", "username": "user", "password": password}
    async with KafkaProducer(settings(kafka={**kafka, "delivery_timeout_s": 1}).kafka):
        raise AssertionError("nothing listens there")


def sealed_key() -> str:
    """Write a private key that another password opens."""
    key = ec.generate_private_key(ec.SECP256R1())
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"another"))
    Path("key.pem").write_bytes(sealed)
    return "key.pem"


async def open_key(_: str) -> None:
    files = {"cert_file": sealed_key(), "key_file": "key.pem", "key_password": MARKER}
    ssl_context(settings(kafka={"security": "SSL", **files}).kafka)


async def open_milvus(uri: str, **given: Any) -> None:
    store = MilvusStore(settings(milvus={"uri": uri, "timeout_s": 1, **given}).milvus, None, Calls())
    store.open()
    try:
        await store.identify()
    finally:
        await store.close()


def remote(url: str, **given: Any) -> RemoteReranker:
    return RemoteReranker(settings(remote_reranker={"url": url, **given}).remote_reranker)


def vertex(url: str, **given: Any) -> VertexReranker:
    return VertexReranker(
        settings(vertex_reranker={"url": url, "project": "p", "token": "other", **given}).vertex_reranker
    )


async def crawl(place: str, *, by_proxy: bool) -> None:
    url = f"http://{place}/"
    proxy = {"proxy": url, "proxy_user": "user", "proxy_password": MARKER} if by_proxy else {}
    given = CrawlSettings.model_validate({"timeout_s": 6, **proxy})
    login = Login(read_headers([f"X-Key: {MARKER}"], origins=[url.rstrip("/")], place="--header"))
    async with WebClient(given, Guard(["127.0.0.1"]), None if by_proxy else login) as client:
        answer = await client.get(url, headers={}, max_bytes=1)
    # A page is not quoted, whatever it repeats.
    raise Unavailable(f"{answer.status}")


CLIENTS: dict[tuple[str, ...], Provoke] = {
    ("kafka", "key_password"): open_key,
    ("kafka", "password"): open_kafka,
    ("kafka", "oauth", "client_secret"): fetch_token,
    ("registry", "password"): ask_registry,
    ("milvus", "token"): lambda place: open_milvus(f"http://{place}", token=f"user:{MARKER}"),
    ("remote_reranker", "token"): lambda place: rerank(remote(f"http://{place}", token=MARKER)),
    ("vertex_reranker", "token"): lambda place: rerank(vertex(f"http://{place}", token=MARKER)),
    ("ocr", "token"): lambda place: read_scan(f"http://{place}", token=MARKER),
    ("models", "remote", "token"): lambda place: embed(f"http://{place}", token=MARKER),
    ("crawl", "headers"): lambda place: crawl(place, by_proxy=False),
    ("crawl", "proxy_password"): lambda place: crawl(place, by_proxy=True),
    ("llm", "api_key"): lambda place: ask_llm(f"http://{place}/v1", api_key=MARKER),
}
"""Calls with a marked secret that fail."""
IN_URL: dict[str, Provoke] = {
    "llm": lambda place: ask_llm(f"http://user:{ENCODED}@{place}/v1?token={ENCODED}"),
    "remote_reranker": lambda place: rerank(remote(f"http://user:{ENCODED}@{place}")),
    "vertex_reranker": lambda place: rerank(vertex(f"http://user:{ENCODED}@{place}")),
    "ocr": lambda place: read_scan(f"http://user:{ENCODED}@{place}"),
    "embedder": lambda place: embed(f"http://user:{ENCODED}@{place}"),
    "milvus": lambda place: open_milvus(f"http://user:{ENCODED}@{place}"),
    "oauth": lambda place: fetch_token(place, f"user:{ENCODED}@"),
}
"""Calls to an address with a marked password that fail."""
WITHOUT_HTTP = {"kafka-key_password", "kafka-password", "milvus-token", "milvus"}
CALLS = {"-".join(path): call for path, call in CLIENTS.items()} | IN_URL


def test_every_secret_has_a_call_that_fails() -> None:
    # `freki mcp` compares this one with what its clients send, and sends it nowhere.
    assert {*CLIENTS, ("mcp", "token")} == set(SECRETS)


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """Log as workers do at the most talkative level; return what was logged."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers, root.level
    set_up_logging(TelemetrySettings(log_level="DEBUG"))
    yield lambda: capfd.readouterr().err
    root.handlers, root.level = handlers, level
    structlog.configure(**before)


async def told(call: Provoke, place: str, log: Callable[[], str]) -> str:
    """Provoke an error; return its message, its traceback with all causes, and the log."""
    with pytest.raises(Exception) as failed:  # noqa: PT011 - every client has its own
        await call(place)
    assert not isinstance(failed.value, AssertionError)
    logging.getLogger("library").error("failed", exc_info=failed.value)
    return f"{failed.value} {failed.value!r} {''.join(traceback.format_exception(failed.value))} {log()}"


@pytest.mark.parametrize("name", CALLS)
async def test_who_cannot_be_reached_is_told_without_credentials(name: str, log: Callable[[], str]) -> None:
    hidden(await told(CALLS[name], CLOSED, log))


@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("name", sorted(CALLS.keys() - WITHOUT_HTTP))
async def test_a_server_that_repeats_credentials_is_quoted_without_them(
    name: str, status: int, log: Callable[[], str]
) -> None:
    echo = Echo(status)
    with echo.serving():
        hidden(await told(CALLS[name], echo.place, log))
    assert echo.asked


@pytest.mark.parametrize("name", ["llm", "remote_reranker", "vertex_reranker"])
async def test_a_password_that_should_have_been_encoded_is_not_quoted_in_parts(
    name: str, log: Callable[[], str]
) -> None:
    calls: dict[str, Provoke] = {
        "llm": ask_llm,
        "remote_reranker": lambda url: rerank(remote(url)),
        "vertex_reranker": lambda url: rerank(vertex(url)),
    }

    text = await told(calls[name], f"http://user:{MARKER}@{CLOSED}", log)

    assert all(part not in text for part in ("hush-Zm9v", "s3cr3t"))


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_log_line_of_any_library_has_no_credentials_of_addresses(log_format: Any, log: Callable[[], str]) -> None:
    set_up_logging(TelemetrySettings(log_format=log_format))
    cause = httpx.HTTPError(f"for url 'https://user:{ENCODED}@host/x?sig={ENCODED}'")

    logging.getLogger("library").error("no: %s", f"amqp://user:{ENCODED}@host", exc_info=cause)
    structlog.get_logger("own").error("no", place=f"redis://:{ENCODED}@host/0")

    lines = log()
    hidden(lines)
    assert lines.count(MASK) == 4


def test_the_command_line_of_a_child_process_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in SECRETS:
        monkeypatch.setenv(variable(path), MARKER)
    parser = child._Child()
    try:
        hidden(Path(f"/proc/{parser._process.pid}/cmdline").read_text(encoding="utf-8"))
    finally:
        parser.kill()
        parser.close()


def test_a_process_that_parses_documents_has_no_settings_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in SECRETS:
        monkeypatch.setenv(variable(path), MARKER)
    asked = [sys.executable, "-c", "import os; print(*os.environ.items())"]

    printed = subprocess.run(asked, env=without_settings(), check=True, capture_output=True, text=True).stdout

    hidden(printed)
    assert "PATH" in printed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://a:b@c/d at e@f", f"https://{MASK}@c/d at e@f"),
        ("https://a:b@x@c", f"https://{MASK}@c"),
        ("https://c/@d", "https://c/@d"),
        ("https://c?x=1&api_key=k&y=2", f"https://c?x=1&api_key={MASK}&y=2"),
        ("https://c?X-Amz-Signature=k", f"https://c?X-Amz-Signature={MASK}"),
        ("a@b: token=c", "a@b: token=c"),
        ("kafka://a:b@c, kafka://d:e@f", f"kafka://{MASK}@c, kafka://{MASK}@f"),
    ],
)
def test_only_credentials_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert str(InfraError(text)) == shown


def test_credentials_of_an_address_still_reach_its_server() -> None:
    url, auth = split_credentials(f"http://user:{ENCODED}@host:80/v1")

    assert url == "http://host/v1"
    assert auth is not None
    request = next(auth.auth_flow(httpx.Request("GET", url)))
    assert request.headers["Authorization"] == httpx.BasicAuth("user", MARKER)._auth_header
    assert split_credentials("http://host/v1/") == ("http://host/v1/", None)
