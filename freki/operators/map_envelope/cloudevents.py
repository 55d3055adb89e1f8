"""CloudEvents 1.0 on Kafka, in structured and in binary mode."""

import base64
from collections.abc import Mapping

from freki.operators.errors import InvalidEnvelope
from freki.operators.map_envelope.envelope import (
    Envelope,
    Event,
    Json,
    headers_of,
    key_of,
    ordered,
    parse_json,
    parse_object,
    parse_time,
)

_REQUIRED = ("id", "source", "type")
_PREFIX = "ce_"
_STRUCTURED = "application/cloudevents+json"


def read_cloudevent(envelope: Envelope) -> Event:
    """Return the event of a record; a record without a value is a deletion.

    The view has attributes and extensions by name, `data`, `key` and `headers`. Data is JSON where its type is JSON or
    missing, else text, else bytes. Versions are ordered by `time`, or by the record without it.
    Source: CloudEvents 1.0.2, Kafka protocol binding 3.2 and 3.3. Raises InvalidEnvelope.
    """
    headers = headers_of(envelope)
    content_type = str(headers.get("content-type", "")).partition(";")[0].strip().lower()
    if content_type.startswith("application/cloudevents"):
        if content_type != _STRUCTURED:
            raise InvalidEnvelope(f"content-type {content_type} is not read; send {_STRUCTURED}, or binary mode")
        attributes, data = _structured(envelope)
    elif f"{_PREFIX}specversion" in headers:
        attributes, data = _binary(envelope, headers, content_type)
    elif envelope.value is None:
        attributes, data = {}, None
    else:
        raise InvalidEnvelope("no CloudEvent: neither a header ce_specversion nor content-type " + _STRUCTURED)
    if attributes and (missing := [name for name in _REQUIRED if not attributes.get(name)]):
        raise InvalidEnvelope(f"no CloudEvent: {' and '.join(missing)} missing")
    time = parse_time(attributes["time"], "time") if attributes.get("time") else envelope.timestamp
    return Event(
        deleted=envelope.value is None,
        view={**attributes, "data": data, "key": key_of(envelope), "headers": headers},
        occurred_at=time,
        version=ordered(time, envelope.offset),
    )


def _structured(envelope: Envelope) -> tuple[Mapping[str, Json], Json | bytes]:
    event = parse_object(envelope.value or b"null", "the event")
    encoded = event.pop("data_base64", None)
    if encoded is None:
        return event, event.pop("data", None)
    try:
        content = base64.b64decode(str(encoded), validate=True)
    except ValueError as error:  # binascii.Error is one
        raise InvalidEnvelope(f"data_base64: {error}") from error
    return event, _data(content, str(event.get("datacontenttype", "")), assume_json=False)


def _binary(
    envelope: Envelope, headers: Mapping[str, Json], content_type: str
) -> tuple[Mapping[str, Json], Json | bytes]:
    attributes = {name.removeprefix(_PREFIX): value for name, value in headers.items() if name.startswith(_PREFIX)} | {
        "datacontenttype": content_type
    }
    data = None if envelope.value is None else _data(envelope.value, content_type, assume_json=True)
    return attributes, data


def _data(content: bytes, content_type: str, *, assume_json: bool) -> Json | bytes:
    bare = content_type.partition(";")[0].strip().lower()
    if bare.endswith(("/json", "+json")) or (assume_json and not bare):
        return parse_json(content, "data")
    if not bare.startswith("text/"):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
