"""The application of the HTTP API: documents, queries and judgements as JSON, and the page."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import structlog
from fastapi import Depends, FastAPI, Query
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.staticfiles import StaticFiles

from freki import __version__
from freki.infra.api.callers import Caller, Callers
from freki.infra.api.gateway import MOST_WAIT_MS, Gateway
from freki.infra.api.sizes import QuerySizes, fitting
from freki.infra.http_server.answers import Answerer, add_answers
from freki.infra.http_server.api import HttpApi, answered, asked, trace_of
from freki.infra.http_server.bodies import (
    Document,
    Question,
    Verdict,
    change_of,
    documents_query,
    judgement_of,
)
from freki.infra.http_server.guard import Guard, GuardedRoute, RepeatedName, check_reach
from freki.infra.http_server.operations import Operations, add_operations
from freki.infra.http_server.problems import DESCRIBED, Problem, problem_of
from freki.infra.http_server.steps import add_steps
from freki.infra.http_server.vector_stores import add_vector_stores
from freki.infra.settings import ServeSettings
from freki.schemas import (
    ContextResult,
    DocumentChange,
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    ReportStatus,
    Timestamp,
)
from freki.schemas.avro import UnencodableError
from freki.schemas.document_report import NOT_ADMITTED, UNREADABLE, WITHHELD
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.names import LARGEST_INTEGER

_log = structlog.get_logger(__name__)
_PAGE = Path(__file__).parent / "page"
_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
_LOCKED = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_STORED = {
    "type": "object",
    "properties": {"status": {"const": "STORED"}, "document_id": {"type": "string"}},
    "required": ["status", "document_id"],
}
Next = Callable[[Request], Awaitable[Response]]


def _in_digits(given: object) -> object:
    if isinstance(given, str) and not re.fullmatch("-?[0-9]+", given):
        # Pydantic reads 1_0 as 10.
        raise ValueError("it is no number in digits")
    return given


Digits = Annotated[int, BeforeValidator(_in_digits)]
"""Whole number in an address."""
Wait = Annotated[
    Digits, Query(ge=0, le=MOST_WAIT_MS, description="Wait so long for the receipt, in milliseconds; 0: answer at once")
]
Named = Annotated[str | None, Query(alias="tenant", description="Tenant; default: of the server, or of the token")]
_MOST_ERRORS = 50
"""Most fields that a refusal names."""
_PRINCIPAL = "principal"
"""The one parameter that may come several times."""
Principals = Annotated[tuple[str, ...], Query(alias=_PRINCIPAL, description="Without tokens: who asks")]
Limit = Annotated[Digits, Query(ge=1, le=100, description="Most documents or chunks of the page")]
Cursor = Annotated[str | None, Query(description="`next` of the page before")]
Version = Annotated[Digits, Query(ge=0, le=LARGEST_INTEGER, description="0: now, in milliseconds")]


def make_app(
    gateway: Gateway,
    settings: ServeSettings,
    *,
    tenant: str,
    callers: Callers,
    sizes: QuerySizes,
    answerer: Answerer,
    operations: Operations | None = None,
) -> FastAPI:
    """Return the application.

    tenant: of calls that name none. callers, sizes: tell who calls, and how large a call without a document may be; all
    APIs of the process share them. answerer: writes answers and marks hits. operations: for the routes of operators;
    None: there are none. Raises Misconfigured if callers are believed and other machines could call.
    """
    check_reach(settings, tokens=callers.have_tokens)
    api = HttpApi(gateway=gateway, guard=Guard(settings, callers, sizes), tenant=tenant)
    app = FastAPI(
        title="Freki",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        # Behind a proxy with TLS they would lead to http:, and clients send the body along.
        redirect_slashes=False,
        dependencies=[Depends(_check_parameters)],
        # Also in place of FastAPI's own description of 422.
        responses={"default": DESCRIBED},
    )
    app.router.route_class = GuardedRoute
    # For whoever changes its settings while it runs.
    app.state.guard = api.guard
    # Set when the server is told to stop: streams that never end would hold it up.
    app.state.stopping = asyncio.Event()
    _handle_errors(app)
    _check_requests(app, api.guard)
    _add_questions(app, api)
    add_steps(app, api)
    add_answers(app, api, answerer)
    add_vector_stores(app, api)
    _add_changes(app, api)
    _add_documents(app, api)
    if operations is not None:
        add_operations(app, api, operations)
    _add_page(app, gateway)
    return app


def _add_questions(app: FastAPI, api: HttpApi) -> None:
    Known = Annotated[Caller, Depends(api.guard.caller)]  # noqa: N806 - a type

    @app.post("/v1/queries", summary="Send a query")
    async def ask(body: Question, request: Request, caller: Known) -> ContextResult:
        return await asked(api, body, request, caller)

    @app.post("/v1/judgements", status_code=204, summary="Judge a document as an answer to a query")
    async def judge(body: Verdict, caller: Known) -> None:
        # With tokens nobody judges in another name; without, the caller says who judges.
        by = caller.name.partition("/")[2] if caller.token is not None else body.judge
        if not by:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "judge: say who judges")
        await api.gateway.judge(judgement_of(body, tenant=api.tenant_of(caller, body.tenant), judge=by))


def _add_changes(app: FastAPI, api: HttpApi) -> None:
    Known = Annotated[Caller, Depends(api.guard.publisher)]  # noqa: N806 - a type
    stored: dict[int | str, dict[str, Any]] = {
        202: {"description": "Stored; no receipt yet", "content": {"application/json": {"schema": _STORED}}}
    }

    @app.post("/v1/documents", summary="Publish a document", responses=stored)
    async def publish(body: Document, request: Request, caller: Known, wait_ms: Wait = 10_000) -> IndexOutcome:
        change = change_of(body, tenant=api.tenant_of(caller, body.tenant))
        return await _changed(api.gateway, change, request, wait_ms)

    @app.delete("/v1/documents/{document_id:path}", summary="Delete a document", responses=stored)
    async def delete(
        document_id: str,
        request: Request,
        caller: Known,
        *,
        named: Named = None,
        version: Version = 0,
        wait_ms: Wait = 10_000,
    ) -> IndexOutcome:
        change = DocumentChange(
            tenant=api.tenant_of(caller, named),
            document_id=DocumentId(document_id),
            operation=Operation.DELETE,
            version=version,
            occurred_at=Timestamp(0),
        )
        return await _changed(api.gateway, change, request, wait_ms)


def _add_documents(app: FastAPI, api: HttpApi) -> None:
    Known = Annotated[Caller, Depends(api.guard.caller)]  # noqa: N806 - a type

    @app.get("/v1/documents", summary="List documents")
    async def list_documents(
        caller: Known,
        *,
        named: Named = None,
        principals: Principals = (),
        prefix: str = "",
        language: str = "",
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> DocumentReport:
        query = documents_query(
            tenant=api.tenant_of(caller, named),
            kind=DocumentQueryKind.LIST,
            principals=principals,
            prefix=prefix,
            language=language,
            limit=limit,
            cursor=cursor,
        )
        return await _report(api.gateway, query, caller)

    @app.get("/v1/documents/{document_id:path}", summary="Show a document with its chunks")
    async def show(
        document_id: str,
        caller: Known,
        *,
        named: Named = None,
        principals: Principals = (),
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> DocumentReport:
        query = documents_query(
            tenant=api.tenant_of(caller, named),
            kind=DocumentQueryKind.SHOW,
            principals=principals,
            document_id=DocumentId(document_id),
            limit=limit,
            cursor=cursor,
        )
        return await _report(api.gateway, query, caller)


def _add_page(app: FastAPI, gateway: Gateway) -> None:
    @app.head("/health", include_in_schema=False)
    @app.get("/health", include_in_schema=False)
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.head("/health/ready", include_in_schema=False)
    @app.get("/health/ready", include_in_schema=False)
    async def ready() -> JSONResponse:
        if gateway.hears_broker:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "the broker does not answer"}, HTTPStatus.SERVICE_UNAVAILABLE)

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_PAGE / "index.html")

    @app.head("/operate", include_in_schema=False)
    @app.get("/operate", include_in_schema=False)
    async def operate() -> FileResponse:
        return FileResponse(_PAGE / "operate.html")

    app.mount("/static", StaticFiles(directory=_PAGE))


async def _changed(gateway: Gateway, change: DocumentChange, request: Request, wait_ms: int) -> IndexOutcome:
    with trace_of(request):
        receipt = await gateway.publish(change, wait_s=wait_ms / 1000)
    if receipt is None:
        raise _Stored(change.document_id)
    if receipt.status is OutcomeStatus.REJECTED:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, receipt.reason, version=receipt.version)
    return receipt


class _Stored(Exception):
    """The change is stored, and its receipt did not come in time."""


async def _report(gateway: Gateway, query: DocumentQuery, caller: Caller) -> DocumentReport:
    report = await answered(gateway.ask_documents(query, token=caller.token))
    if (refused := _refusal_of(report)) is not None:
        raise Problem(refused, report.message or "no such document, or you may not read it")
    return report


def _refusal_of(report: DocumentReport) -> HTTPStatus | None:
    """Return the status of what has no report, as of queries: 403 for tokens, 503 for worker and log; None: it has."""
    if report.status is ReportStatus.REJECTED and report.message.startswith(NOT_ADMITTED):
        return HTTPStatus.FORBIDDEN
    if report.status is ReportStatus.EXPIRED and report.message in {WITHHELD, UNREADABLE}:
        return HTTPStatus.SERVICE_UNAVAILABLE
    return {
        ReportStatus.NOT_FOUND: HTTPStatus.NOT_FOUND,
        ReportStatus.REJECTED: HTTPStatus.BAD_REQUEST,
        ReportStatus.EXPIRED: HTTPStatus.GATEWAY_TIMEOUT,
    }.get(report.status)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def answer_problem(_: Request, problem: Problem) -> Response:
        return problem.response()

    @app.exception_handler(_Stored)
    async def stored(_: Request, change: _Stored) -> Response:
        return JSONResponse({"status": "STORED", "document_id": str(change)}, status_code=HTTPStatus.ACCEPTED)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, _error: ClientDisconnect) -> Response:
        # Nobody hears it; unhandled, it would be logged as a failure of the server.
        return Problem(HTTPStatus.BAD_REQUEST, "the connection ended before the body").response()

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return _problem_of_http(request, error).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        # Values are not repeated: they may be content of documents.
        wrong = [_wrong(each) for each in error.errors()[:_MOST_ERRORS]]
        detail = "; ".join(f"{each['field']}: {each['message']}" for each in wrong)
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=wrong).response()

    @app.exception_handler(Rejected)
    async def rejected(_: Request, error: Rejected) -> Response:
        return problem_of(error).response()

    @app.exception_handler(UnencodableError)
    async def unencodable(_: Request, error: UnencodableError) -> Response:
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)).response()

    @app.exception_handler(Unavailable)
    @app.exception_handler(Misconfigured)
    async def down(_: Request, error: InfraError) -> Response:
        _log.warning("call not answered", reason=str(error))
        return problem_of(error).response()


def _problem_of_http(request: Request, error: HTTPException) -> Problem:
    """Return what the framework refuses as a problem that says what to change."""
    if (why := _unreadable(error.__cause__)) is not None:
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"body: {why}")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(_methods(request)))
        detail = f"{request.method} does not go here: use {allowed}"
        return Problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(HTTPStatus.NOT_FOUND, "there is no such address: /v1/openapi.json lists all")
    return Problem(HTTPStatus(error.status_code), str(error.detail), headers=error.headers)


def _methods(request: Request) -> set[str]:
    """Return what an address has; Starlette names the methods of its first route only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    # Files of the page have no routes.
    return found or {"GET", "HEAD"}


