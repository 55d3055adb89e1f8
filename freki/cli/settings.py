"""`freki settings`: what is set and by what, whether it is valid, and files to begin with."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import given_path
from freki.cli.context import console, errors, fail, load_settings, read_or_exit
from freki.cli.rows import whole_table
from freki.cli.show import show_error
from freki.cli.words import counted
from freki.infra.durable_files import create_file
from freki.infra.settings import Settings
from freki.infra.settings.inspect import EffectiveSetting, Origin, given, schema, template
from freki.infra.settings.read import FILE_NAME
from freki.infra.settings.reload import differences

settings_app = typer.Typer(help="Settings: values, their origins, and whether they are valid.", no_args_is_help=True)


@settings_app.command("show")
def show(
    part: Annotated[str, typer.Argument(help="Only settings whose name contains this, such as kafka")] = "",
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Only those that are not by default")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead")] = False,
) -> None:
    """Show the settings in force here and where each comes from; secrets are masked."""
    found = [
        one
        for one in _in_force()
        if part.lower() in one.variable.lower() and not (changed and one.origin is Origin.DEFAULT)
    ]
    if as_json:
        # No markup and no wrapping: others read it.
        typer.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
        return
    table = whole_table("setting", "value", "from", box=None)
    # A name that is cut cannot be typed.
    table.columns[0].no_wrap = True
    for one in found:
        table.add_row(one.variable, Text(_shown(one.value)), one.origin)
    console.print(table if found else "no such setting" if part and not changed else "all settings have their defaults")


@settings_app.command("check")
def check(
    file: Annotated[
        Path | None,
        typer.Argument(
            parser=given_path, help="File that shall take the place of freki.toml: also says what the change needs"
        ),
    ] = None,
) -> None:
    """Check environment and freki.toml; exit code 2 and a line for each problem if something is wrong."""
    changed = sum(one.origin is not Origin.DEFAULT for one in _in_force())
    if file is None:
        _end_if_refused(read_or_exit())
        console.print(f"the settings are valid; {changed} of them not by default", highlight=False)
        return
    if not file.is_file():
        wrong = "is no file" if file.exists() else "does not exist"
        fail(f"{file} {wrong}; name the file that shall become {FILE_NAME}", code=2)
    # Environment variables win over both files: what they set does not differ.
    found = differences(read_or_exit(), checked := read_or_exit(file))
    _end_if_refused(checked)
    console.print(
        f"{file} is valid; it changes {counted(len(found.reloading) + len(found.restarting), 'setting')}", markup=False
    )
    for name in found.reloading:
        console.print(f"{name}: workers and `freki serve` take it over while they run", markup=False, soft_wrap=True)
    for name in found.restarting:
        console.print(f"{name}: needs a restart of what uses it", markup=False, soft_wrap=True)
    if found.reloading and found.restarting:
        console.print("Put in place as it is, the file is refused as a whole until the restart.")


@settings_app.command("schema")
def print_schema() -> None:
    """Print a JSON Schema of freki.toml, for editors that complete and check it."""
    typer.echo(json.dumps(schema(), ensure_ascii=False, indent=2))


@settings_app.command("init")
def init(
    file: Annotated[Path, typer.Argument(parser=given_path, help="File to write")] = Path(FILE_NAME),
) -> None:
    """Write a freki.toml with all settings, commented out, each with its default and meaning."""
    try:
        create_file(file, template().encode())
    except FileExistsError:
        fail(f"{file} exists; give another name, and copy from there what you need", code=2)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}", code=2)
    console.print(f"{file} is written: remove the # before what you change, then `freki settings check`", markup=False)


def _end_if_refused(settings: Settings) -> None:
    # It loads models' libraries, which no other command of this module needs.
    from freki.streams.wire.refusals import refusals  # noqa: PLC0415

    if found := refusals(settings):
        for problem in found:
            show_error(errors, problem)
        raise typer.Exit(2)


def _in_force() -> tuple[EffectiveSetting, ...]:
    return given(load_settings(), read=read_or_exit())


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
