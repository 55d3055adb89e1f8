"""Records of a topic, and their positions."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record with undecoded key and value."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970-01-01T00:00:00Z, set by producer or broker."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = field(repr=False)
    """One of them may be a token."""


@dataclass(frozen=True, slots=True)
class Position:
    """Topic, partition and offset of a record."""

    partition: int
    offset: int