def _unreadable(error: BaseException | None) -> str | None:
    """Return why a body is none, where FastAPI only says that it is; None: the error is another one."""
    match error:
        case UnicodeDecodeError():
            return f"byte {error.start} is no UTF-8; send JSON in UTF-8"
        case RecursionError():
            return "it is nested too deep"
        case RepeatedName():
            return str(error)
        case ValueError():
            # Of Python's integers: an error in JSON has a place, and comes another way.
            return "a number in it has too many digits"
    return None


def _wrong(error: Mapping[str, Any]) -> dict[str, str]:
    if error["type"] == "json_invalid":
        # Its place is no field.
        return {"field": "body", "message": f"no JSON at character {error['loc'][1]}: {error['ctx']['error']}"}
    # Names are those that the caller sent.
    field = ".".join(map(str, error["loc"][1:])) or str(error["loc"][0])
    return {"field": fitting(field), "message": error["msg"]}


def _check_parameters(request: Request) -> None:
    """Raise Problem for a parameter that the route does not have, or that comes twice.

    A mistyped `tenant` would mean the default one; of two, a proxy that checks calls may have read the other one.
    """
    if not request.url.path.startswith("/v1/"):
        return  # pages read their own ones
    given, known = request.query_params, _parameters(request.scope["route"].dependant)
    if unknown := sorted(given.keys() - known):
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{unknown[0][:40]}: no parameter of this route; {has}")
    if twice := sorted(name for name in given.keys() - {_PRINCIPAL} if len(given.getlist(name)) > 1):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{twice[0]}: it comes more than once; send it once")


def _parameters(dependant: Dependant) -> set[str]:
    return {field.alias for field in dependant.query_params}.union(*map(_parameters, dependant.dependencies))


def _check_requests(app: FastAPI, guard: Guard) -> None:
    @app.middleware("http")
    async def checked(request: Request, call_next: Next) -> Response:
        try:
            if request.url.path not in ("/health", "/health/ready"):
                guard.check_request(request)
            response = await call_next(request)
        except Problem as problem:
            response = problem.response()
        except Exception as error:  # noqa: BLE001 - a call ends with a status
            _log.error("call failed", exc_info=error)
            response = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the server's log says why").response()
        response.headers["X-Request-Id"] = request.headers.get("x-request-id", "")[:64] or secrets.token_hex(8)
        response.headers.update(_LOCKED)
        return response
