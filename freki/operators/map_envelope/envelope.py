"""What all kinds of envelopes share: the record, what is read from it, and JSON."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from freki.operators.errors import InvalidEnvelope
from freki.schemas import Timestamp
from freki.schemas.names import record

Json = str | int | float | bool | list["Json"] | dict[str, "Json"] | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_BITS = 20
"""A million events of one millisecond keep their order; 42 bits are left for the time, enough until the year 2109."""


@record
class Envelope:
    """A record as it lies on its topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: Timestamp
    offset: int


@record
class Event:
    """What a record says: a view that the fields of a mapping point into."""

    deleted: bool
    view: Mapping[str, Json | bytes]
    occurred_at: Timestamp
    version: int
    """Grows with the changes of a document, as the source tells their order."""


def parse_json(text: bytes, what: str) -> Json:
    """Read JSON. Raises InvalidEnvelope, also where it is nested too deep or holds no real numbers."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidEnvelope(f"{what} is no JSON: {error}") from error
    return value


def parse_object(text: bytes, what: str) -> dict[str, Json]:
    """Read a JSON object."""
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise InvalidEnvelope(f"{what} is no JSON object")
    return value


def key_of(envelope: Envelope) -> Json:
    """Return a record's key: JSON without the schema that Kafka Connect may put around it, else text."""
    text = (envelope.key or b"").decode(errors="replace")
    try:
        return payload_of(json.loads(text))
    except (ValueError, RecursionError):
        return text


def payload_of(value: Json) -> Json:
    """Take off the schema that Kafka Connect's JSON converter puts around a value unless told otherwise."""
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def headers_of(envelope: Envelope) -> dict[str, Json]:
    """Return a record's headers as text; of a name that stands more than once the last one counts."""
    return {name: value.decode(errors="replace") for name, value in envelope.headers}


def parse_time(text: Json, what: str) -> Timestamp:
    """Read a time as RFC 3339 writes it, or a number of milliseconds since 1970."""
    try:
        if isinstance(text, int) and not isinstance(text, bool):
            return Timestamp(text)
        time = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise InvalidEnvelope(f"{what}: {str(text)[:64]!r} is no time such as 2026-01-31T12:00:00Z") from error
    if time.tzinfo is None:
        raise InvalidEnvelope(f"{what}: {str(text)[:64]!r} has no time zone")
    return Timestamp((time - _EPOCH) // timedelta(milliseconds=1))


def ordered(time: Timestamp, offset: int) -> int:
    """Make a version of a time; within a millisecond the order of the topic counts.

    Records of one partition whose times do not decrease get versions that grow.
    """
    return (max(0, time) << _OFFSET_BITS | offset % (1 << _OFFSET_BITS)) + 1


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
