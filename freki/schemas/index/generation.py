"""Parameters of an index, its size, and the log that says which index answers."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from freki.schemas.names import ChunkKind, Timestamp, record


@record
class KindEmbedder:
    """An additional embedder, for some kinds of chunks, which have a shard of their own."""

    kinds: tuple[ChunkKind, ...]
    embedder: str
    dim: int


@record
class Generation:
    """Parameters of an index; a change of any of them requires another index."""

    name: str
    embedder: str
    """Fingerprint of the default embedder, for all kinds without one of their own."""
    dim: int
    analyser: str
    kind_embedders: tuple[KindEmbedder, ...] = ()
    """Additional embedders; a full vector has one block per embedder, that of `embedder` first, then these in order."""

    @property
    def width(self) -> int:
        """Dimension of a full vector."""
        return self.dim + sum(each.dim for each in self.kind_embedders)


@record
class Statistics:
    """Size of an index."""

    documents: int
    """Live documents."""
    deleted: int
    """Deleted documents whose roots still exist."""
    chunks: int
    """Chunk rows of live revisions, and rows that are not yet deleted."""


@record
class GenerationEntry:
    """An entry of the log of generations, which all workers that answer follow."""

    entry_id: str
    generation: str
    serves: bool
    """Whether queries are answered from it from now on; otherwise workers only open it, so that a switch is quick."""
    at: Timestamp
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that queries on it need, by section, where they differ from the defaults."""


def serving(entries: Iterable[GenerationEntry]) -> GenerationEntry | None:
    """Return the last entry that serves; None if no generation has served yet."""
    return max((each for each in entries if each.serves), key=_by_time, default=None)


def answering(entries: Iterable[GenerationEntry], *, own: str) -> str:
    """Return the name of the generation that answers; own: that of the workers' settings, until one has served."""
    last = serving(entries)
    return own if last is None else last.generation


def offered(entries: Iterable[GenerationEntry]) -> dict[str, GenerationEntry]:
    """Return the last entry of each generation, by its name."""
    return {each.generation: each for each in sorted(entries, key=_by_time)}


def _by_time(entry: GenerationEntry) -> tuple[Timestamp, str]:
    return entry.at, entry.entry_id
