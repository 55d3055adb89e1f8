"""LangChain with the cleanup `scoped_full`, recommended by its reference for documents longer than a batch."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.peers.system import Place
from bench.peers.systems.langchain import LangChain


@contextmanager
def open_system(place: Place) -> Iterator[LangChain]:
    """Open an empty index whose edits are cleaned up at the end."""
    yield LangChain(place, cleanup="scoped_full")
