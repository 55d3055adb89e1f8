"""How the making of a model is reported."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and what comes next; from another thread."""


def unseen(done: int, total: int, message: str) -> None:
    """Report to nobody."""
