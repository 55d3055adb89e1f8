"""Arguments that `freki eval`, `freki tune` and `freki ablate` share."""

from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import existing_path, given_path
from freki.streams.evaluate.parts import PartChoice

RESULTS = Path("evaluation-results")
NAME_CHARACTERS = 60
"""Maximum characters of the sets' names in a file name, which keeps it below the usual limit of 255 bytes."""

Sets = Annotated[
    list[Path],
    typer.Argument(parser=given_path, help="Sets as for `freki eval`, all of equal weight", show_default=False),
]
Corpus = Annotated[
    Path | None,
    typer.Option(
        parser=existing_path, help="Documents for gold questions that name none: folder, file or recorded stream"
    ),
]
Queries = Annotated[int | None, typer.Option(min=1, help="Maximum number of questions of each set")]
Part = Annotated[
    PartChoice | None,
    typer.Option(help="Part of the questions of divided sets; default: test", show_default=False),
]
Reviewed = Annotated[bool, typer.Option("--reviewed", help="Only questions kept in `freki questions review`")]
Running = Annotated[
    bool, typer.Option("--running", help="Use the running Freki with separate tenants, not separate stacks")
]
Out = Annotated[Path, typer.Option(parser=given_path, help="Folder for the report and its JSON")]
