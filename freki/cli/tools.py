"""`freki tools` and `freki mcp`: tools for language models."""

import json
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Annotated

import typer

from freki.cli.arguments import Tenant, not_empty
from freki.cli.context import command, errors, load_settings
from freki.cli.refused_tokens import recording
from freki.infra.api.callers import Callers
from freki.infra.extras import require
from freki.infra.mcp_server import PATH, identify_one, make_app, make_server, serve_http, serve_stdio
from freki.infra.telemetry.traces import tracing
from freki.schemas import TenantId
from freki.schemas.query_options import MAX_DEADLINE_MS
from freki.streams.client import Asker
from freki.streams.tools.client import ClientsByTenant, ReconnectingClient
from freki.streams.tools.definition import INSTRUCTIONS, tools
from freki.streams.tools.json_schema import functions
from freki.streams.tools.toolbox import Toolbox, ToolCaller
from freki.streams.wire.authentication import open_judge
from freki.streams.wire.connect import CLIENT, open_asker
from freki.streams.wire.from_settings import wall_clock


def describe() -> None:
    """Print the tools as JSON for OpenAI's function calling, strict mode."""
    typer.echo(json.dumps(functions(tools()), indent=2, ensure_ascii=False))


@command
async def serve(
    *,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, at FREKI_MCP__HOST, instead of stdio")] = False,
    tenant: Tenant = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="User or group of the queries; may be repeated; default: FREKI_MCP__PRINCIPALS",
            callback=not_empty,
        ),
    ] = None,
    deadline: Annotated[
        int | None, typer.Option(help="Deadline of a call in milliseconds", min=1, max=MAX_DEADLINE_MS)
    ] = None,
) -> None:
    """Serve keyword_search, semantic_search and chunk_read over the Model Context Protocol."""
    require("mcp")
    settings = load_settings()
    caller = ToolCaller(
        tenant=TenantId(tenant or settings.tenant),
        principals=tuple(principal or settings.mcp.principals),
        deadline_ms=deadline or settings.retrieval.deadline_ms,
    )
    async with AsyncExitStack() as opened:
        # Connections come and go, and share it.
        opened.enter_context(tracing(settings.telemetry, CLIENT))
        # One for all tenants, unless each has a topic of its own for answers.
        client = (
            ReconnectingClient(partial(_opened, caller.tenant))
            if settings.auth.reply_topic is None
            else ClientsByTenant(_opened)
        )
        toolbox = Toolbox(await opened.enter_async_context(client), caller, now=wall_clock)
        server = make_server(tools(), toolbox.call, instructions=INSTRUCTIONS)
        if http:
            identify, issuer = identify_one(settings.mcp, caller.tenant), None
            if settings.auth.required:
                judge = await opened.enter_async_context(open_judge(settings.auth))
                identify, issuer = judge.identify, settings.auth.issuer or ""
            on_refused = (
                await opened.enter_async_context(recording(settings, "freki mcp")) if identify is not None else None
            )
            callers = Callers(settings.serve, identify, on_refused=on_refused)
            app = make_app(server, settings.mcp, callers=callers, issuer=issuer)
            told = f"serving at http://{settings.mcp.host}:{settings.mcp.port}{PATH} until Ctrl-C"
            await serve_http(app, settings.mcp, announce=partial(errors.print, told))
        else:
            await serve_stdio(server)


def _opened(tenant: TenantId) -> AbstractAsyncContextManager[Asker]:
    """Open an asker with settings read again: the local stack may have started or moved since."""
    return open_asker(load_settings(), tenant=tenant)
