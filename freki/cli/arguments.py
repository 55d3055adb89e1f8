"""Groups of command-line options: one parameter of a command stands for all options of its group."""

import inspect
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import typer

from freki.cli.context import fail

LARGEST_PRIORITY = 2**31 - 1
LEAST_WAIT_S = 0.1
"""Shortest wait that an option may name, in seconds: without any, no receipt would ever come in time."""
R = TypeVar("R")
Parser = TypeVar("Parser", bound=Callable[[str], object])
_EMPTY = "it is empty: give a value, or leave it out"


def not_empty(value: str | list[str] | None) -> str | list[str] | None:
    """Refuse an empty word: a variable that a script did not set would else stand for the default, or for everything.

    Also one of bytes that are not UTF-8, which Python hands on as lone surrogates: no record can hold it.

    Called by typer with the value of an argument or option.
    """
    words = [value] if isinstance(value, str) else value or []
    if not all(word.strip() for word in words):
        raise typer.BadParameter(_EMPTY)
    return utf_8(value)


def utf_8(value: str | list[str] | None) -> str | list[str] | None:
    """Refuse a word of bytes that are not UTF-8; called by typer as `not_empty`, where an empty word has a meaning."""
    words = [value] if isinstance(value, str) else value or []
    if any("\ud800" <= character <= "\udfff" for word in words for character in word):
        raise typer.BadParameter("it is not UTF-8: write it in this encoding")
    return value


def _shown_as(kind: str) -> Callable[[Parser], Parser]:
    """Return a decorator for parsers of values whose kind the help names: typer shows the name of the function."""

    def named(parser: Parser) -> Parser:
        parser.__name__ = kind
        return parser

    return named


@_shown_as("path")
def given_path(text: str) -> Path:
    """Return the path that a text names; refuse an empty one, which Python takes for the current folder.

    `parser` of each argument and option that is a path: `freki publish "$FOLDER"` would publish the folder in which a
    script runs that did not set FOLDER.
    """
    # Of any bytes: not each name of a file is UTF-8.
    if not str(text).strip():
        raise typer.BadParameter(_EMPTY)
    return Path(text)


@_shown_as("path")
def existing_path(text: str) -> Path:
    """Return the path of a file or folder that exists; as `given_path`."""
    path = given_path(text)
    if not path.exists():
        raise typer.BadParameter(f"{path} does not exist")
    return path


def finite(value: float | None) -> float | None:
    """Refuse infinity and what is no number; called by typer with the value of an option."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number of this kind")
    return value


Tenant = Annotated[str | None, typer.Option(help="Tenant of the documents; default: FREKI_TENANT", callback=not_empty)]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids, as `freki documents list` shows them", callback=not_empty)]
Priority = Annotated[
    int,
    typer.Option(help="Above 0: overtakes waiting changes; higher is indexed first", min=0, max=LARGEST_PRIORITY),
]
Patience = Annotated[
    float,
    typer.Option(help="Give up after this many seconds without a receipt", min=LEAST_WAIT_S, callback=finite),
]
WithWait = Annotated[
    float,
    typer.Option(
        help="With --wait: give up after this many seconds without a receipt", min=LEAST_WAIT_S, callback=finite
    ),
]


class ArgumentGroup:
    """Base of dataclasses whose fields are options, declared as `Annotated[..., typer.Option(...)]`."""

    panel: ClassVar[str | None] = None
    """Heading of the group in the help; None: the general one."""

    @classmethod
    def parameters(cls) -> Sequence[Parameter]:
        """Return the parameters that typer reads."""
        hints = get_type_hints(cls, include_extras=True)
        declared = []
        for each in fields(cls):  # type: ignore[arg-type] # a dataclass, by convention
            for info in getattr(hints[each.name], "__metadata__", ()):
                if isinstance(info, typer.models.OptionInfo):
                    info.rich_help_panel = info.rich_help_panel or cls.panel
            default = Parameter.empty if each.default is MISSING else each.default
            declared.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[each.name]))
        return declared


def expanded(function: Callable[..., Coroutine[Any, Any, R]]) -> Callable[..., Coroutine[Any, Any, R]]:
    """Replace each parameter whose type is a group of options by the options of the group."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, type[ArgumentGroup]] = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if isinstance(each.annotation, type) and issubclass(each.annotation, ArgumentGroup)
    }
    names = {name: [each.name for each in group.parameters()] for name, group in groups.items()}

    @wraps(function)
    async def run(**values: Any) -> R:  # noqa: ANN401 - as the options are declared
        for name, group in groups.items():
            values[name] = group(**{each: values.pop(each) for each in names[name]})
        return await function(**values)

    options = [each for group in groups.values() for each in group.parameters()]
    others = [each for name, each in signature.parameters.items() if name not in groups]
    run.__signature__ = signature.replace(parameters=[*others, *options])  # type: ignore[attr-defined]
    return run


def pair(text: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE; end the command where it is something else."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        fail(f"--attribute {text!r}: give key and value as KEY=VALUE", code=2)
    return key, value
