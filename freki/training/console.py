"""Console output: progress with remaining time, and errors in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from freki.schemas.errors import InfraError, Misconfigured
from freki.training.encoders import Advance

console = Console()
_NAMED_WRONGLY = (
    Misconfigured,
    FileNotFoundError,
    FileExistsError,
    NotADirectoryError,
    IsADirectoryError,
    PermissionError,
)


@contextmanager
def stage(title: str, total: int) -> Iterator[Advance]:
    """Show a progress bar of `total` units."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda count: progress.advance(bar, count)


@contextmanager
def explained() -> Iterator[None]:
    """Print expected errors as one line, and exit: with code 2 for a wrong option, setting or path, else with 1."""
    try:
        yield
    except (InfraError, OSError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, soft_wrap=True, highlight=False)
        raise typer.Exit(2 if isinstance(error, _NAMED_WRONGLY) else 1) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(130) from error
