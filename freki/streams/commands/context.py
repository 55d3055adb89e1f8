"""What every command needs: settings that know the local stack, a console, and errors that people can read."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from tomllib import TOMLDecodeError
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console

from freki.infra.errors import InfraError, Unavailable
from freki.infra.local.state import read_stack, settings_for
from freki.infra.settings import Settings
from freki.operators.errors import OperatorError
from freki.streams.commands.show import show_error

P = ParamSpec("P")
R = TypeVar("R")

_OF_JSON = frozenset({"tuple_type", "dict_type", "mapping_type", "model_type"})
"""What pydantic says of a list or a table that is none."""

console = Console()
errors = Console(stderr=True)


def load_settings() -> Settings:
    """Read the settings; where no broker or store is set and a local stack runs, use that one."""
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            name = "FREKI_" + "__".join(str(part) for part in problem["loc"]).upper()
            how = " (in the environment as JSON)" if problem["type"] in _OF_JSON else ""
            show_error(errors, f"{name}: {problem['msg']}; correct it in the environment{how} or in freki.toml")
        raise typer.Exit(2) from error
    except TOMLDecodeError as error:
        fail(f"freki.toml: {error}; correct it", code=2)
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    chosen = "bootstrap" in settings.kafka.model_fields_set or "uri" in settings.milvus.model_fields_set
    return settings if stack is None or chosen else settings_for(settings, stack)


def command(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Run an async command; a user's mistake or a world that is down ends with one line and exit code 1."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in ("aiokafka", "kafka"):
            # What they log they raise too, and then it is said in our words.
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            return asyncio.run(function(*args, **kwargs))
        except KeyboardInterrupt:
            fail("interrupted", code=130)
        except (InfraError, OperatorError) as error:
            hint = "; is it running? `freki up` starts a local stack" if isinstance(error, Unavailable) else ""
            fail(f"{error}{hint}")

    return run


def fail(message: str, *, code: int = 1) -> NoReturn:
    """End the command with a message."""
    show_error(errors, message)
    raise typer.Exit(code)
