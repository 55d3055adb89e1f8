"""Kafka records: stored on a topic, and outgoing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from opentelemetry.context import Context

Headers = tuple[tuple[str, bytes], ...]
"""Headers in order; of several with the same name the last one counts."""

VERSION_HEADER = "freki-version"
"""Header of a tombstone: decimal version of the deletion that it follows."""
TOKEN_HEADER = "freki-token"  # noqa: S105 - its name
"""Header of a query: the signed token of who asks. Whoever has it can ask: it stays out of all other records."""

T_contra = TypeVar("T_contra", contravariant=True)


class Stored(Protocol):
    """A record on a topic, undecoded."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def offset(self) -> int:
        """Offset in the partition."""

    @property
    def timestamp_ms(self) -> int:
        """Timestamp by the broker or the producer, in milliseconds since 1970."""

    @property
    def key(self) -> bytes | None:
        """Key, which determines partition and order."""

    @property
    def value(self) -> bytes | None:
        """Value; None is a tombstone."""

    @property
    def headers(self) -> Headers:
        """Headers as sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to send."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default=(), repr=False)
    trace: "Context | None" = None
    """Context of the record that causes this one; None: the current context."""
    partition: int | None = None
    """None: that of the key."""


class Sender(Protocol):
    """Sends records."""

    async def send(self, *records: Outgoing) -> None:
        """Return when the broker has stored all records, in order per key; raise the first error otherwise."""


@dataclass(frozen=True, slots=True)
class Sink(Generic[T_contra]):
    """Topic for values of one type, with their encoder."""

    outbox: Sender
    topic: str
    encode: Callable[[T_contra], bytes]

    def record(
        self, value: T_contra, *, key: bytes | None, trace: "Context | None" = None, headers: Headers = ()
    ) -> Outgoing:
        """Return a value as a record of the topic."""
        return Outgoing(topic=self.topic, key=key, value=self.encode(value), trace=trace, headers=headers)

    async def send(self, *records: Outgoing) -> None:
        """Send records as the outbox does."""
        await self.outbox.send(*records)
