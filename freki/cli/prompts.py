"""Questions to the person at the terminal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer


def confirmed(question: str) -> bool:
    """Ask a question that is answered with yes or no; Ctrl-C ends the command at once."""
    with _interruptible():
        return typer.confirm(question)


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
