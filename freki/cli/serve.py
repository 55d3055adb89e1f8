"""`freki serve`: documents, queries and judgements over HTTP and gRPC, and a page for people."""

import asyncio
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from socket import socket
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from freki.cli.context import command, errors, of_local_stack, read_or_exit
from freki.cli.refused_tokens import recording
from freki.cli.reloading import on_hangup, source_of
from freki.client.tasks import cancel_and_wait
from freki.infra.api.callers import Callers
from freki.infra.api.certificate import Certificate, open_certificate
from freki.infra.api.sizes import QuerySizes
from freki.infra.extras import require
from freki.infra.listening import listening, server_config, signals_handled_by
from freki.infra.settings import ServeSettings, Settings
from freki.infra.telemetry.logs import set_up_logging
from freki.schemas import TenantId
from freki.schemas.errors import Unavailable
from freki.streams.client import Asker
from freki.streams.gateway import Gateway
from freki.streams.wire.answers import open_answerer
from freki.streams.wire.authentication import open_judge
from freki.streams.wire.connect import open_asker
from freki.streams.wire.gateway import open_gateway
from freki.streams.wire.operations import Operations
from freki.streams.wire.reload import Reloader, TakeOver, telemetry_by

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from freki.infra.grpc_server.server import GrpcServer

USED = frozenset(
    {
        *("tenant", "kafka", "registry", "auth", "audit", "encryption", "claims", "retrieval", "telemetry"),
        *("local", "serve", "llm", "milvus"),
    }
)
"""Parts of the settings that this process reads."""
STOP_S = 30
"""Longest wait for calls under way when the server stops, in seconds."""


@command
async def serve(
    *,
    direct: Annotated[
        bool,
        typer.Option("--direct", help="Answer in this process instead of over the topics: FREKI_SERVE__DIRECT"),
    ] = False,
) -> None:
    """Serve HTTP and gRPC at FREKI_SERVE__HOST for services, and a page for people (/)."""
    require("serve")
    from freki.infra.http_server.app import make_app  # noqa: PLC0415 - an extra
    from freki.infra.http_server.guard import check_reach  # noqa: PLC0415 - the same

    read = read_or_exit()
    settings = of_local_stack(read)
    set_up_logging(settings.telemetry)
    reloader = Reloader(source_of(read, USED), read)
    on_hangup(reloader.ask)

    def connect(tenant: TenantId) -> AbstractAsyncContextManager[Asker]:
        # The local stack may have started or moved since.
        return open_asker(of_local_stack(reloader.settings), tenant=tenant)

    serving, tenant = settings.serve, settings.tenant
    certificate = open_certificate(serving)
    async with AsyncExitStack() as opened:
        identify = None
        if settings.auth.required:
            identify = (await opened.enter_async_context(open_judge(settings.auth))).identify
        on_refused = (
            await opened.enter_async_context(recording(settings, "freki serve")) if identify is not None else None
        )
        callers = Callers(serving, identify, on_refused=on_refused)
        here = None
        if direct or serving.direct:
            # Models, and all of retrieval: most processes that serve need neither.
            from freki.streams.wire.direct import open_direct  # noqa: PLC0415

            here = await opened.enter_async_context(open_direct(settings, reloader.reloadable))
        gateway = await opened.enter_async_context(open_gateway(settings, connect=connect, direct=here))
        answerer = await opened.enter_async_context(open_answerer(settings))
        operations = Operations(lambda: of_local_stack(reloader.settings))
        sizes = QuerySizes(settings.retrieval.max_query_chars)
        app = make_app(
            gateway,
            serving,
            tenant=tenant,
            callers=callers,
            sizes=sizes,
            answerer=answerer,
            operations=operations,
        )

        def prepare(after: Settings) -> TakeOver:
            check_reach(after.serve, tokens=callers.have_tokens)

            def take_over() -> None:
                app.state.guard.take_over(after.serve)
                gateway.deadline_ms = after.retrieval.deadline_ms
                sizes.max_query_chars = after.retrieval.max_query_chars

            return take_over

        reloader.reloadable.add(prepare)
        reloader.reloadable.add(telemetry_by)
        following = asyncio.create_task(reloader.follow())
        opened.callback(following.cancel)
        if certificate is not None:
            opened.callback(asyncio.create_task(certificate.follow()).cancel)
        grpc = None
        if serving.grpc_port is not None:
            from freki.infra.grpc_server.server import GrpcServer  # noqa: PLC0415 - an extra

            grpc = GrpcServer(gateway, serving, tenant=tenant, callers=callers, sizes=sizes, certificate=certificate)
            await _start_grpc(grpc, serving)
        await _run(app, serving, gateway, certificate, grpc)


async def _start_grpc(server: "GrpcServer", settings: ServeSettings) -> None:
    """Start the gRPC server, and print its address."""
    port = await server.start()
    errors.print(f"gRPC at {_address(settings, port)}", highlight=False, soft_wrap=True)


def _address(settings: ServeSettings, port: int) -> str:
    return f"[{settings.host}]:{port}" if ":" in settings.host else f"{settings.host}:{port}"


def _announcing(settings: ServeSettings, stopping: asyncio.Event) -> type["uvicorn.Server"]:
    """Return a server that prints its address once it listens; stopping: is set when it is told to stop."""
    import uvicorn  # noqa: PLC0415 - an extra

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            with listening("FREKI_SERVE", settings.host, settings.port):
                await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            scheme = "http" if settings.cert_file is None else "https"
            told = f"serving at {scheme}://{_address(settings, port)}/ until Ctrl-C"
            errors.print(told, highlight=False, soft_wrap=True)

        async def shutdown(self, sockets: list[socket] | None = None) -> None:
            stopping.set()
            await super().shutdown(sockets)

        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
            return signals_handled_by(self.handle_exit)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            stopping.set()
            super().handle_exit(sig, frame)

    return Announcing


async def _run(
    app: "FastAPI",
    settings: ServeSettings,
    gateway: Gateway,
    certificate: Certificate | None,
    grpc: "GrpcServer | None",
) -> None:
    """Serve until the process is told to stop, or the broker is lost for good.

    Raises Misconfigured if it cannot listen.
    """
    config = server_config(
        app,
        settings,
        server_header=False,
        timeout_graceful_shutdown=STOP_S,
        ssl_context_factory=None if certificate is None else lambda _config, _default: certificate.context,
    )
    server = _announcing(settings, app.state.stopping)(config)
    serving, broken = asyncio.create_task(server.serve()), asyncio.create_task(gateway.broken())
    told = asyncio.create_task(app.state.stopping.wait())
    try:
        await asyncio.wait({serving, broken, told}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await asyncio.gather(serving, *([] if grpc is None else [grpc.stop(STOP_S)]))
        if broken.done():
            broken.result()
            raise Unavailable("receipts are not read any more")
    finally:
        await cancel_and_wait([broken, told])
