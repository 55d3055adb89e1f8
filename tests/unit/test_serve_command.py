"""Both APIs of `freki serve` start, and stop, together."""

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from freki.cli import serve
from freki.infra import timed_requests
from freki.infra.api.callers import Callers
from freki.infra.api.certificate import Certificate, open_certificate
from freki.infra.grpc_server.server import GrpcServer
from freki.infra.settings import ServeSettings
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.proto.freki.v1 import freki_pb2
from tests.http_api import SIZES, InProcess, app_of
from tests.kafka.certificates import Authority
from tests.unit.questions import TEXTS
from tests.unit.revisions import TENANT, World, revision


class Gateway(InProcess):
    """Breaks when it is told to."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.breaks = asyncio.Event()

    async def broken(self) -> None:
        await self.breaks.wait()
        raise Unavailable("the broker is gone")


@asynccontextmanager
async def serving(
    capsys: pytest.CaptureFixture[str], certificate: Certificate | None = None, **given: Any
) -> AsyncIterator[tuple[Gateway, str, str, "asyncio.Task[None]"]]:
    """Run both APIs; give the gateway, the addresses of HTTP and gRPC, and what ends when they do."""
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    gateway: Any = Gateway(world)
    settings = ServeSettings(port=0, grpc_port=0, **given)
    callers = Callers(settings, None)
    app = app_of(gateway, callers=callers, port=0, grpc_port=0, **given)
    server = GrpcServer(gateway, settings, tenant=TENANT, callers=callers, sizes=SIZES, certificate=certificate)
    await serve._start_grpc(server, settings)
    running = asyncio.create_task(serve._run(app, settings, gateway, certificate, server))
    said = ""
    while (url := re.search(r"serving at (https?://\S+)/ ", said)) is None:
        await asyncio.sleep(0.01)
        said += capsys.readouterr().err
    at = re.search(r"gRPC at (\S+)", said)
    assert at is not None
    try:
        yield gateway, url[1], at[1], running
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)


async def test_calls_under_way_at_both_doors_are_answered_before_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(capsys) as (gateway, url, address, running):
        gateway.go_on.clear()
        async with httpx.AsyncClient(base_url=url, timeout=60) as client, grpc.aio.insecure_channel(address) as channel:
            method = channel.unary_unary(
                "/freki.v1.Freki/RetrieveContext",
                freki_pb2.RetrieveContextRequest.SerializeToString,
                freki_pb2.ContextResult.FromString,
            )
            asked = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text=TEXTS[0]))
            over_http = asyncio.create_task(client.post("/v1/queries", json={"text": TEXTS[0]}))
            over_grpc = asyncio.ensure_future(method(asked))
            while len(gateway.asked) < 2:  # noqa: ASYNC110 - of two callers
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            assert not running.done()
            gateway.go_on.set()

            assert (await over_http).status_code == 200
            assert (await over_grpc).hits
        await running


@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)])
async def test_only_a_trusted_proxy_says_who_called_it(
    capsys: pytest.CaptureFixture[str], trusted: tuple[str, ...]
) -> None:
    async with serving(capsys, calls_per_minute=1, trusted_proxies=trusted) as (_, url, address, running):
        deleted = freki_pb2.DeleteDocumentRequest(document_id="a").SerializeToString()
        statuses: list[object] = []
        async with httpx.AsyncClient(base_url=url, timeout=60) as client, grpc.aio.insecure_channel(address) as channel:
            for number in range(2):
                headers = {"X-Forwarded-For": f"203.0.113.{number}"}
                statuses.append((await client.delete("/v1/documents/a", headers=headers)).status_code)
            try:
                forwarded = (("x-forwarded-for", "203.0.113.2"),)
                await channel.unary_unary("/freki.v1.Freki/DeleteDocument")(deleted, metadata=forwarded)
                statuses.append(grpc.StatusCode.OK)
            except grpc.aio.AioRpcError as error:
                statuses.append(error.code())
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    refused: list[object] = [200, 429, grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert statuses == ([200, 200, grpc.StatusCode.OK] if trusted else refused)


async def test_a_server_whose_receipts_are_not_read_any_more_ends(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(capsys) as (gateway, url, address, running):
        gateway.breaks.set()

        with pytest.raises(Unavailable, match="the broker is gone"):
            await running
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(url)
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")


async def test_a_port_that_is_taken_is_refused_with_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    gateway: Any = Gateway(World())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ServeSettings(port=taken.getsockname()[1], grpc_port=None)
        app = app_of(gateway, callers=Callers(settings, None), port=settings.port, grpc_port=None)

        with pytest.raises(Misconfigured, match=f"127.0.0.1:{settings.port}; is the port taken.*FREKI_SERVE__PORT"):
            await serve._run(app, settings, gateway, None, None)
    assert "serving at" not in capsys.readouterr().err


def test_a_certificate_that_cannot_be_used_is_refused_with_the_settings(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    locked = authority.pair("locked", password="secret")  # noqa: S106 - of a test
    for key in (tmp_path / "missing.key", authority.pair("other").key, locked.key):
        settings = ServeSettings(port=0, grpc_port=None, cert_file=locked.certificate, key_file=key)

        with pytest.raises(Misconfigured, match="FREKI_SERVE__CERT_FILE"):
            open_certificate(settings)


async def test_a_renewed_certificate_is_served_by_both_doors_once_it_can_be_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, link = tmp_path / "live", tmp_path / "live" / "data"
    folder.mkdir()
    authority = Authority(tmp_path, "authority")
    first, renewed = authority.pair("first"), authority.pair("renewed")
    versions = {name: folder / name for name in ("1", "2", "broken")}
    for name, certificate, key in (
        ("1", first.certificate, first.key),
        ("broken", renewed.certificate, first.key),
        ("2", renewed.certificate, renewed.key),
    ):
        versions[name].mkdir()
        (versions[name] / "tls.crt").write_bytes(certificate.read_bytes())
        (versions[name] / "tls.key").write_bytes(key.read_bytes())
    link.symlink_to(versions["1"])
    settings = ServeSettings(port=0, grpc_port=0, cert_file=link / "tls.crt", key_file=link / "tls.key")
    opened = open_certificate(settings)
    assert opened is not None

    async with serving(capsys, opened) as (_, url, address, running):
        ports = [int(each.rpartition(":")[2]) for each in (url, address)]
        served = [[await subject_at(port, authority) for port in ports]]
        for name in ("broken", "2"):
            (folder / "next").symlink_to(versions[name])
            (folder / "next").rename(link)
            opened.look()
            served.append([await subject_at(port, authority) for port in ports])
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    assert served == [["first"] * 2, ["first"] * 2, ["renewed"] * 2]


async def subject_at(port: int, authority: Authority) -> str:
    """Return the common name of the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=authority.file)
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    subject = dict(part[0] for part in writer.get_extra_info("peercert")["subject"])
    writer.close()
    return str(subject["commonName"])


