"""The gRPC API, with a real server and client: what it sends on, what it refuses, and how it says so."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from freki.client.exchange import AlreadyAsked, NotSent
from freki.infra.api.callers import Callers
from freki.infra.api.certificate import open_certificate
from freki.infra.api.sizes import QuerySizes
from freki.infra.grpc_server import calls
from freki.infra.grpc_server.server import GrpcServer
from freki.infra.grpc_server.unauthenticated import MOST_OPEN
from freki.infra.settings import ServeSettings
from freki.infra.tokens.verifier import MAX_BYTES
from freki.schemas import Operation, OutcomeStatus, ResultStatus, Widening
from freki.schemas.avro import UndecodableError, UnencodableError
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.limits import LIMIT
from freki.schemas.proto.freki.v1 import freki_pb2, wolf_pb2
from tests.http_api import ADA, SIZES, InProcess, app_of, identify
from tests.kafka.certificates import Authority
from tests.unit.questions import TEXTS, Broken
from tests.unit.revisions import TENANT, World

TEXT = TEXTS[0]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GOOD = (("authorization", "Bearer good"),)
NO_MESSAGES: tuple[bytes, ...] = ()
Code = grpc.StatusCode


class Client:
    """Calls methods by their names."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def call(self, method: str, request: Any, response: Any, **how: Any) -> Any:
        return self.channel.unary_unary(f"/freki.v1.{method}", type(request).SerializeToString, response.FromString)(
            request, **how
        )

    def index(self, *, wait_ms: int = 1000, metadata: Any = None, timeout: float | None = None, **document: Any) -> Any:
        request = freki_pb2.IndexDocumentRequest(document=freki_pb2.Document(**document), wait_ms=wait_ms)
        return self.call("Freki/IndexDocument", request, freki_pb2.ChangeResponse, metadata=metadata, timeout=timeout)

    def delete(self, **request: Any) -> Any:
        metadata = request.pop("metadata", None)
        given = freki_pb2.DeleteDocumentRequest(**request)
        return self.call("Freki/DeleteDocument", given, freki_pb2.ChangeResponse, metadata=metadata)

    def ask(self, *, metadata: Any = None, timeout: float | None = None, **query: Any) -> Any:
        request = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(**query))
        return self.call("Freki/RetrieveContext", request, freki_pb2.ContextResult, metadata=metadata, timeout=timeout)

    def stream(self, **query: Any) -> Any:
        request = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(**query))
        return self.channel.unary_stream(
            "/freki.v1.Freki/StreamContext",
            freki_pb2.RetrieveContextRequest.SerializeToString,
            freki_pb2.ContextEvent.FromString,
        )(request)

    def enrich(self, **request: Any) -> Any:
        given = {"request_id": "r1"} | request
        return self.call("Wolf/Enrich", wolf_pb2.WolfRequest(**given), wolf_pb2.WolfResponse)


@pytest.fixture
def gateway(world: World) -> InProcess:
    return InProcess(world)


@asynccontextmanager
async def served(
    gateway: InProcess, *, tokens: bool = False, callers: Callers | None = None, sizes: QuerySizes = SIZES, **given: Any
) -> AsyncIterator[tuple[GrpcServer, str]]:
    settings = ServeSettings(grpc_port=0, **given)
    certificate = open_certificate(settings)
    callers = callers or Callers(settings, identify if tokens else None)
    server = GrpcServer(gateway, settings, tenant=TENANT, callers=callers, sizes=sizes, certificate=certificate)
    try:
        yield server, f"127.0.0.1:{await server.start()}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def connected(gateway: InProcess, **given: Any) -> AsyncIterator[Client]:
    async with served(gateway, **given) as (_, address), grpc.aio.insecure_channel(address) as channel:
        yield Client(channel)


@asynccontextmanager
async def refused(code: grpc.StatusCode) -> AsyncIterator[dict[str, Any]]:
    """Expect a status; give what its details say."""
    told: dict[str, Any] = {}
    with pytest.raises(grpc.aio.AioRpcError) as error:
        yield told
    assert error.value.code() is code, error.value.details()
    told["detail"] = error.value.details()
    for name, value in error.value.trailing_metadata():
        if name == "grpc-status-details-bin":
            for each in Status.FromString(value).details:
                for kind in (ErrorInfo, RetryInfo):
                    detail = kind()
                    if each.Unpack(detail):
                        told[kind.__name__] = detail


