"""Shared by all commands: settings that find the local stack, consoles, and readable errors."""

import asyncio
import errno
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar
from urllib.parse import urlsplit

import typer

from freki.cli import ending
from freki.cli.show import show_error
from freki.cli.terminal import make_console
from freki.infra.durable_files import FULL
from freki.infra.local.state import is_changing, nearest_stack, settings_for
from freki.infra.settings import Settings
from freki.infra.settings.read import WrongSettings, read_settings
from freki.infra.telemetry.logs import set_up_command_logging
from freki.operators.errors import InvalidQuery, OperatorError
from freki.schemas.avro import UndecodableError, UnencodableError
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

P = ParamSpec("P")
R = TypeVar("R")

console = make_console()
errors = make_console(stderr=True)
_WRONG_PATH = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_OF_DISKS = FULL | {errno.EFBIG, errno.EIO}
"""Failures that say nothing of servers."""


def load_settings() -> Settings:
    """Read the settings; default to the running local stack if neither broker nor store is set.

    The stack may have been started in this folder or in one above it.
    """
    return of_local_stack(read_or_exit())


def of_local_stack(settings: Settings) -> Settings:
    """Return settings that name the servers of the running local stack, unless they name others or none runs."""
    if names_servers(settings) or (stack := nearest_stack(settings.local.state_dir)) is None:
        return settings
    local = settings.local.model_copy(update={"state_dir": stack.directory})
    return settings_for(settings.model_copy(update={"local": local}), stack)


def names_servers(settings: Settings) -> bool:
    """Tell whether the settings name a broker or a store."""
    return "bootstrap" in settings.kafka.model_fields_set or "uri" in settings.milvus.model_fields_set


def read_or_exit(file: Path | None = None) -> Settings:
    """Read the settings of environment and file alone; name what is wrong and end the command.

    file: in place of freki.toml.
    """
    try:
        return read_settings(file)
    except WrongSettings as error:
        for problem in error.problems:
            show_error(errors, problem)
        raise typer.Exit(2) from error


def command(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Run an async command; what its user can mend ends it with one line.

    Exit code 2: an option or a setting is wrong, or a named file or folder cannot be read or written; else 1.
    """

    @wraps(function)
    @ending.exit_if_abandoned()
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        set_up_command_logging()
        try:
            return ending.run(function(*args, **kwargs))
        except (KeyboardInterrupt, asyncio.CancelledError):
            fail("interrupted", code=130)
        except (InfraError, OperatorError) as error:
            message = _unavailable(error) if isinstance(error, Unavailable) else str(error)
            fail(message, code=2 if _is_named_wrongly(error) else 1)
        except UndecodableError as error:
            # Of a later Freki: what it says names the fix.
            fail(str(error))
        except UnencodableError as error:
            # No command makes a record but from its options.
            fail(str(error), code=2)
        except PermissionError as error:
            if error.filename is None:
                raise
            # Python 3.11 raises it even where a path in an inaccessible folder is only looked for.
            fail(f"no permission for {error.filename}: run this as a user who has it, or name another path", code=2)

    return run


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Have SIGTERM end a command as Ctrl-C does: what it has to set right before it ends is awaited."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("no command runs here")
    # Not by SIGINT: a background shell makes its children deaf to that.
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _is_named_wrongly(error: Exception) -> bool:
    """Return whether the same command would do with other options, settings or paths."""
    # No command takes a query but from its options.
    return isinstance(error, (Misconfigured, InvalidQuery)) or (
        isinstance(error, Rejected) and isinstance(error.__cause__, _WRONG_PATH)
    )


def nothing_runs(settings: Settings) -> str:
    """Return what to do where neither a local stack runs nor a broker is named."""
    named = settings.local.state_dir.expanduser()
    if is_changing(named):
        return f"the local stack in {named.absolute()} is being started or stopped: `freki up` says when it is ready"
    looked = f"{named}, which FREKI_LOCAL__STATE_DIR names" if named.is_absolute() else f"{Path.cwd()} or above it"
    return (
        f"nothing runs here: no local stack in {looked}, and no broker is named. Start one with"
        " `freki up`, or set FREKI_KAFKA__BOOTSTRAP and FREKI_MILVUS__URI"
    )


def _unavailable(error: Unavailable) -> str:
    """Return what is said of an outage: of a broker or store that nobody named or started, or of anything else."""
    settings = load_settings()
    addresses = (settings.kafka.bootstrap, urlsplit(settings.milvus.uri).netloc)
    if not names_servers(settings) and any(address in str(error) for address in addresses):
        return nothing_runs(settings)
    if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_DISKS:
        return str(error)
    return f"{error}; `freki status` shows what runs"


def fail(message: str, *, code: int = 1) -> NoReturn:
    """End the command with a message."""
    show_error(errors, message)
    raise typer.Exit(code)
