"""Serves tools by the Model Context Protocol: over stdio, or over HTTP."""

import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from http import HTTPStatus
from io import TextIOWrapper
from socket import socket
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from pydantic import ValidationError
from pydantic_core import from_json

from freki import __version__
from freki.infra.api.callers import Caller, Callers, CallRefused, Identify, Wrong
from freki.infra.api.forwarded import FORWARDED
from freki.infra.listening import listening, server_config, signals_handled_by
from freki.infra.settings import McpSettings
from freki.schemas import TenantId
from freki.schemas.errors import Misconfigured
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.names import FORBIDDEN_IN_TEXT
from freki.schemas.tools import Bearer, Tool, ToolReply

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.transport_security import TransportSecurityMiddleware
    from mcp.shared.message import SessionMessage
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Call = Callable[[str, Mapping[str, Any], Bearer | None], Awaitable[ToolReply]]
PATH = "/mcp"
_log = structlog.get_logger(__name__)
INVALID_REQUEST: Final = -32600
NO_MESSAGE: Final = (
    "Invalid Request: no message of JSON-RPC 2.0, half of a character (a lone surrogate), or an id that is neither a"
    " text nor a whole number"
)

_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""Who sends the request that is being answered."""


def make_server(tools: Sequence[Tool], call: Call, *, instructions: str) -> "Server":
    """Return a server that lists these tools and forwards calls. A failed reply becomes a tool error."""
    from mcp import types  # noqa: PLC0415 - an extra
    from mcp.server.lowlevel import Server  # noqa: PLC0415

    listed = types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=dict(tool.arguments),
                output_schema=dict(tool.results),
                annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )
            for tool in tools
        ]
    )

    async def list_tools(
        _context: "ServerRequestContext", _params: "PaginatedRequestParams | None"
    ) -> "ListToolsResult":
        return listed

    async def call_tool(_context: "ServerRequestContext", params: "CallToolRequestParams") -> "CallToolResult":
        try:
            reply = await call(params.name, params.arguments or {}, _bearer())
        except Exception as error:  # noqa: BLE001 - the library would send its text
            _log.error("call failed", exc_info=error)
            reply = ToolReply(text="Freki failed: the server's log says why")
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=reply.text)],
            structured_content=None if reply.content is None else dict(reply.content),
            is_error=reply.failed,
        )

    return Server(
        "freki", version=__version__, instructions=instructions, on_list_tools=list_tools, on_call_tool=call_tool
    )


async def serve_stdio(server: "Server") -> None:
    """Serve the parent process over stdio until its input is closed. Nothing else may write to stdout."""
    import anyio  # noqa: PLC0415 - comes with the extra
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - an extra

    passed, readable = anyio.create_memory_object_stream["SessionMessage | Exception"]()

    async def read_messages() -> None:
        async with passed, read:
            async for message in read:
                # The server would log it, and its sender would wait.
                if isinstance(message, Exception):
                    if not _is_blank(message):
                        await write.send(_no_message(message))
                else:
                    await passed.send(message)

    async with stdio_server(stdin=cast("Any", _lines())) as (read, write), anyio.create_task_group() as reading:
        reading.start_soon(read_messages)
        await server.run(readable, write, server.create_initialization_options())


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin, and one that is no message for each whose id no reply could have."""
    import anyio  # noqa: PLC0415 - comes with the extra

    text = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    try:
        async for line in anyio.wrap_file(text):
            yield "null" if _has_wrong_id(line) else line
    finally:
        # It would close stdin with it.
        text.detach()


def _has_wrong_id(message: str | bytes) -> bool:
    """Return whether a message is a request whose id is neither a text nor a whole number.

    The server would take it for a notification, and its sender would wait. A null is none: so some clients write
    notifications.
    """
    try:
        read = from_json(message)
    except ValueError:
        return False
    if not isinstance(read, dict) or "method" not in read:
        return False
    found = read.get("id")
    return isinstance(found, bool) or not isinstance(found, str | int | None)


def _is_blank(error: Exception) -> bool:
    """Return whether an error is about a line with nothing in it, which is no failed request."""
    return isinstance(error, ValidationError) and not str(error.errors()[0]["input"]).strip()


