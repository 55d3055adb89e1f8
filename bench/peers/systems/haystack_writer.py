"""Haystack with its writer alone, DuplicatePolicy.OVERWRITE: what pipelines in its tutorials do with a second run."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.peers.system import Place
from bench.peers.systems.haystack import Haystack


@contextmanager
def open_system(place: Place) -> Iterator[Haystack]:
    """Open an empty index whose edits only write."""
    yield Haystack(place, delete_first=False)
