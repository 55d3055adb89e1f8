"""Events of Debezium's outbox event router."""

import json

from freki.operators.errors import InvalidEnvelope
from freki.operators.map_envelope.envelope import Envelope, Event, Json, headers_of, key_of, ordered, payload_of


def read_outbox(envelope: Envelope) -> Event:
    """Return the event of a record; one without a value is a deletion.

    The view has `data` (the payload as JSON if valid, else text), `key` (the id of the aggregate) and `headers`.
    Versions are ordered by the time of the record, which the router takes from the outbox. Raises InvalidEnvelope.
    """
    data: Json = None
    if envelope.value is not None:
        try:
            text = envelope.value.decode()
        except UnicodeDecodeError as error:
            raise InvalidEnvelope(f"the payload is no UTF-8: {error}") from error
        data = _payload(text)
    return Event(
        deleted=envelope.value is None,
        view={"data": data, "key": key_of(envelope), "headers": headers_of(envelope)},
        occurred_at=envelope.timestamp,
        version=ordered(envelope.timestamp, envelope.offset),
    )


def _payload(text: str) -> Json:
    """Parse the payload: JSON, or JSON in a JSON string; else text."""
    value = _json(text)
    return _json(value) if isinstance(value, str) else payload_of(value)


def _json(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value
