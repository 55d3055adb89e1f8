"""Kafka records: stored on a topic, received by a stage, and outgoing."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from opentelemetry.context import Context

from freki.client.messages import TOKEN_HEADER, VERSION_HEADER, Headers, Outgoing, Stored
from freki.schemas.names import LARGEST_INTEGER, Timestamp, is_known

__all__ = [
    "LAST_EDITION",
    "RECORDED_AT_HEADER",
    "REINDEX_HEADER",
    "TOKEN_HEADER",
    "VERSION_HEADER",
    "Headers",
    "Outgoing",
    "Received",
    "Stored",
    "edition_in",
    "has_unreadable_version",
    "header",
    "number_in",
    "place_of",
    "recorded_at",
    "request_in",
    "version_in",
    "without_token",
]

RECORDED_AT_HEADER = "freki-recorded-at"
"""Header of a replayed record: decimal time of its first recording, in milliseconds since 1970."""
REINDEX_HEADER = "freki-reindex"
"""Header of a change that repeats a stored one, and of its parts: decimal time of the request to reindex the version,
in milliseconds since 1970. It is the edition that the index gets."""
LAST_EDITION = 10**18 - 1
"""Highest edition that can be requested; repairs of it add 1 each, for which 64 bits have room."""
_MAX_DIGITS = len(str(LARGEST_INTEGER))
"""Maximum digits of a number in a header: Python refuses to read more than 4,300."""

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Generic[T_co]):
    """A decoded record, as a handler receives it."""

    value: T_co
    key: bytes
    headers: Headers = field(repr=False)
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp
    trace: Context
    """Context with the span of this record; records sent because of it join its trace."""
    asker: str = ""
    """User of the token that was accepted for it; empty where none was needed."""


def place_of(stored: Stored) -> dict[str, str | int]:
    """Return where a record is stored, as fields of a log entry."""
    return {"topic": stored.topic, "partition": stored.partition, "offset": stored.offset}


def header(headers: Headers, name: str) -> bytes | None:
    """Return the value of a header; None if it is absent."""
    return dict(headers).get(name)


def without_token(headers: Headers) -> Headers:
    """Return headers for a record that others may read."""
    return tuple((name, value) for name, value in headers if name != TOKEN_HEADER)


def version_in(headers: Headers) -> int:
    """Return the version in the headers of a tombstone; 0 if there is none."""
    return number_in(headers, VERSION_HEADER)


def has_unreadable_version(headers: Headers) -> bool:
    """Return whether the version in the headers of a tombstone is damaged: nobody knows which version it deletes."""
    return header(headers, VERSION_HEADER) is not None and not version_in(headers)


def recorded_at(headers: Headers, timestamp: Timestamp) -> Timestamp:
    """Return when a record was first recorded: the earlier one of its timestamp and its `RECORDED_AT_HEADER`.

    A time before 1971 in the header is none beside that of a broker: such a document would be due by no rule, ever.
    """
    first = Timestamp(number_in(headers, RECORDED_AT_HEADER))
    return min(first, timestamp) if first and (is_known(first) or not is_known(timestamp)) else timestamp


def edition_in(headers: Headers) -> int:
    """Return the edition that the headers of a change request; 0 if they request none, or one above `LAST_EDITION`."""
    edition = number_in(headers, REINDEX_HEADER)
    return edition if edition <= LAST_EDITION else 0


def request_in(headers: Headers) -> Headers:
    """Return the headers that request an edition, for the parts of a change; none if there is no request."""
    return tuple((name, value) for name, value in headers if name == REINDEX_HEADER)


def number_in(headers: Headers, name: str) -> int:
    """Return a header as a decimal number; 0 if it is absent, not a number, or more than any record can hold."""
    value = header(headers, name) or b""
    number = int(value) if value.isdigit() and len(value) <= _MAX_DIGITS else 0
    return number if number <= LARGEST_INTEGER else 0
