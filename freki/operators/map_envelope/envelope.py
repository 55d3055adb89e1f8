"""Common types and functions of envelopes: record, event and JSON."""

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
"""Bits of the offset in a version, enough for a million events per millisecond; 42 bits of time last until 2109."""


@record
class Envelope:
    """A record of a foreign topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: Timestamp
    offset: int


@record
class Event:
    """An event, with a view that the pointers of a mapping refer to."""

    deleted: bool
    view: Mapping[str, Json | bytes]
    occurred_at: Timestamp
    version: int
    """Version, which grows with the changes of a document in the order of the source."""
    former: Mapping[str, Json | bytes] | None = None
    """View of a row as it was before this change of it; None if that is unknown, or another event."""


def parse_json(text: bytes, what: str) -> Json:
    """Parse JSON. Raises InvalidEnvelope, also for excessive nesting and non-finite numbers."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidEnvelope(f"{what} is no JSON: {error}") from error
    return value


def parse_object(text: bytes, what: str) -> dict[str, Json]:
    """Parse a JSON object."""
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise InvalidEnvelope(f"{what} is no JSON object")
    return value


def key_of(envelope: Envelope) -> Json:
    """Return the key of a record: JSON without the schema of Kafka Connect, else text."""
    text = (envelope.key or b"").decode(errors="replace")
    try:
        return payload_of(json.loads(text))
    except (ValueError, RecursionError):
        return text


def payload_of(value: Json) -> Json:
    """Return the payload of a value without the schema that Kafka Connect's JSON converter adds by default."""
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def headers_of(envelope: Envelope) -> dict[str, Json]:
    """Return the headers of a record as text; of repeated names the last counts."""
    return {name: value.decode(errors="replace") for name, value in envelope.headers}


def parse_time(text: Json, what: str) -> Timestamp:
    """Parse a time in RFC 3339, or in milliseconds since 1970."""
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
    """Return the version of a time and offset, ordered by offset within a millisecond.

    Versions of a partition grow if its times do not decrease.
    """
    return (max(0, time) << _OFFSET_BITS | offset % (1 << _OFFSET_BITS)) + 1


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