def _no_message(error: Exception) -> "SessionMessage":
    """Return the reply to a line that is no message, with its id where it can be read, as the rules of JSON-RPC say."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - an extra
    from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError  # noqa: PLC0415

    try:
        read = _read_from(error)
        problem = ErrorData(
            code=INVALID_REQUEST,
            message=NO_MESSAGE,
        )
    except (ValueError, RecursionError):
        read = None
        problem = ErrorData(code=PARSE_ERROR, message="Parse error: the line is no JSON")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=_id_of(read), error=problem))


def _read_from(error: Exception) -> object:
    """Return the JSON object of a line that is no message; None for another value.

    Raises ValueError or RecursionError where it is no JSON, or nested too deeply.
    """
    for each in error.errors() if isinstance(error, ValidationError) else ():
        if each["type"] == "json_invalid":
            # So the server calls half of a character too.
            return json.loads(each["input"])
        # Of a field that one of the kinds of messages has, and the line lacks, the input is the whole line.
        if each["type"] == "missing" and len(each["loc"]) == len(("kind", "field")):
            return each["input"]
    return None


def _id_of(message: object) -> str | int | None:
    """Return the id of a request, by which its sender finds the reply; None where there is none that can be sent."""
    # The id of a reply is that of the server's request.
    if not isinstance(message, Mapping) or message.keys() & {"result", "error"}:
        return None
    found = message.get("id")
    if isinstance(found, str):
        return None if FORBIDDEN_IN_TEXT.search(found) else found
    return found if isinstance(found, int) and not isinstance(found, bool) else None


async def serve_http(app: "Starlette", settings: McpSettings, *, announce: Callable[[], None]) -> None:
    """Serve the application of `make_app` until the process is stopped; announce: called once it listens.

    Raises Misconfigured if it cannot listen.
    """
    import uvicorn  # noqa: PLC0415 - comes with the extra

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            with listening("FREKI_MCP", settings.host, settings.port):
                await super().startup(sockets)
            announce()

        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
            return signals_handled_by(self.handle_exit)

    await Announcing(server_config(app, settings, lifespan="on")).serve()


def make_app(server: "Server", settings: McpSettings, *, callers: Callers, issuer: str | None = None) -> "Starlette":
    """Return the application at `/mcp`, which accepts configured host names only, so that no web page can call it.

    callers: tells who calls, by `identify_one` where the settings have a token for all; issuer: URL of the
    authorization server, where callers have tokens of their own: then the server is an OAuth resource server, as the
    protocol says.
    Raises Misconfigured if other machines could call it without a token, or no host name is allowed.
    """
    from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend  # noqa: PLC0415 - an extra
    from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings  # noqa: PLC0415
    from starlette.middleware.authentication import AuthenticationMiddleware  # noqa: PLC0415

    _check_reach(settings, issuer)
    hosts = [f"{host}:*" for host in _names(settings.host)] + list(settings.allowed_hosts)
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    )
    auth = None if issuer is None else _resource(settings, issuer)
    verifier = _CallerVerifier(issuer) if callers.have_tokens else None
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        host=settings.host,
        transport_security=security,
        token_verifier=verifier,
        auth=auth,
    )
    if verifier is not None and auth is None:
        app.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(verifier))
    # It would lead to http: behind a proxy with TLS, and to whatever host the request names.
    app.router.redirect_slashes = False
    app.add_middleware(_CallerMiddleware, callers=callers, security=TransportSecurityMiddleware(security))
    return app


def identify_one(settings: McpSettings, tenant: TenantId) -> Identify | None:
    """Return what compares tokens with the one of the settings, whose callers count as one; None without one."""
    if settings.token is None:
        return None
    expected = settings.token.get_secret_value().encode()

    async def identify(token: bytes) -> Identity | RefusalReason:
        if not secrets.compare_digest(token, expected):
            return RefusalReason.UNKNOWN_KEY
        return Identity(tenant=tenant, principals=(), subject="FREKI_MCP__TOKEN", token_id=None)

    return identify


class _CallerMiddleware:
    """Identifies callers as `freki serve` does, with its limits and its audit log, before bodies are read."""

    def __init__(self, app: "ASGIApp", callers: Callers, security: "TransportSecurityMiddleware") -> None:
        from mcp.server.transport_security import (  # noqa: PLC0415 - an extra
            DEFAULT_MAX_REQUEST_BODY_SIZE,
            RequestBodyLimitMiddleware,
        )

        self._app = app
        self._known = RequestBodyLimitMiddleware(self._answer_whole, DEFAULT_MAX_REQUEST_BODY_SIZE)
        self._callers = callers
        self._security = security

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        app: ASGIApp = self._app
        if scope["type"] == "http" and scope["path"] == f"{PATH}/":
            scope = {**scope, "path": PATH, "raw_path": PATH.encode()}
        # Where to get a token is told to everybody.
        if scope["type"] == "http" and scope["path"] == PATH:
            app = await self._refusal(scope) or (app if _caller.get() is None else self._known)
        await app(scope, receive, send)

    async def _answer_whole(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request whose body comes as one message."""
        from starlette.responses import JSONResponse  # noqa: PLC0415 - an extra

        body = await receive()
        if body["type"] != "http.request" or body.get("more_body"):
            # Its client has hung up: the application would log a traceback.
            return
        if _has_wrong_id(body["body"]):
            error = {"code": INVALID_REQUEST, "message": NO_MESSAGE}
            refusal = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, HTTPStatus.BAD_REQUEST)
            await refusal(scope, receive, send)
            return
        read = iter([body])

        async def again() -> "Message":
            return next(read, None) or await receive()

        await self._app(scope, again, send)

    async def _refusal(self, scope: "Scope") -> "Response | None":
        """Note who calls. Return the response of a refused call; None where the rest of the application answers it."""
        from starlette.requests import Request  # noqa: PLC0415 - an extra
        from starlette.responses import PlainTextResponse  # noqa: PLC0415

        request = Request(scope)
        # First, so that no web page uses up the failures of the address of its reader.
        if (refusal := await self._security.validate_request(request)) is not None:
            return refusal
        _caller.set(None)
        try:
            _caller.set(
                await self._callers.caller(
                    request.headers.getlist("authorization"),
                    address=request.client.host if request.client else "unknown",
                    forwarded=request.headers.getlist(FORWARDED),
                )
            )
            if request.method != "POST":
                # A stream of events would stay open, and none would come: each call is answered by its response.
                return PlainTextResponse("send a POST", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "POST"})
        except CallRefused as refused:
            if refused.wrong is Wrong.TOO_MANY:
                headers = {"retry-after": str(refused.retry_after_s)}
                return PlainTextResponse(refused.detail, HTTPStatus.TOO_MANY_REQUESTS, headers)
            if refused.wrong is Wrong.SEVERAL_TOKENS:
                return PlainTextResponse(refused.detail, HTTPStatus.BAD_REQUEST)
        return None