async def test_a_connection_without_calls_ends_and_the_next_call_opens_another(
    gateway: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for the next call to begin on its connection before that ends too.
    monkeypatch.setattr("freki.infra.grpc_server.server.MOST_IDLE_MS", 2000)
    async with served(gateway) as (_, address), grpc.aio.insecure_channel(address) as channel:
        await Client(channel).ask(text=TEXT)
        async with asyncio.timeout(60):
            await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        await Client(channel).ask(text=TEXT)

    assert len(gateway.asked) == 2


async def test_a_question_is_answered_with_all_that_the_topic_would_say(gateway: InProcess) -> None:
    condition = {"field": "language", "operator": "FILTER_OPERATOR_NE", "values": ["xx"]}
    async with connected(gateway) as client:
        none = freki_pb2.WideningList()
        result = await client.ask(text=TEXT, top_k=2, filters=[condition], widen=none)
        await client.ask(text=TEXT, widen=freki_pb2.WideningList(values=["WIDENING_SYNONYMS"]))
        await client.ask(text=TEXT)

    assert result.status == freki_pb2.RESULT_STATUS_COMPLETE
    assert result.hits[0].text
    assert result.context
    assert [asked.widen for asked in gateway.asked] == [(), (Widening.SYNONYMS,), None]
    assert gateway.asked[0].filters[0].values == ("xx",)
    assert (gateway.asked[0].top_k, gateway.asked[0].tenant) == (2, TENANT)


async def test_an_empty_tenant_is_not_the_default_one(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.ask(text=TEXT, tenant="")

    assert refused.value.code() is Code.INVALID_ARGUMENT
    assert refused.value.details() == "tenant: it is empty; name one, or leave it out"
    assert gateway.asked == []


async def test_steps_come_first_then_hits_then_the_rest(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        events = [event async for event in client.stream(text=TEXT)]

    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == sorted(kinds, key=["step", "hit", "result"].index)
    assert kinds.count("result") == 1
    assert kinds.count("hit") >= 1
    assert "analyse" in [event.step.stage for event in events if event.HasField("step")]
    assert events[-1].result.context
    assert not events[-1].result.hits


@pytest.mark.parametrize(
    ("ends", "code", "reason"),
    [
        (ResultStatus.REJECTED, Code.INVALID_ARGUMENT, "REJECTED"),
        (ResultStatus.EXPIRED, Code.DEADLINE_EXCEEDED, "EXPIRED"),
        (TimeoutError(), Code.DEADLINE_EXCEEDED, "NO_ANSWER"),
        (NotSent("the broker has not taken it"), Code.UNAVAILABLE, "UNAVAILABLE"),
        (Unavailable("the broker at secret:9092 does not answer"), Code.UNAVAILABLE, "UNAVAILABLE"),
        (Misconfigured("the server may not write to its topic secret"), Code.UNAVAILABLE, "UNAVAILABLE"),
        (Rejected("longer than a record may be"), Code.INVALID_ARGUMENT, "INVALID"),
        (UnencodableError("ContextQuery: top_k must be int"), Code.INVALID_ARGUMENT, "INVALID"),
        (AlreadyAsked("query 1 still waits"), Code.ABORTED, "CONFLICT"),
        (UndecodableError("secret"), Code.INTERNAL, "INTERNAL"),
        (RuntimeError("secret"), Code.INTERNAL, "INTERNAL"),
    ],
)
async def test_each_failure_is_a_status_with_its_reason(
    gateway: InProcess, ends: Any, code: grpc.StatusCode, reason: str
) -> None:
    gateway.ends = ends
    async with connected(gateway) as client:
        async with refused(code) as told:
            await client.ask(text="a")
        async with refused(code):
            async for _ in client.stream(text="a"):
                pass

    assert told["ErrorInfo"].reason == reason
    assert told["ErrorInfo"].domain == "freki"
    assert "secret" not in told["detail"]
    if code is Code.UNAVAILABLE:
        assert told["RetryInfo"].retry_delay.seconds == 1


async def test_what_is_wrong_in_a_request_is_named(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        unknown = freki_pb2.ContextQuery(text="a")
        unknown.fusion = 99  # type: ignore[assignment] # as of a newer client
        async with refused(Code.INVALID_ARGUMENT) as told:
            request = freki_pb2.RetrieveContextRequest(query=unknown)
            await client.call("Freki/RetrieveContext", request, freki_pb2.ContextResult)
        assert "fusion: 99 is no Fusion" in told["detail"]
        async with refused(Code.INVALID_ARGUMENT) as told:
            await client.ask(text="a", filters=[{"field": "name", "operator": "FILTER_OPERATOR_EQ"}, {"field": "name"}])
        assert "filters.1.operator: 0 is no FilterOperator" in told["detail"]
        async with refused(Code.INVALID_ARGUMENT) as told:
            await client.index(document_id="a", text="a", occurred_at=-1)
        assert "occurred_at: 0 or above" in told["detail"]
        async with refused(Code.INVALID_ARGUMENT) as told:
            await client.index(document_id="a")
        assert "`text` or `file`" in told["detail"]
        async with refused(Code.INVALID_ARGUMENT):
            await client.index(text="a")
        async with refused(Code.INVALID_ARGUMENT):
            await client.delete(document_id="a", wait_ms=-1)

    assert gateway.asked == []
    assert gateway.changes == []


async def test_what_is_wrong_in_a_request_is_told_its_caller_and_not_the_log(gateway: InProcess) -> None:
    with capture_logs() as logged:
        async with connected(gateway) as client:
            async with refused(Code.INVALID_ARGUMENT):
                await client.ask(text=TEXT, tenant="")
            async with refused(Code.INVALID_ARGUMENT):
                await client.ask(text=TEXT, fusion=99)

    assert logged == []


async def test_a_limit_above_that_of_grpc_lets_it_serve(gateway: InProcess) -> None:
    async with connected(gateway, max_body_mb=4_000) as client:
        await client.ask(text="a")

    assert len(gateway.asked) == 1


@pytest.mark.parametrize("method", ["Freki/RetrieveContext", "Freki/IndexDocument", "Wolf/Enrich"])
@pytest.mark.parametrize("message", [b"\xff\xff\xff", b"\x0a\x02\x0a\xff"])
async def test_bytes_that_are_no_message_are_an_invalid_argument(
    gateway: InProcess, method: str, message: bytes
) -> None:
    async with connected(gateway) as client, refused(Code.INVALID_ARGUMENT) as told:
        await client.channel.unary_unary(f"/freki.v1.{method}")(message)

    assert told["ErrorInfo"].reason == "INVALID"


async def test_bytes_that_are_no_message_end_a_stream_of_answers_the_same_way(gateway: InProcess) -> None:
    async with connected(gateway) as client, refused(Code.INVALID_ARGUMENT):
        async for _ in client.channel.unary_stream("/freki.v1.Freki/StreamContext")(b"\xff\xff\xff"):
            pass


@pytest.mark.parametrize("method", ["Freki/RetrieveContext", "Freki/IndexDocument", "Wolf/Enrich"])
async def test_no_message_of_a_stranger_is_parsed(gateway: InProcess, method: str) -> None:
    async with connected(gateway, tokens=True, failures_per_minute=2) as client:
        for code in (Code.UNAUTHENTICATED, Code.UNAUTHENTICATED, Code.RESOURCE_EXHAUSTED):
            async with refused(code):
                await client.channel.unary_unary(f"/freki.v1.{method}")(b"\xff\xff\xff")


@pytest.mark.parametrize("method", ["Freki/RetrieveContext", "Freki/IndexDocument", "Wolf/Enrich"])
async def test_a_stranger_is_refused_before_a_message_is_there(gateway: InProcess, method: str) -> None:
    is_refused = asyncio.Event()

    async def unfinished() -> AsyncIterator[bytes]:
        await is_refused.wait()
        for message in NO_MESSAGES:
            yield message

    async with connected(gateway, tokens=True) as client:
        async with refused(Code.UNAUTHENTICATED):
            await client.channel.stream_unary(f"/freki.v1.{method}")(unfinished(), timeout=60)
        # Else gRPC would wait for it without end.
        is_refused.set()


@pytest.mark.parametrize(
    ("method", "limit"), [("Freki/RetrieveContext", "QUERY_S"), ("Freki/IndexDocument", "DOCUMENT_S")]
)
async def test_a_message_is_not_awaited_without_end(
    gateway: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str, limit: str
) -> None:
    monkeypatch.setattr(calls, limit, 0.05)
    is_refused = asyncio.Event()

    async def unfinished() -> AsyncIterator[bytes]:
        await is_refused.wait()
        for message in NO_MESSAGES:
            yield message

    with caplog.at_level(logging.ERROR):
        async with connected(gateway) as client:
            async with refused(Code.DEADLINE_EXCEEDED) as told:
                await client.channel.stream_unary(f"/freki.v1.{method}")(unfinished(), timeout=60)
            is_refused.set()

    assert told["detail"] == "the message was not there within 0.05 s"
    assert caplog.records == []


async def test_a_call_without_a_message_is_an_invalid_argument(
    gateway: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    async def none() -> AsyncIterator[bytes]:
        for message in NO_MESSAGES:
            yield message

    with caplog.at_level(logging.ERROR):
        async with connected(gateway) as client, refused(Code.INVALID_ARGUMENT) as told:
            await client.channel.stream_unary("/freki.v1.Freki/RetrieveContext")(none())

    assert told["detail"] == "the call has no message"
    assert caplog.records == []


async def test_a_document_comes_with_its_receipt_or_is_said_to_be_on_its_way(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        waited = await client.index(document_id="a/b.pdf", file=b"%PDF", principals=["ada"])
        stored = await client.index(document_id="a/b.pdf", text="§ 1", version=7, wait_ms=0)
        deleted = await client.delete(document_id="a/b.pdf", tenant="other", version=8, wait_ms=1)

    assert waited.receipt.status == freki_pb2.OUTCOME_STATUS_INDEXED
    assert not stored.HasField("receipt")
    assert deleted.HasField("receipt")
    first, second, third = gateway.changes
    assert (first.content, first.principals, first.tenant) == (b"%PDF", ("ada",), TENANT)
    assert (second.content, second.version) == ("§ 1", 7)
    assert (third.document_id, third.tenant, third.version) == ("a/b.pdf", "other", 8)
    assert third.operation is Operation.DELETE


async def test_a_document_that_can_not_be_indexed_is_refused_with_the_reason(gateway: InProcess) -> None:
    gateway.status = OutcomeStatus.REJECTED
    async with connected(gateway) as client, refused(Code.INVALID_ARGUMENT) as told:
        await client.index(document_id="a", text="b")

    assert told["detail"] == "it is no PDF"


async def test_the_deadline_of_a_call_is_that_of_its_query(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        await client.ask(text="a")
        await client.ask(text="a", timeout=300)
        await client.ask(text="a", timeout=300, deadline_ms=100)
        await client.ask(text="a", timeout=300, deadline_ms=600_000)
        await client.ask(text="a", timeout=3_600)
        await client.index(document_id="a", text="b", wait_ms=120_000, timeout=90)

    none, own, shorter, longer, longest = [asked.deadline_ms for asked in gateway.asked]
    assert none is None
    assert own is not None
    assert longer is not None
    assert 270_000 < own < 300_000
    assert shorter == 100
    assert 270_000 < longer < 300_000
    assert longest == 600_000
    assert 60 < gateway.waits_s[0] < 90


async def test_a_trace_goes_on_and_a_request_id_comes_back(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        call = client.ask(
            text="a", metadata=(("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01"), ("x-request-id", "7"))
        )
        await call
        other = client.ask(text="a")
        await other

        assert dict(await call.initial_metadata())["x-request-id"] == "7"
        assert len(dict(await other.initial_metadata())["x-request-id"]) == 16
    assert [f"{trace:032x}" for trace in gateway.traces] == [TRACE, "0" * 32]


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


def headers(**named: bytes) -> bytes:
    """Return headers as HPACK writes them literally."""
    pairs = [(name.replace("_", "-").encode(), value) for name, value in named.items()]
    pseudo = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/freki.v1.Freki/RetrieveContext"),
        (b":authority", b"localhost"),
    ]
    return b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in [*pseudo, *pairs]
    )


@pytest.mark.parametrize("request_id", [b"a\xe9b", "aéb".encode(), b"a\x01b", b"a\nb"])
async def test_a_request_id_that_can_not_come_back_does_not_fail_the_call(
    gateway: InProcess, request_id: bytes
) -> None:
    """Clients of gRPC refuse to send such; others do not."""
    message = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text="a")).SerializeToString()
    told = headers(te=b"trailers", content_type=b"application/grpc", x_request_id=request_id)
    async with served(gateway) as (_, address):
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, told))
        writer.write(frame(0, 1, 1, b"\0" + len(message).to_bytes(4) + message))
        answer = await reader.readuntil(b"grpc-status")
        writer.close()
        await writer.wait_closed()

    assert b"x-request-id" in answer
    assert [query.text for query in gateway.asked] == ["a"]


async def test_who_has_no_valid_token_is_refused_and_others_ask_in_their_own_name(gateway: InProcess) -> None:
    async with connected(gateway, tokens=True) as client:
        for metadata in (None, (("authorization", "Basic good"),), (("authorization", "Bearer bad"),)):
            async with refused(Code.UNAUTHENTICATED):
                await client.ask(text="a", metadata=metadata)
        await client.ask(text="a", metadata=GOOD)
        async with refused(Code.PERMISSION_DENIED):
            await client.ask(text="a", tenant="other", metadata=GOOD)
        async with refused(Code.UNAUTHENTICATED):
            await client.enrich(prompt="a")

    assert gateway.tokens == ["good"]
    assert gateway.asked[0].tenant == TENANT


@pytest.mark.parametrize("tokens", [("good", "bad"), ("bad", "good"), ("good", "good")])
async def test_a_call_with_two_tokens_is_refused(gateway: InProcess, tokens: tuple[str, str]) -> None:
    metadata = tuple(("authorization", f"Bearer {token}") for token in tokens)
    async with connected(gateway, tokens=True) as client, refused(Code.INVALID_ARGUMENT) as told:
        await client.ask(text="a", metadata=metadata)

    assert told["ErrorInfo"].reason == "SEVERAL_TOKENS"
    assert gateway.asked == []


async def test_the_longest_token_is_accepted(gateway: InProcess) -> None:
    longest = b"x" * MAX_BYTES

    async def identify_longest(token: bytes) -> Identity | RefusalReason:
        return ADA if token == longest else RefusalReason.SIGNATURE

    callers = Callers(ServeSettings(), identify_longest)
    async with connected(gateway, callers=callers) as client:
        await client.ask(text="a", metadata=(("authorization", f"Bearer {longest.decode()}"),))

    assert gateway.tokens == [longest.decode()]


@pytest.mark.parametrize(("publishers", "may"), [((), False), (("other/staff",), False), (("t/staff",), True)])
async def test_with_tokens_only_publishers_change_documents(
    gateway: InProcess,
    publishers: tuple[str, ...],
    may: bool,  # noqa: FBT001
) -> None:
    async with connected(gateway, tokens=True, publishers=publishers) as client:
        for change in (
            client.index(document_id="a", text="b", metadata=GOOD),
            client.delete(document_id="a", metadata=GOOD),
        ):
            if may:
                await change
            else:
                async with refused(Code.PERMISSION_DENIED) as told:
                    await change
                assert "FREKI_SERVE__PUBLISHERS" in told["detail"]

    assert len(gateway.changes) == (2 if may else 0)


async def test_a_caller_has_one_rate_at_all_doors(gateway: InProcess) -> None:
    import httpx

    settings = ServeSettings(calls_per_minute=2)
    callers = Callers(settings, None)
    app = app_of(gateway, callers=callers, calls_per_minute=2)
    async with connected(gateway, callers=callers) as client:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8780") as http:
            assert (await http.post("/v1/queries", json={"text": "a"})).status_code == 200
        await client.ask(text="a")
        async with refused(Code.RESOURCE_EXHAUSTED) as told:
            await client.ask(text="a")

    assert 1 <= told["RetryInfo"].retry_delay.seconds <= 31


async def test_a_query_beyond_the_limit_of_its_tenant_is_told_when_to_come_again(gateway: InProcess) -> None:
    gateway.ends = ResultStatus.EXPIRED
    gateway.ends_at = LIMIT
    async with connected(gateway) as client, refused(Code.RESOURCE_EXHAUSTED) as told:
        await client.ask(text="a")

    assert told["ErrorInfo"].reason == "LIMIT"
    assert 1 <= told["RetryInfo"].retry_delay.seconds <= 60


async def test_who_tries_tokens_is_stopped_and_each_refused_one_is_told(gateway: InProcess) -> None:
    told: list[tuple[str, str]] = []

    async def on_refused(reason: RefusalReason, address: str) -> None:
        told.append((reason, address))

    settings = ServeSettings(failures_per_minute=2)
    async with connected(gateway, callers=Callers(settings, identify, on_refused=on_refused)) as client:
        for metadata in ((("authorization", "Bearer guess"),), None):
            async with refused(Code.UNAUTHENTICATED):
                await client.ask(text="a", metadata=metadata)
        async with refused(Code.RESOURCE_EXHAUSTED):
            await client.ask(text="a", metadata=GOOD)

    assert told == [(RefusalReason.SIGNATURE, "127.0.0.1")]


async def test_a_message_above_the_limit_is_refused(gateway: InProcess) -> None:
    async with connected(gateway, max_body_mb=0.001) as client, refused(Code.RESOURCE_EXHAUSTED):
        await client.ask(text="a" * 2_000)

    assert gateway.asked == []


@pytest.mark.parametrize("method", ["Freki/RetrieveContext", "Freki/DeleteDocument", "Wolf/Enrich"])
async def test_a_call_without_a_document_is_refused_before_it_is_parsed_where_it_is_as_large_as_one(
    gateway: InProcess, method: str
) -> None:
    async with connected(gateway) as client, refused(Code.RESOURCE_EXHAUSTED) as told:
        await client.channel.unary_unary(f"/freki.v1.{method}")(b"\xff" * 16_000_001)

    assert (told["ErrorInfo"].reason, "16000000 bytes" in told["detail"]) == ("TOO_LARGE", True)


@pytest.mark.parametrize("filters", [[{}] * 20_001, [{"values": ["a"] * 10_000}] * 2])
async def test_a_query_has_so_many_values(gateway: InProcess, filters: list[dict[str, Any]]) -> None:
    async with connected(gateway) as client, refused(Code.RESOURCE_EXHAUSTED) as told:
        await client.ask(text="a", filters=filters)

    assert (told["ErrorInfo"].reason, "at most 20000 values" in told["detail"]) == ("TOO_LARGE", True)


async def test_how_large_a_query_may_be_follows_its_longest_text(gateway: InProcess) -> None:
    sizes = QuerySizes(max_query_chars=10)
    async with connected(gateway, sizes=sizes) as client:
        ask = client.channel.unary_unary("/freki.v1.Freki/RetrieveContext")
        async with refused(Code.RESOURCE_EXHAUSTED) as told:
            await ask(b"\xff" * 5_000_000)
        sizes.max_query_chars = 1_000_000
        async with refused(Code.INVALID_ARGUMENT):
            await ask(b"\xff" * 5_000_000)

    assert "FREKI_RETRIEVAL__MAX_QUERY_CHARS" in told["detail"]


async def test_a_document_may_be_larger_than_a_query(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        await client.index(document_id="a", text="a" * 16_000_001)

    assert len(gateway.changes) == 1


async def test_a_prompt_gets_the_documents_that_belong_to_it(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        response = await client.enrich(prompt=TEXT, metadata={"language": "de", "session_id": "s", "max_tokens": 9})

    assert (response.request_id, response.model_type) == ("r1", wolf_pb2.RAG)
    assert response.WhichOneof("response") == "rag_context"
    best = response.rag_context.documents[0]
    assert best.document_id == "a"
    assert best.content in TEXT
    assert best.metadata["citation"] == "[Document 1: a]"
    scores = [each.relevance_score for each in response.rag_context.documents]
    assert response.rag_context.retrieval_score == pytest.approx(sum(scores) / len(scores))
    assert response.metadata.timestamp > 1_700_000_000_000
    assert gateway.asked[0].language == "de"


async def test_a_prompt_of_a_million_characters_is_searched_by_a_part_which_the_response_says(
    gateway: InProcess,
) -> None:
    # The longest in bytes too: 4 for each character, which is what gRPC takes at most unless told otherwise.
    padding = "\N{GRINNING FACE}" * (1_000_000 - len(TEXT) - 1)
    async with connected(gateway) as client:
        response = await client.enrich(prompt=f"{TEXT} {padding}")
        async with refused(Code.INVALID_ARGUMENT) as told:
            await client.enrich(prompt=f"{TEXT} {padding}!")
        async with refused(Code.INVALID_ARGUMENT):
            await client.enrich(prompt="")

    assert len(gateway.asked[0].text) == 1_000_000
    assert response.rag_context.documents
    assert "the query has 1000000 characters; it was searched by" in response.metadata.error
    assert "1000001 characters are more than 1000000" in told["detail"]


async def test_a_prompt_that_nothing_belongs_to_is_not_found(gateway: InProcess) -> None:
    gateway.ends = ResultStatus.EMPTY
    async with connected(gateway) as client, refused(Code.NOT_FOUND) as told:
        await client.enrich(prompt=TEXT)

    assert "does not mean that nothing exists" in told["detail"]


async def test_a_prompt_for_which_nothing_could_be_searched_is_to_be_sent_again(world: World) -> None:
    gateway = InProcess(world, Broken(world.index, "dense", "lexical"))
    async with connected(gateway) as client, refused(Code.UNAVAILABLE) as told:
        await client.enrich(prompt=TEXT)

    assert "search.dense failed: it does not answer" in told["detail"]
    assert told["RetryInfo"].retry_delay.seconds == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"model_type": "LLM", "prompt": "a"}, Code.UNIMPLEMENTED),
        ({"model_type": 7, "prompt": "a"}, Code.INVALID_ARGUMENT),
        ({"request_id": "", "prompt": "a"}, Code.INVALID_ARGUMENT),
    ],
)
async def test_requests_for_another_wolf_are_refused(
    gateway: InProcess, request_: dict[str, Any], code: grpc.StatusCode
) -> None:
    async with connected(gateway) as client, refused(code):
        await client.enrich(**request_)

    assert gateway.asked == []


