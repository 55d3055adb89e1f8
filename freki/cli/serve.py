"""`freki serve`: documents, questions and judgements over HTTP, and a page for people."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from signal import SIGINT, SIGTERM
from socket import socket
from typing import TYPE_CHECKING

from freki.cli.context import command, errors, load_settings
from freki.infra.settings import ServeSettings, Settings
from freki.operators.audit_chain import Event
from freki.schemas import AuditKind, TenantId
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.identity import RefusalReason
from freki.streams.audit.log import AuditUnwritable
from freki.streams.client import Asker
from freki.streams.gateway import Gateway
from freki.streams.wire.answers import open_answerer
from freki.streams.wire.audit import open_audit
from freki.streams.wire.authentication import open_judge
from freki.streams.wire.connect import open_asker, open_gateway, open_outbox
from freki.streams.wire.operations import Operations

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from freki.infra.http_server.guard import OnRefused

STOP_S = 30
"""Longest wait for calls under way when the server stops, in seconds."""


@command
async def serve() -> None:
    """Serve HTTP at FREKI_SERVE__HOST: an API for services (/v1), and a page for people (/)."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise Misconfigured("fastapi is not installed: pip install 'freki[serve]'")
    from freki.infra.http_server.app import make_app  # noqa: PLC0415 - an extra

    settings = load_settings()
    async with AsyncExitStack() as opened:
        identify = None
        if settings.auth.required:
            identify = (await opened.enter_async_context(open_judge(settings.auth))).identify
        gateway = await opened.enter_async_context(open_gateway(settings, connect=_opened))
        on_refused = await opened.enter_async_context(_recording(settings)) if identify is not None else None
        answerer = await opened.enter_async_context(open_answerer(settings))
        app = make_app(
            gateway,
            settings.serve,
            tenant=settings.tenant,
            identify=identify,
            on_refused=on_refused,
            answerer=answerer,
            operations=Operations(load_settings),
        )
        await _run(app, settings.serve, gateway)


@asynccontextmanager
async def _recording(settings: Settings) -> AsyncIterator["OnRefused | None"]:
    """Open the audit log for tokens that are refused here, before a worker sees them; None if there is none."""
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox) as audit:

        async def record(reason: RefusalReason, address: str) -> None:
            event = Event(kind=AuditKind.REFUSED, subject=f"freki serve, {address}", reason=reason)
            # Refused all the same where it cannot be written, which the log of the process says.
            with suppress(AuditUnwritable):
                if audit is not None:
                    await audit.record(event)

        yield None if audit is None else record


def _opened(tenant: TenantId) -> AbstractAsyncContextManager[Asker]:
    """Open an asker with settings read anew: the local stack may have started or moved since."""
    return open_asker(load_settings(), tenant=tenant)


def _announcing(settings: ServeSettings, stopping: asyncio.Event) -> type["uvicorn.Server"]:
    """Return a server that prints its address once it listens; stopping: set when it is told to stop."""
    import uvicorn  # noqa: PLC0415 - an extra

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                port = self.servers[0].sockets[0].getsockname()[1]
                scheme = "http" if settings.cert_file is None else "https"
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                errors.print(f"serving at {scheme}://{host}:{port}/ until Ctrl-C", highlight=False, soft_wrap=True)

        async def shutdown(self, sockets: list[socket] | None = None) -> None:
            stopping.set()
            await super().shutdown(sockets)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Uvicorn would raise the signal again in the end, and nothing of ours would be closed.
            loop = asyncio.get_running_loop()
            for number in (SIGINT, SIGTERM):
                loop.add_signal_handler(number, self.handle_exit, number, None)
            yield

    return Announcing


async def _run(app: "FastAPI", settings: ServeSettings, gateway: Gateway) -> None:
    """Serve until the process is told to stop, or the broker is lost for good."""
    import uvicorn  # noqa: PLC0415 - an extra

    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=settings.cert_file,
        ssl_keyfile=settings.key_file,
    )
    server = _announcing(settings, app.state.stopping)(config)
    serving, broken = asyncio.create_task(server.serve()), asyncio.create_task(gateway.broken())
    await asyncio.wait({serving, broken}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    if broken.done():
        broken.result()
        raise Unavailable("receipts are not read any more")
    broken.cancel()
