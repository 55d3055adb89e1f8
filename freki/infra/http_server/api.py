"""What the routes of the HTTP API share."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

from opentelemetry.context import attach, detach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.requests import Request

from freki.client.exchange import AlreadyAsked, NotSent
from freki.infra.api.callers import Caller, tenant_of
from freki.infra.api.gateway import NO_ANSWER, Gateway, retry_after_s, why_refused
from freki.infra.http_server.bodies import Question, query_of
from freki.infra.http_server.guard import Guard, as_problem
from freki.infra.http_server.problems import Problem, unavailable
from freki.schemas import ContextResult, ResultStatus, TenantId
from freki.schemas.names import record

T = TypeVar("T")
_W3C = TraceContextTextMapPropagator()
_REFUSED_BY = {"authenticate": HTTPStatus.FORBIDDEN, "audit": HTTPStatus.SERVICE_UNAVAILABLE}
"""Statuses of refusals by the step that refused; others broke a rule, or found no time."""


@record
class HttpApi:
    """What the routes need: what answers calls, who is let in, and the tenant of calls that name none."""

    gateway: Gateway
    guard: Guard
    tenant: str

    def tenant_of(self, caller: Caller, named: str | None) -> TenantId:
        """Return the tenant of a call.

        Raises Problem if the token is of another one than the call names, and Rejected for an empty name.
        """
        with as_problem():
            return tenant_of(caller, named, self.tenant)


async def asked(api: HttpApi, body: Question, request: Request, caller: Caller) -> ContextResult:
    """Return the answer to a query. Raises Problem if it is refused, or if no answer comes in time."""
    query = query_of(body, tenant=api.tenant_of(caller, body.tenant))
    with trace_of(request):
        result = await answered(api.gateway.ask(query, token=caller.token))
    return checked_result(result)


def checked_result(result: ContextResult) -> ContextResult:
    """Return a result that is an answer. Raises Problem for one that says why there is none."""
    if (why := why_refused(result)) is None:
        return result
    if (left_s := retry_after_s(result)) is not None:
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, why, headers={"Retry-After": str(left_s)})
    expired = result.status is ResultStatus.EXPIRED
    status = HTTPStatus.GATEWAY_TIMEOUT if expired else HTTPStatus.BAD_REQUEST
    for notice in result.notices:
        status = _REFUSED_BY.get(notice.stage, status)
    raise Problem(status, why, trace_id=result.trace_id)


async def answered(answer: Awaitable[T]) -> T:
    """Return what the gateway does. Raises Problem where it does not answer."""
    try:
        return await answer
    except NotSent as error:
        raise unavailable(str(error)) from error
    except TimeoutError as error:
        raise Problem(HTTPStatus.GATEWAY_TIMEOUT, NO_ANSWER) from error
    except AlreadyAsked as error:
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