async def test_health_and_reflection_need_no_token(gateway: InProcess) -> None:
    async with connected(gateway, tokens=True) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        for name in ("", "freki.v1.Freki", "freki.v1.Wolf"):
            checked = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert checked.status == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        listing = reflection_pb2_grpc.ServerReflectionStub(client.channel).ServerReflectionInfo(iter([asked]))
        (listed,) = [each async for each in listing]

    names = {each.name for each in listed.list_services_response.service}
    assert {"freki.v1.Freki", "freki.v1.Wolf", "grpc.health.v1.Health"} <= names


async def test_what_is_wrong_in_a_call_for_health_or_reflection_is_named(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        async with refused(Code.NOT_FOUND) as told:
            await health.Check(health_pb2.HealthCheckRequest(service="nobody"))
        async with refused(Code.INVALID_ARGUMENT):
            await client.channel.unary_unary("/grpc.health.v1.Health/Check")(b"\xff")
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        async with refused(Code.INVALID_ARGUMENT):
            [each async for each in client.channel.stream_stream(method)(iter([b"\xff"]))]

    assert "nobody" in told["detail"]


async def test_one_address_has_only_so_many_calls_for_health_and_reflection_open(gateway: InProcess) -> None:
    async with connected(gateway, tokens=True) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watching = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(MOST_OPEN)]
        for each in watching:
            await each.read()
        async with refused(Code.RESOURCE_EXHAUSTED) as told:
            await health.Check(health_pb2.HealthCheckRequest())
        async with refused(Code.RESOURCE_EXHAUSTED):
            await reflection_pb2_grpc.ServerReflectionStub(client.channel).ServerReflectionInfo(iter([])).read()
        # Other calls are not limited by these.
        assert (await client.ask(text=TEXT, metadata=GOOD)).hits
        watching[0].cancel()
        async with asyncio.timeout(60):
            while not await checked(health):  # noqa: ASYNC110 - the server sees it later
                await asyncio.sleep(0.01)

    assert told["ErrorInfo"].reason == "TOO_MANY"
    assert told["RetryInfo"].retry_delay.seconds == 1