HEADERS = b"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 40\r\n"
HALVES = {"nothing": b"", "headers": b"GET /health HTT", "body": HEADERS + b"\r\n{"}


@pytest.mark.parametrize("sent", HALVES.values(), ids=HALVES)
async def test_a_connection_whose_request_does_not_arrive_is_closed(
    sent: bytes, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else anybody could use up the open files of the process."""
    monkeypatch.setattr(timed_requests, "PATIENCE_S", 0.05)
    async with serving(capsys) as (_, url, _, running):
        reader, writer = await asyncio.open_connection(httpx.URL(url).host, httpx.URL(url).port)
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        writer.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    assert caplog.records == []


async def test_who_asks_for_another_protocol_is_answered_in_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Else anybody could fill the log with advice to install what would take its connections over."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "a", "Sec-WebSocket-Version": "13"}
    async with serving(capsys) as (_, url, _, running):
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/health", headers=headers)).status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    assert capsys.readouterr().err == ""


async def _send(writer: asyncio.StreamWriter, piece: bytes) -> None:
    # More than the buffers of the system hold.
    for _ in range(500):
        writer.write(piece)
        await writer.drain()


CHUNKED = b"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
TOO_LONG = HEADERS.replace(b": 40", b": 1000000000000000") + b"\r\n"


@pytest.mark.parametrize(("head", "status"), [(CHUNKED, b"411"), (TOO_LONG, b"413")], ids=["chunked", "too-long"])
async def test_a_body_that_was_refused_is_not_read_without_end(
    head: bytes, status: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends fast enough could keep the process busy, with one connection and no token."""
    piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    monkeypatch.setattr(timed_requests, "MOST_UNWANTED_BYTES", 4 * len(piece))
    async with serving(capsys) as (_, url, _, running):
        reader, writer = await asyncio.open_connection(httpx.URL(url).host, httpx.URL(url).port)
        writer.write(head)
        answered = await reader.readuntil(b"\r\n\r\n")
        # What a client sends before it reads the answer may be as much.
        writer.write(piece * 3)
        await writer.drain()
        with pytest.raises(ConnectionError):
            await _send(writer, piece)
        writer.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    assert answered.startswith(b"HTTP/1.1 " + status)


class Time:
    """The loop of a connection, with a time that passes as the test says."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now_s = 0.0
        self._timers: list[asyncio.TimerHandle] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._now_s

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        self._timers.append(asyncio.TimerHandle(self._now_s + delay_s, callback, args, self._loop))
        return self._timers[-1]

    def pass_by(self, seconds: float) -> None:
        self._now_s += seconds
        due = [each for each in self._timers if each.when() <= self._now_s]
        self._timers = [each for each in self._timers if each not in due]
        for each in due:
            if not each.cancelled():
                each._run()


def connections_in_time(monkeypatch: pytest.MonkeyPatch) -> tuple[Time, list[asyncio.Transport]]:
    """Let the time of connections pass as a test says; give it, and the connections that are made."""
    time, made = Time(asyncio.get_running_loop()), []
    make = timed_requests.TimedRequests.connection_made

    def in_time(protocol: timed_requests.TimedRequests, transport: asyncio.Transport) -> None:
        made.append(transport)
        protocol.loop = time  # type: ignore[assignment] # as far as it is used
        make(protocol, transport)

    monkeypatch.setattr(timed_requests.TimedRequests, "connection_made", in_time)
    return time, made


async def test_a_request_that_comes_slowly_but_steadily_is_answered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_requests, "SLOWEST", 1)
    (time, _), arrived = connections_in_time(monkeypatch), asyncio.Event()
    receive = timed_requests.TimedRequests.data_received

    def received(protocol: timed_requests.TimedRequests, data: bytes) -> None:
        receive(protocol, data)
        arrived.set()

    monkeypatch.setattr(timed_requests.TimedRequests, "data_received", received)
    body = json.dumps({"text": TEXTS[0]}).encode()
    assert len(body) / 2 > timed_requests.PATIENCE_S

    async def slowly() -> AsyncIterator[bytes]:
        for byte in body:
            time.pass_by(0.5)
            arrived.clear()
            yield bytes([byte])
            await arrived.wait()

    async with serving(capsys) as (_, url, _, running):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            for _ in range(2):
                assert (await client.post("/v1/queries", content=slowly(), headers=headers)).status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def test_a_connection_outlives_the_time_for_which_proxies_keep_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that meets the end of its connection fails, and whoever waits longer is the one that meets it."""
    time, made = connections_in_time(monkeypatch)
    google_cloud_s = 600
    async with serving(capsys) as (_, url, _, running):
        async with httpx.AsyncClient(base_url=url, limits=httpx.Limits(keepalive_expiry=None), timeout=60) as client:
            await client.get("/health")
            time.pass_by(google_cloud_s)
            await client.get("/health")
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    assert len(made) == 1


async def test_a_connection_whose_client_reads_no_answer_is_closed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages and the description of the API need no token."""
    monkeypatch.setattr(timed_requests, "UNREAD_S", 0.05)
    is_lost = asyncio.Event()
    lose = timed_requests.TimedRequests.connection_lost

    def lost(protocol: timed_requests.TimedRequests, error: Exception | None) -> None:
        lose(protocol, error)
        is_lost.set()

    monkeypatch.setattr(timed_requests.TimedRequests, "connection_lost", lost)
    async with serving(capsys) as (_, url, _, running):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect((httpx.URL(url).host, httpx.URL(url).port))
            # More than the buffers of the system hold.
            client.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500)
            async with asyncio.timeout(60):
                await is_lost.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await running


def test_the_process_may_open_as_many_files_as_the_system_lets_it() -> None:
    """The usual limit of 1,024 is one of connections too, and then nobody is let in."""
    program = """\
import resource
from freki.infra.listening import raise_open_files

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
raise_open_files()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
