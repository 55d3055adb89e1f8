"""A record as it lies on a topic."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was read, undecoded."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Since 1970-01-01T00:00:00Z, as the producer or the broker set it."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record was stored."""

    partition: int
    offset: int
