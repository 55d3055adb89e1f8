"""Records as they travel: as they lie on a topic, as a stage receives them, as it sends them on."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from opentelemetry.context import Context

from freki.schemas.names import Timestamp

Headers = tuple[tuple[str, bytes], ...]
"""In order; a name may stand more than once, and then the last one counts."""

VERSION_HEADER = "freki-version"
"""Of a tombstone: the version of the deletion that it follows, in decimal."""
RECORDED_AT_HEADER = "freki-recorded-at"
"""Of a record that was sent again: when it was first recorded, in milliseconds since 1970, in decimal."""
_MOST_DIGITS = 18

T_co = TypeVar("T_co", covariant=True)


class Stored(Protocol):
    """A record on a topic, undecoded."""

    @property
    def topic(self) -> str:
        """Where it lies."""

    @property
    def partition(self) -> int:
        """Which log of the topic."""

    @property
    def offset(self) -> int:
        """Its place in that log."""

    @property
    def timestamp_ms(self) -> int:
        """When the broker or the producer says that it was stored."""

    @property
    def key(self) -> bytes | None:
        """Fixes partition and order."""

    @property
    def value(self) -> bytes | None:
        """None: a tombstone."""

    @property
    def headers(self) -> Headers:
        """As sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Generic[T_co]):
    """A decoded record, as a stage gets it."""

    value: T_co
    key: bytes
    headers: Headers
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp
    trace: Context
    """Holds the span of this record: what is sent because of it belongs to its trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to send."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    trace: Context | None = None
    """Of the record that it is sent for; None: the current span's."""


def header(headers: Headers, name: str) -> bytes | None:
    """Read a header; None where there is none."""
    return dict(headers).get(name)


def version_in(headers: Headers) -> int:
    """Read the version that a tombstone names; 0 where it names none."""
    return number_in(headers, VERSION_HEADER)


def recorded_at(headers: Headers, timestamp: Timestamp) -> Timestamp:
    """Tell when a record was first recorded: by its timestamp, or earlier where a header says so. Never later."""
    given = number_in(headers, RECORDED_AT_HEADER)
    return Timestamp(min(given, timestamp)) if given else timestamp


def number_in(headers: Headers, name: str) -> int:
    """Read a header as a decimal number; 0 where there is none, or it is none."""
    given = header(headers, name) or b""
    return int(given) if given.isdigit() and len(given) <= _MOST_DIGITS else 0
