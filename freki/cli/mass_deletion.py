"""What is told of deletions that are held back, and the option that lets them through."""

from collections.abc import Collection
from typing import Annotated

import typer

from freki.cli.context import errors
from freki.cli.show import show_error
from freki.cli.words import counted
from freki.operators.mass_deletion import MIN_DELETIONS

SHOWN = 5
"""Maximum number of documents named."""

DeleteMost = Annotated[
    bool,
    typer.Option(
        "--delete-most",
        help=f"Delete documents though they are over half of a source and {MIN_DELETIONS} or more; only the first time",
    ),
]


def show_held_back(documents: Collection[str], *, known: int, source: str) -> None:
    """Print which documents of a source are not deleted because they are most of those known, and what to do."""
    named = ", ".join(sorted(documents)[:SHOWN]) + ", …" * (len(documents) > SHOWN)
    show_error(
        errors,
        f"{len(documents):,} of {counted(known, 'document')} of {source} seem to be gone, and none of them is deleted,"
        f" since so many at once may mean that the source is broken or another one: {named}."
        " If they are meant to go: --delete-most",
    )
