"""Progress that nobody sees."""

from collections.abc import Iterator
from contextlib import contextmanager

from freki.training.encoders import Advance


@contextmanager
def silent(title: str, total: int) -> Iterator[Advance]:
    """Show nothing, but see that no more is done than was said."""
    done = [0]

    def advance(count: int) -> None:
        done[0] += count
        assert done[0] <= total, f"{title}: {done[0]} of {total}"

    yield advance
