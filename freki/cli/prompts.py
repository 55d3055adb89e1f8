"""Questions to the person at the terminal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from freki.cli.context import console, fail


def agreed(what: str) -> bool:
    """Ask whether to do something, in the infinitive; end the command where nobody can answer, at Ctrl-C or Ctrl-D."""
    if not console.is_terminal:
        fail(f"this would {what}: give --yes to do it", code=2)
    try:
        with _interruptible():
            return typer.confirm(f"{what[0].upper()}{what[1:]}?")
    except typer.Abort:
        # The line of the question has no end yet.
        console.print()
        fail("interrupted", code=130)


def answered(question: str) -> str:
    """Ask for a line, which may be empty; Ctrl-C ends the command at once."""
    with _interruptible():
        answer: str = typer.prompt(question, default="", show_default=False)
    return answer


@contextmanager
def _interruptible() -> Iterator[None]:
    # The event loop would keep Ctrl-C until the line is typed.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
