"""What servers of uvicorn need: their options, open files, signals, and words for why one cannot listen."""

import asyncio
import logging
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from signal import SIGINT, SIGTERM
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from freki.infra.settings import McpSettings, ServeSettings
from freki.schemas.errors import Misconfigured

if TYPE_CHECKING:
    import uvicorn

IDLE_S: Final = 620
"""Time without a request after which a connection is closed.

Longer than proxies keep one: nginx and AWS 60 s, Traefik 90, Caddy 120, Google Cloud 600. A request that is on its way
when the server closes is lost: its client sees a reset connection, or 502.
"""


@contextmanager
def listening(section: str, host: str, port: int) -> Iterator[None]:
    """Start a server of uvicorn in it; section: first part of the names of its settings, such as FREKI_SERVE.

    Raises Misconfigured, naming them, if the server cannot listen.
    """
    try:
        yield
    except SystemExit as error:
        # Uvicorn ends the process after it has logged the reason.
        raise Misconfigured(
            f"HTTP cannot listen at {host}:{port}; is the port taken? {section}__PORT names another one, "
            f"{section}__HOST the address"
        ) from error


@contextmanager
def signals_handled_by(handle_exit: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM call the method of a server of uvicorn, in place of its `capture_signals`.

    That would raise the signal again in the end, and nothing else of the process would be closed.
    """
    loop = asyncio.get_running_loop()
    for number in (SIGINT, SIGTERM):
        loop.add_signal_handler(number, handle_exit, number, None)
    yield


def server_config(app: Any, settings: ServeSettings | McpSettings, **options: Any) -> "uvicorn.Config":  # noqa: ANN401 - of uvicorn
    """Return the options of a server: as many connections as the system allows, and none whose request stays away."""
    import uvicorn  # noqa: PLC0415 - an extra

    from freki.infra.timed_requests import TimedRequests  # noqa: PLC0415 - the same

    raise_open_files()
    return uvicorn.Config(
        app,
        http=TimedRequests,
        host=settings.host,
        port=settings.port,
        log_level=logging.WARNING,
        access_log=False,
        # It would believe whoever calls from this machine, also what proxies on it only pass on.
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        **options,
    )


def raise_open_files() -> None:
    """Let this process open as many files, so connections, as the system allows it.

    Mostly it begins with 1,024, for programs that use `select`; a loop of asyncio without any left lets nobody in.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Refused where the maximum is named as infinite, and is not.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
