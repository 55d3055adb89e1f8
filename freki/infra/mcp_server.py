"""Serves tools by the Model Context Protocol: over stdio, or over HTTP."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from freki import __version__
from freki.infra.settings import McpSettings
from freki.schemas.errors import Misconfigured
from freki.schemas.tools import Tool, ToolReply

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
    from starlette.applications import Starlette

Call = Callable[[str, Mapping[str, Any]], Awaitable[ToolReply]]
PATH = "/mcp"


def check_installed() -> None:
    """Raise Misconfigured if the package `mcp` is not installed."""
    if find_spec("mcp") is None:
        raise Misconfigured("mcp is not installed: pip install 'freki[mcp]'")


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
        reply = await call(params.name, params.arguments or {})
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
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - an extra

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(app: "Starlette", settings: McpSettings) -> None:
    """Serve the application of `make_app` until the process is stopped."""
    import uvicorn  # noqa: PLC0415 - comes with the extra

    config = uvicorn.Config(
        app, host=settings.host, port=settings.port, log_level=logging.WARNING, access_log=False, lifespan="on"
    )
    await uvicorn.Server(config).serve()


def make_app(server: "Server", settings: McpSettings) -> "Starlette":
    """Return the application at `/mcp`, which accepts configured host names only, so that no web page can call it.

    Raises Misconfigured if other machines could call it without a token, or no host name is allowed.
    """
    from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend  # noqa: PLC0415 - an extra
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415
    from starlette.middleware.authentication import AuthenticationMiddleware  # noqa: PLC0415

    _check_reach(settings)
    hosts = [f"{host}:*" for host in _names(settings.host)] + list(settings.allowed_hosts)
    verifier = None if settings.token is None else _OneToken(settings.token.get_secret_value())
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        host=settings.host,
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        ),
        token_verifier=verifier,
    )
    if verifier is not None:
        app.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(verifier))
    return app


class _OneToken:
    """Verifies the one configured token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> "AccessToken | None":
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415 - an extra

        if not secrets.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="freki", scopes=[])


def _check_reach(settings: McpSettings) -> None:
    if settings.host in _LOOPBACK:
        return
    if settings.token is None:
        raise Misconfigured(
            f"FREKI_MCP__HOST is {settings.host}, which others can reach: set FREKI_MCP__TOKEN, or leave the host out"
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