async def checked(health: health_pb2_grpc.HealthStub) -> bool:
    """Return whether the health is told."""
    try:
        await health.Check(health_pb2.HealthCheckRequest())
    except grpc.aio.AioRpcError:
        return False
    return True


async def test_who_watches_the_health_is_told_the_end_and_holds_it_up_no_longer(gateway: InProcess) -> None:
    async with served(gateway) as (server, address), grpc.aio.insecure_channel(address) as channel:
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        first = await watching.read()
        await server.stop(3_600)
        last, end = await watching.read(), await watching.read()

    assert first.status == health_pb2.HealthCheckResponse.SERVING
    assert last.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert end is grpc.aio.EOF


async def test_who_watches_the_health_and_does_not_read_stops_nobody(gateway: InProcess) -> None:
    async with served(gateway) as (server, address), grpc.aio.insecure_channel(address) as channel:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(http2_beginning() + http2_call("grpc.health.v1.Health/Watch", b""))
        # Headers of the response: its one message has to wait.
        while (await http2_frame(reader))[0] != HEADERS:
            pass

        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        watching.cancel()
        async with asyncio.timeout(60):
            await server.stop(0)
        writer.close()


HEADERS = 1


def http2_beginning() -> bytes:
    """Return the beginning of a connection in HTTP/2 with a window of 0 bytes: no message can be sent to it."""
    initial_window = (4).to_bytes(2) + (0).to_bytes(4)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + written_frame(4, 0, 0, initial_window)


