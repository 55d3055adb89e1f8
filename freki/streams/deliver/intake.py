"""Intake of a stage: the filter and the decoder of its records."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from opentelemetry.context import Context

from freki.schemas.names import Timestamp
from freki.streams.messages import Received, Stored

T = TypeVar("T")

Decode = Callable[[bytes | None], T]
"""Decoder of a value; None is a tombstone. Any exception means that the record is bad."""
Prepare = Callable[[Sequence[bytes | None]], Awaitable[None]]
"""Fetches what decoding these values needs, such as schemas; decoding itself does no I/O."""
RecordFilter = Callable[[Stored], bool]
"""Predicate: whether this stage processes a record; another stage processes the others."""


class NullKey(Exception):
    """The record has no key, hence no document and no order."""


class NullValue(Exception):
    """The value is null on a topic without tombstones."""


@dataclass(frozen=True, slots=True)
class Intake(Generic[T]):
    """Filter and decoder of a stage's records."""

    decode: Decode[T]
    prepare: Prepare | None = None
    accepts: RecordFilter | None = None
    """None: the stage processes all records."""
    keyed: bool = True
    """Whether a record needs a key."""

    def read(self, stored: Stored, trace: Context) -> Received[T]:
        """Return the decoded record. Raises NullKey and the errors of `decode`."""
        if stored.key is None and self.keyed:
            raise NullKey("the key is null")
        return Received(
            value=self.decode(stored.value),
            key=stored.key or b"",
            headers=stored.headers,
            topic=stored.topic,
            partition=stored.partition,
            offset=stored.offset,
            timestamp=Timestamp(stored.timestamp_ms),
            trace=trace,
        )


def required(decode: Callable[[bytes], T]) -> Decode[T]:
    """Return a decoder for a topic without tombstones: a null value is a bad record."""

    def decode_value(value: bytes | None) -> T:
        if value is None:
            raise NullValue("the value is null, but this topic has no tombstones")
        return decode(value)

    return decode_value


def or_tombstone(decode: Callable[[bytes], T]) -> Decode[T | None]:
    """Return a decoder for a topic with tombstones: a null value passes as None."""
    return lambda value: None if value is None else decode(value)
