"""Haystack with only its writer, DuplicatePolicy.OVERWRITE, as in repeated runs of its tutorial pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.peers.system import Place
from bench.peers.systems.haystack import Haystack


@contextmanager
def open_system(place: Place) -> Iterator[Haystack]:
    """Open an empty index whose edits delete nothing."""
    yield Haystack(place, delete_first=False)