def http2_call(method: str, message: bytes, *, more: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Return a call of a method with one message, the first of its connection; more: metadata."""

    def literal(name: str, value: str) -> bytes:
        return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()

    named = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{method}",
        ":authority": "127.0.0.1",
        "content-type": "application/grpc",
        "te": "trailers",
        **more,
    }
    headers = b"".join(literal(*each) for each in named.items())
    body = b"\0" + len(message).to_bytes(4) + message
    return written_frame(HEADERS, 4, 1, headers) + written_frame(0, 1, 1, body)


def written_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


async def http2_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return kind and payload of the next frame."""
    head = await reader.readexactly(9)
    return head[3], await reader.readexactly(int.from_bytes(head[:3]))


@pytest.mark.parametrize("method", ["RetrieveContext", "StreamContext"])
async def test_who_takes_no_answer_gets_no_further_one_until_its_calls_have_ended(
    gateway: InProcess, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr("freki.infra.grpc_server.unread.MOST_UNREAD_BYTES", 1)
    question = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text=TEXT)).SerializeToString()
    async with served(gateway) as (_, address), grpc.aio.insecure_channel(address) as channel:
        client = Client(channel)
        # Taken, so that nothing waits.
        assert (await client.ask(text=TEXT)).hits
        async with unread_answers(address, http2_call(f"freki.v1.Freki/{method}", question)):
            told = await until_refused(client)
        while not (answer := await answer_or_none(client)):
            pass

    assert answer.hits
    assert "of answers wait for you" in told["detail"]
    assert (told["ErrorInfo"].reason, told["RetryInfo"].retry_delay.seconds) == ("UNREAD", 1)