def _resource(settings: McpSettings, issuer: str) -> "AuthSettings":
    """Describe the server as a protected resource (RFC 9728), for clients that look for its authorization server."""
    from mcp.server.auth.settings import AuthSettings  # noqa: PLC0415 - an extra

    url = settings.url or f"http://{_names(settings.host)[0]}:{settings.port}{PATH}"
    try:
        # The audience is verified with the other claims.
        return AuthSettings.model_validate(
            {"issuer_url": issuer, "resource_server_url": url, "validate_token_resource": False}
        )
    except ValidationError as error:
        raise Misconfigured(
            f"FREKI_AUTH__ISSUER={issuer} and FREKI_MCP__URL={url} must be URLs: clients ask the first for"
            " tokens for the second"
        ) from error


def _bearer() -> Bearer | None:
    """Return who calls by a token of its own; None over stdio, and with the one configured token."""
    from mcp.server.auth.middleware.auth_context import get_access_token  # noqa: PLC0415 - an extra

    access = get_access_token()
    if access is None or not access.claims:
        return None
    return Bearer(token=access.token, tenant=access.claims[_TENANT])


_TENANT = "tenant"


class _CallerVerifier:
    """Returns the access token of the caller that the middleware identified."""

    def __init__(self, issuer: str | None) -> None:
        self._issuer = issuer

    async def verify_token(self, token: str) -> "AccessToken | None":
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415 - an extra

        caller = _caller.get()
        if caller is None:
            return None
        own = None if self._issuer is None else {"iss": self._issuer, _TENANT: caller.tenant}
        return AccessToken(token=caller.token or token, client_id=caller.name, scopes=[], claims=own)


def _check_reach(settings: McpSettings, issuer: str | None) -> None:
    if issuer is not None and settings.token is not None:
        raise Misconfigured(
            "FREKI_MCP__TOKEN is one token for all callers, and with FREKI_AUTH__JWKS each has its own: leave it out"
        )
    if settings.host in _LOOPBACK:
        return
    if settings.token is None and issuer is None:
        raise Misconfigured(
            f"FREKI_MCP__HOST is {settings.host}, which others can reach: set FREKI_AUTH__JWKS or"
            " FREKI_MCP__TOKEN, or leave the host out"
        )
    if not settings.allowed_hosts and settings.host in _ANY:
        raise Misconfigured(
            "FREKI_MCP__ALLOWED_HOSTS is empty: name the hosts by which clients call, such as "
            f'["freki.example.org:{settings.port}"]'
        )


_ANY = ("0.0.0.0", "::")  # noqa: S104 - never the default
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _names(host: str) -> list[str]:
    """Return the names of a host as written in a URL."""
    names = _LOOPBACK if host in _LOOPBACK else (host,)
    return [f"[{name}]" if ":" in name else name for name in names]
