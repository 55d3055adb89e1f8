"""What a server of uvicorn says if it cannot listen."""

from collections.abc import Iterator
from contextlib import contextmanager

from freki.schemas.errors import Misconfigured


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
