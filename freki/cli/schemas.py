"""Commands for the contracts of the topics and of gRPC: list, export, check."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from freki.cli.arguments import given_path
from freki.cli.context import console, fail
from freki.cli.rows import whole_table
from freki.schemas.avro import export_schemas, list_schemas
from freki.schemas.avro.compatibility import check_frozen, check_records
from freki.schemas.proto import export_protos

schemas_app = typer.Typer(help="The contracts of the topics, and of gRPC.", no_args_is_help=True)

_DIGITS = 12
"""Number of hexadecimal digits shown of a digest."""


@schemas_app.command("list")
def schemas_list() -> None:
    """List records, topics, versions, fingerprints, and the first digits of each frozen file's SHA-256."""
    # No borders, so that nothing is cut off in a terminal of 80 columns.
    table = Table("record", "topic", "version", "fingerprint", "SHA-256", box=None, pad_edge=False)
    for entry in list_schemas():
        table.add_row(entry.record, entry.topic, str(entry.version), entry.fingerprint, entry.sha256[:_DIGITS])
    console.print(table)


@schemas_app.command("export")
def schemas_export(
    directory: Annotated[Path, typer.Argument(parser=given_path, help="Folder for the .avsc and .proto files")],
) -> None:
    """Write the Avro contracts of the topics, and the protobuf ones of gRPC, for programs in other languages."""
    try:
        written = [*export_schemas(directory), *export_protos(directory)]
    except OSError as error:
        fail(f"{error.filename or directory} cannot be written: {error.strerror}", code=2)
    for path in written:
        console.print(str(path))


@schemas_app.command("check")
def schemas_check() -> None:
    """Check that frozen versions are unchanged and that the versions of each record are compatible as declared."""
    checks, altered = check_records(), check_frozen()
    table = whole_table("record", "versions", "compatibility", "state")
    for check in checks:
        state = "[red]broken[/]" if check.problems else "[green]ok[/]"
        table.add_row(check.record, str(check.versions), check.compatibility, state)
    console.print(table)
    problems = [f"{check.record}: {problem}" for check in checks for problem in check.problems]
    for problem in [*altered, *problems]:
        console.print(Text(problem, style="red"))
    if altered or problems:
        raise typer.Exit(1)
    console.print(f"{sum(check.versions for check in checks)} frozen versions are unchanged")
