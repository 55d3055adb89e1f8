"""What all calls of the gRPC API share: who calls, trace, request id, deadline, and how errors are told."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
import structlog
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.context import attach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from freki.client.exchange import AlreadyAsked, NotSent
from freki.infra.api.callers import Caller, CallRefused, Judge, Wrong
from freki.infra.api.forwarded import FORWARDED
from freki.infra.api.gateway import NO_ANSWER, retry_after_s, why_refused
from freki.infra.api.sizes import QuerySizes, fitting
from freki.infra.grpc_server.unread import Unread
from freki.schemas import ContextResult, ResultStatus
from freki.schemas.avro import UnencodableError
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.proto.convert import UnknownValueError

DOMAIN = "freki"
"""Domain of the reasons in error details."""
ON_THE_WAY_MS = 20
"""Part of a call's deadline that is left for its way back, in milliseconds."""
ROUNDED_UP = 0.01
"""Share of a deadline by which clients may have rounded it up: the header has few digits for long ones."""
QUERY_S = 30.0
"""Time in which the message of a call must be there, in seconds: how much of it has come is not known before."""
DOCUMENT_S = 600.0
"""The same where it holds a document, in seconds: 64 MB take as long at 107 kB a second."""
_W3C = TraceContextTextMapPropagator()
_CODES = {
    Wrong.NO_TOKEN: grpc.StatusCode.UNAUTHENTICATED,
    Wrong.INVALID_TOKEN: grpc.StatusCode.UNAUTHENTICATED,
    Wrong.SEVERAL_TOKENS: grpc.StatusCode.INVALID_ARGUMENT,
    Wrong.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Wrong.TOO_MANY: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
_REFUSED_BY = {"authenticate": grpc.StatusCode.PERMISSION_DENIED, "audit": grpc.StatusCode.UNAVAILABLE}
"""Codes of refusals by the step that refused; others broke a rule, or found no time."""
_BELOW: Mapping[type[Exception], tuple[grpc.StatusCode, str]] = {
    NotSent: (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
    TimeoutError: (grpc.StatusCode.DEADLINE_EXCEEDED, "NO_ANSWER"),
    Unavailable: (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
    Misconfigured: (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
    Rejected: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
    UnknownValueError: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
    UnencodableError: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
    # A token that serves one query only came twice at once.
    AlreadyAsked: (grpc.StatusCode.ABORTED, "CONFLICT"),
}
"""What fails below the API; the first that fits counts."""
_log = structlog.get_logger(__name__)
Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class CallFailed(Exception):
    """A call that ends with a status."""

    def __init__(self, code: grpc.StatusCode, detail: str, *, reason: str, retry_after_s: int = 0, **more: str) -> None:
        """Describe it; reason: in capitals, for programs; more: metadata of the reason."""
        super().__init__(detail)
        self.code = code
        self.detail = fitting(detail)
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.more = more

    def status(self) -> Status:
        """Return what is told in `grpc-status-details-bin`."""
        status = Status(code=self.code.value[0], message=self.detail)
        details: list[Message] = [ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.more)]
        if self.retry_after_s:
            details.append(RetryInfo(retry_delay=Duration(seconds=self.retry_after_s)))
        for detail in details:
            packed = Packed()
            packed.Pack(detail)
            status.details.append(packed)
        return status


class Call:
    """One call."""

    caller: Caller
    """Who calls, once judged."""

    def __init__(self, context: "grpc.aio.ServicerContext[Any, Any]", unread: Unread) -> None:
        self._context = context
        self._unread = unread
        given = [(name, value) for name, value in context.invocation_metadata() or () if isinstance(value, str)]
        self.metadata = dict(given)
        self._authorizations = [value for name, value in given if name == "authorization"]
        self._forwarded = [value for name, value in given if name == FORWARDED]
        given_id = self.metadata.get("x-request-id", "")[:64]
        # gRPC takes more than it sends.
        is_sendable = given_id.isascii() and given_id.isprintable()
        self.request_id = (given_id if is_sendable else "") or secrets.token_hex(8)

    async def judge(self, judge: Judge) -> None:
        """Find out who calls. Raises CallRefused, and CallFailed for who does not read what it is answered."""
        address = address_of(self._context.peer())
        self.caller = await judge(self._authorizations, address=address, forwarded=self._forwarded)
        if (why := self._unread.refusal(self.caller.name)) is not None:
            raise CallFailed(grpc.StatusCode.RESOURCE_EXHAUSTED, why, reason="UNREAD", retry_after_s=1)

    def keep(self, size: int) -> None:
        """Count bytes of an answer as waiting for the caller, until the call has ended."""
        name = self.caller.name
        self._unread.add(name, size)
        self._context.add_done_callback(lambda _: self._unread.remove(name, size))

    @property
    def remaining_ms(self) -> int | None:
        """Milliseconds in which an answer must leave; None: the caller waits as long as it takes."""
        remaining_s = self._context.time_remaining()
        return None if remaining_s is None else max(1, int(remaining_s * 1000 * (1 - ROUNDED_UP)) - ON_THE_WAY_MS)


def unary(
    judge: Judge,
    answer: Callable[[Q, Call], Awaitable[A]],
    request: type[Q],
    response: type[A],
    *,
    sizes: QuerySizes | None,
    unread: Unread,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with one response.

    judge: tells who calls, and whether they may; sizes: of requests; None: they hold a document, and may be as large as
    the server takes; unread: counts what waits for each caller.
    """

    async def handle(messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, A]") -> A:
        async with _answered(context, judge, unread) as call:
            message = await answer(await read_message(request, messages, sizes), call)
            call.keep(message.ByteSize())
            return message

    return grpc.stream_unary_rpc_method_handler(handle, None, response.SerializeToString)


def streamed(
    judge: Judge,
    answers: Callable[[Q, Call], AsyncGenerator[A, None]],
    request: type[Q],
    response: type[A],
    *,
    sizes: QuerySizes,
    unread: Unread,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with a stream of responses, which keeps them itself; the rest: as for one."""

    async def handle(messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, A]") -> AsyncIterator[A]:
        async with (
            _answered(context, judge, unread) as call,
            aclosing(answers(await read_message(request, messages, sizes), call)) as stream,
        ):
            async for each in stream:
                yield each

    return grpc.stream_stream_rpc_method_handler(handle, None, response.SerializeToString)


async def read_message(kind: type[Q], messages: AsyncIterator[bytes], sizes: QuerySizes | None) -> Q:
    """Return the one request of a call; others are not read.

    Raises CallFailed for none, for one that takes too long or is too large, and for bytes that are none: gRPC would say
    UNKNOWN, and log a traceback.
    """
    limit_s = DOCUMENT_S if sizes is None else QUERY_S
    try:
        # Handlers for one message are called once all of it is there: that of a stranger would be kept.
        async with asyncio.timeout(limit_s):
            message = await anext(aiter(messages), None)
    except TimeoutError as error:
        detail = f"the message was not there within {limit_s:g} s"
        raise CallFailed(grpc.StatusCode.DEADLINE_EXCEEDED, detail, reason="SLOW_MESSAGE") from error
    if message is None:
        raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message", reason="INVALID")
    if sizes is not None and (why := sizes.refusal(len(message))) is not None:
        raise too_large(why)
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, str(error), reason="INVALID") from error


def too_large(detail: str) -> CallFailed:
    """Return the failure of a request that holds more than calls without a document may."""
    return CallFailed(grpc.StatusCode.RESOURCE_EXHAUSTED, detail, reason="TOO_LARGE")


@asynccontextmanager
async def _answered(context: "grpc.aio.ServicerContext[Any, Any]", judge: Judge, unread: Unread) -> AsyncIterator[Call]:
    """Continue the caller's trace, and end the call with a status for each error."""
    call = Call(context, unread)
    await context.send_initial_metadata((("x-request-id", call.request_id),))
    # Never detached: a call has a task, and so a context, of its own; and what ends a stream may be another one.
    attach(_W3C.extract({"traceparent": call.metadata.get("traceparent", "")}))
    async with telling(context):
        # Before the message is read: that of a stranger may be made to take long, and much memory.
        await call.judge(judge)
        yield call


@asynccontextmanager
async def telling(context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[None]:
    """End a call with a status for each error in it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a call ends with a status
        failed = _failed(error)
        await context.abort(
            failed.code, failed.detail, (("grpc-status-details-bin", failed.status().SerializeToString()),)
        )


def _failed(error: Exception) -> CallFailed:
    """Return the status of an error; one that nobody expected tells nothing of itself."""
    if isinstance(error, CallFailed):
        return error
    if isinstance(error, CallRefused):
        return CallFailed(_CODES[error.wrong], error.detail, reason=error.wrong.name, retry_after_s=error.retry_after_s)
    for kind, (code, reason) in _BELOW.items():
        if isinstance(error, kind):
            if code is not grpc.StatusCode.INVALID_ARGUMENT:
                # Else each wrong call would be a line of the log.
                _log.warning("call not answered", reason=reason, error=str(error))
            retry_after_s = 1 if code is grpc.StatusCode.UNAVAILABLE else 0
            return CallFailed(code, _message_of(error), reason=reason, retry_after_s=retry_after_s)
    _log.error("call failed", exc_info=error)
    return CallFailed(grpc.StatusCode.INTERNAL, "the server's log says why", reason="INTERNAL")


def _message_of(error: Exception) -> str:
    if isinstance(error, Unavailable | Misconfigured):
        return error.for_callers
    return str(error) or NO_ANSWER


def answered(result: ContextResult) -> ContextResult:
    """Return a result that is an answer. Raises CallFailed for one that says why there is none."""
    why = why_refused(result)
    if why is None:
        return result
    if (left_s := retry_after_s(result)) is not None:
        raise CallFailed(grpc.StatusCode.RESOURCE_EXHAUSTED, why, reason="LIMIT", retry_after_s=left_s)
    is_late = result.status is ResultStatus.EXPIRED
    code = grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.INVALID_ARGUMENT
    for notice in result.notices:
        code = _REFUSED_BY.get(notice.stage, code)
    raise CallFailed(code, why, reason=result.status, trace_id=result.trace_id)


def address_of(peer: str) -> str:
    """Return the address without scheme and port: `ipv4:10.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]") or peer
