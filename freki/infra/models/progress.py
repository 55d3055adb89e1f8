"""Progress of making a model."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with completed and total units and the next action, from another thread."""


def unseen(done: int, total: int, message: str) -> None:
    """Ignore progress."""
