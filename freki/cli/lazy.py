"""Commands whose modules are imported when they are called, so that none waits for the imports of all others."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from freki.cli.slow import message_if_slow


class Lazy(NamedTuple):
    """A command that is not imported yet."""

    target: str
    """`module:name` of a function, or of a Typer with commands of its own; the module lies in `freki.cli`."""
    summary: str
    """What the list of commands says; the first line of the command's own help."""


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is taken."""

    def __init__(self, declared: Mapping[str, Lazy]) -> None:
        self._declared = declared

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - Click has it from one package or another, by version
        module, _, attribute = self._declared[name].target.partition(":")
        found: typer.Typer | Callable[..., Any] = getattr(_imported(f"freki.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def _imported(name: str) -> ModuleType:
    """Import a module with the garbage collector off, which saves a fifth of the time, and freeze what was imported."""
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        # Two seconds of a processor: half a minute where others use it.
        with message_if_slow("loading the libraries of this command"):
            return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def lazy_group(declared: Mapping[str, Lazy]) -> type[TyperGroup]:
    """Return the class of a group with these commands."""

    class LazyGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as typer passes them
            super().__init__(**options)
            self.commands = _Commands(declared)  # type: ignore[assignment] # nothing is added later

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - as typer calls it
            return list(declared)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - as typer calls it
            """Return what the list of commands shows."""
            if cmd_name not in declared:
                return None
            return TyperCommand(cmd_name, help=declared[cmd_name].summary)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - as typer calls it
            """Return the command itself."""
            name, shown, rest = super().resolve_command(ctx, args)
            return name, self.commands[name] if shown is not None and name is not None else shown, rest

    return LazyGroup