async def test_answers_that_one_caller_does_not_take_keep_nobody_else_out(
    gateway: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.infra.grpc_server.unread.MOST_UNREAD_BYTES", 1)
    question = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text=TEXT)).SerializeToString()
    call = http2_call("freki.v1.Freki/RetrieveContext", question, more={"authorization": "Bearer bob"})

    async def whose(token: bytes) -> Identity | RefusalReason:
        name = token.decode()
        return replace(ADA, subject=name, principals=(name,))

    callers = Callers(ServeSettings(), whose)
    async with served(gateway, callers=callers) as (_, address), grpc.aio.insecure_channel(address) as channel:
        client = Client(channel)
        async with unread_answers(address, call):
            await until_refused(client, metadata=(("authorization", "Bearer bob"),))
            assert (await client.ask(text=TEXT, metadata=GOOD)).hits


async def test_a_connection_whose_answers_are_not_taken_ends(
    gateway: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.infra.grpc_server.server.MOST_AGE_MS", 1000)
    monkeypatch.setattr("freki.infra.grpc_server.server.MOST_GRACE_MS", 100)
    question = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text=TEXT)).SerializeToString()
    async with (
        served(gateway) as (_, address),
        unread_answers(address, http2_call("freki.v1.Freki/RetrieveContext", question)) as reader,
        asyncio.timeout(60),
    ):
        while await reader.read(65_536):
            pass


