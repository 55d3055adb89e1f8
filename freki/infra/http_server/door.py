"""What routes of the HTTP door share: the gateway, the guard, and how calls of the gateway end."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Protocol, TypeVar

from opentelemetry.context import attach, detach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.requests import Request

from freki.infra.http_server.bodies import Question, query_of
from freki.infra.http_server.guard import Caller, Guard, tenant_of
from freki.infra.http_server.problems import Problem
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
    Judgement,
    ResultStatus,
    TenantId,
)
from freki.schemas.limits import LIMIT
from freki.schemas.names import record

T = TypeVar("T")
_W3C = TraceContextTextMapPropagator()


class Gateway(Protocol):
    """What the door calls."""

    async def publish(self, change: DocumentChange, *, wait_s: float) -> IndexOutcome | None:
        """Store a change; return its receipt, or None if none came in time."""

    async def ask(self, query: ContextQuery, *, token: str | None) -> ContextResult:
        """Return the result. Raises TimeoutError if none comes."""

    async def ask_documents(self, query: DocumentQuery, *, token: str | None) -> DocumentReport:
        """Return the report. Raises TimeoutError if none comes."""

    async def judge(self, judgement: Judgement) -> None:
        """Store a judgement."""


@record
class Door:
    """What all routes need."""

    gateway: Gateway
    guard: Guard
    tenant: str

    def tenant_of(self, caller: Caller, named: str | None) -> TenantId:
        """Return the tenant of a call. Raises Problem if its token is of another one."""
        return tenant_of(caller, named, self.tenant)


async def asked(door: Door, body: Question, request: Request, caller: Caller) -> ContextResult:
    """Return the answer to a question. Raises Problem if it is refused, or if no answer comes in time."""
    query = query_of(body, tenant=door.tenant_of(caller, body.tenant))
    with trace_of(request):
        result = await answered(door.gateway.ask(query, token=caller.token))
    if result.status in {ResultStatus.REJECTED, ResultStatus.EXPIRED}:
        why = "; ".join(notice.message for notice in result.notices) or "the query was refused"
        if any(notice.stage == LIMIT for notice in result.notices):
            left_s = 60 - result.answered_at // 1000 % 60
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, why, headers={"Retry-After": str(left_s)})
        expired = result.status is ResultStatus.EXPIRED
        status = HTTPStatus.GATEWAY_TIMEOUT if expired else HTTPStatus.BAD_REQUEST
        raise Problem(status, why, trace_id=result.trace_id)
    return result


async def answered(answer: Awaitable[T]) -> T:
    """Return an answer. Raises Problem if none comes in time, or if its token was used already."""
    try:
        return await answer
    except TimeoutError as error:
        detail = "no worker answered in time: does one run the retrieve stage?"
        raise Problem(HTTPStatus.GATEWAY_TIMEOUT, detail) from error
    except ValueError as error:
        # A token that serves one query only came twice at once.
        raise Problem(HTTPStatus.CONFLICT, str(error)) from error


@contextmanager
def trace_of(request: Request) -> Iterator[None]:
    """Continue the trace of the caller."""
    token = attach(_W3C.extract({"traceparent": request.headers.get("traceparent", "")}))
    try:
        yield
    finally:
        detach(token)