@asynccontextmanager
async def unread_answers(address: str, calls: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Make calls by a client that takes no message, until they are under way."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(http2_beginning() + calls)
    while (await http2_frame(reader))[0] != HEADERS:
        pass
    yield reader
    writer.close()


async def until_refused(client: Client, **how: Any) -> dict[str, Any]:
    """Ask again and again; return what is told once that is refused."""
    while await answer_or_none(client, **how):
        pass
    async with refused(Code.RESOURCE_EXHAUSTED) as told:
        await client.ask(text=TEXT, **how)
    return told


async def answer_or_none(client: Client, **how: Any) -> Any:
    with suppress(grpc.aio.AioRpcError):
        return await client.ask(text=TEXT, **how)
    return None


async def test_a_call_under_way_is_answered_before_the_server_ends(gateway: InProcess) -> None:
    gateway.go_on.clear()
    async with served(gateway) as (server, address), grpc.aio.insecure_channel(address) as channel:
        call = asyncio.ensure_future(Client(channel).ask(text=TEXT))
        await gateway.entered.wait()
        stopping = asyncio.create_task(server.stop(30))
        await asyncio.sleep(0)
        gateway.go_on.set()

        assert (await call).hits
        await stopping


async def test_who_hangs_up_ends_the_call(gateway: InProcess) -> None:
    gateway.go_on.clear()
    async with connected(gateway) as client:
        call = client.ask(text=TEXT)
        asking = asyncio.ensure_future(call)
        await gateway.entered.wait()
        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_who_hangs_up_between_two_events_leaves_no_error_in_the_log(
    gateway: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(gateway) as client:
        call = client.stream(text=TEXT)
        async for _ in call:
            call.cancel()
            break
        # Answered after the server has seen the end of the other.
        await client.ask(text=TEXT)
        gc.collect()
        await client.ask(text=TEXT)

    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("sign", ["x", "ä", "\n"])
async def test_a_long_reason_arrives_with_its_status(gateway: InProcess, sign: str) -> None:
    gateway.ends = Rejected(f"tenant: {sign * 9_000} holds '/'")
    async with connected(gateway) as client, refused(Code.INVALID_ARGUMENT) as told:
        await client.index(document_id="a", text="Text")

    assert told["detail"].startswith("tenant: " + sign * 300)
    assert told["detail"].endswith("holds '/'")
    assert told["ErrorInfo"].reason == "INVALID"


async def test_with_a_certificate_calls_are_encrypted(gateway: InProcess, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.pair("server")
    async with served(gateway, cert_file=pair.certificate, key_file=pair.key) as (_, address):
        trusted = grpc.ssl_channel_credentials(authority.file.read_bytes())
        async with grpc.aio.secure_channel(address, trusted) as channel:
            assert (await Client(channel).ask(text=TEXT)).hits
        async with grpc.aio.insecure_channel(address) as channel, refused(Code.UNAVAILABLE):
            await Client(channel).ask(text=TEXT)


async def test_a_port_that_is_taken_and_a_missing_key_name_their_settings(gateway: InProcess, tmp_path: Path) -> None:
    settings = ServeSettings(port=0, grpc_port=0)
    callers = Callers(settings, None)
    async with served(gateway) as (_, address):
        taken = ServeSettings(grpc_port=int(address.rpartition(":")[2]))
        with pytest.raises(Misconfigured, match="FREKI_SERVE__GRPC_PORT"):
            await GrpcServer(gateway, taken, tenant=TENANT, callers=callers, sizes=SIZES, certificate=None).start()
    missing = ServeSettings(grpc_port=0, cert_file=tmp_path / "a.pem", key_file=tmp_path / "b.pem")
    with pytest.raises(Misconfigured, match="FREKI_SERVE__KEY_FILE"):
        open_certificate(missing)
    one, other = (Authority(tmp_path, name).pair(f"of-{name}") for name in ("one", "other"))
    swapped = ServeSettings(grpc_port=0, cert_file=one.certificate, key_file=other.key)
    with pytest.raises(Misconfigured, match="FREKI_SERVE__KEY_FILE"):
        open_certificate(swapped)
    with pytest.raises(Misconfigured, match="FREKI_AUTH__JWKS"):
        GrpcServer(
            gateway, ServeSettings(host="10.0.0.1"), tenant=TENANT, callers=callers, sizes=SIZES, certificate=None
        )
    with pytest.raises(ValueError, match="FREKI_SERVE__GRPC_PORT"):
        ServeSettings(port=8781)
