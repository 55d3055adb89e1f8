"""Mapping of an event to a document change."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

from freki.operators.errors import InvalidEnvelope
from freki.operators.map_envelope.envelope import Event, Json, ordered, parse_time
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId
from freki.schemas.names import record

_UNAVAILABLE = "__debezium_unavailable_value"
"""Placeholder for an unchanged large column that PostgreSQL does not log."""
_MAX_DIGITS = 100
"""Maximum digits of a version in a text: more than any has; Python refuses to read more than 4,300."""


@record
class Fields:
    """Sources of the fields of a document.

    A text that begins with a slash is a JSON pointer (RFC 6901) into the view of the event, any other text is the value
    itself; None leaves a field out.
    """

    document_id: str
    prefix: str
    """Prefix of every document id."""
    content: str
    title: str | None
    media_type: str | None
    language: str | None
    source_uri: str | None
    principals: tuple[str, ...]
    """Principals; a pointer yields a name or a list of names, and if it finds nothing, nobody may read the document."""
    attributes: Mapping[str, str]
    version: str | None
    """Version, a number or time; None: that of the event."""
    event_type: str | None
    deleted_types: tuple[str, ...]
    """Patterns of the types of deletions, such as `*.deleted`."""
    priority: int


def to_changes(event: Event, fields: Fields, *, tenant: TenantId) -> list[DocumentChange]:
    """Return the document change of an event; before it the deletion of what its row was, if that has another id.

    Raises InvalidEnvelope as `to_change` does.
    """
    change = to_change(event, fields, tenant=tenant)
    former = (
        None if event.former is None else _text(replace(event, view=event.former), "document_id", fields.document_id)
    )
    if not former or fields.prefix + former == change.document_id:
        return [change]
    deletion = DocumentChange(
        tenant=tenant,
        document_id=DocumentId(fields.prefix + former),
        operation=Operation.DELETE,
        version=change.version,
        occurred_at=change.occurred_at,
        priority=change.priority,
    )
    return [deletion, change]


def without_overtaken(mapped: Iterable[tuple[bytes | None, Sequence[DocumentChange]]]) -> list[DocumentChange]:
    """Return the changes of consecutive records in order, without deletions of documents that another row has taken.

    mapped: the key of each record, which identifies its row (None: unknown), and its changes. Two rows may swap their
    document ids in one transaction: the first takes the id of the second, which gives it up only afterwards, so that
    the deletion is the later change. The same where a row takes the id of one that is deleted afterwards.
    """
    owners: dict[DocumentId, bytes | None] = {}
    kept: list[DocumentChange] = []
    for key, changes in mapped:
        for change in changes:
            owner = owners.get(change.document_id)
            if change.operation is not Operation.DELETE:
                owners[change.document_id] = key
            elif owner is not None and key is not None and owner != key:
                continue
            kept.append(change)
    return kept


def to_change(event: Event, fields: Fields, *, tenant: TenantId) -> DocumentChange:
    """Return the document change of an event. Raises InvalidEnvelope naming the missing or invalid field.

    Content is text or bytes; objects and lists become JSON. Attributes that are missing
    or null are left out.
    """
    event_type = _text(event, "event_type", fields.event_type)
    deleted = event.deleted or any(fnmatchcase(event_type or "", pattern) for pattern in fields.deleted_types)
    document_id = _text(event, "document_id", fields.document_id)
    if not document_id:
        raise InvalidEnvelope(f"document_id: there is nothing at {fields.document_id}")
    make = partial(
        DocumentChange,
        tenant=tenant,
        document_id=DocumentId(fields.prefix + document_id),
        version=_version(event, fields.version),
        occurred_at=event.occurred_at,
        priority=fields.priority,
    )
    if deleted:
        return make(operation=Operation.DELETE)
    return make(
        operation=Operation.UPSERT,
        name=_text(event, "title", fields.title) or None,
        media_type=_text(event, "media_type", fields.media_type) or None,
        language=_text(event, "language", fields.language) or None,
        source_uri=_text(event, "source_uri", fields.source_uri) or None,
        principals=tuple(name for place in fields.principals for name in _names(event, place)),
        attributes=_attributes(event, fields.attributes),
        content=_content(event, fields.content),
    )


def _found(event: Event, place: str) -> Json | bytes:
    """Return the value of a pointer; None where there is none."""
    if not place.startswith("/"):
        return place
    first, *rest = (part.replace("~1", "/").replace("~0", "~") for part in place[1:].split("/"))
    value = event.view.get(first)
    for name in rest:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text(event: Event, field: str, place: str | None) -> str | None:
    value = None if place is None else _found(event, place)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise InvalidEnvelope(f"{field}: at {place} stands {_kind(value)}, not a text or a number")


def _names(event: Event, place: str) -> Sequence[str]:
    value = _found(event, place)
    names = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(name, str) for name in names):
        raise InvalidEnvelope(f"principals: at {place} stands {_kind(value)}, not a name or a list of names")
    return [str(name) for name in names]


def _attributes(event: Event, places: Mapping[str, str]) -> dict[str, str]:
    found = {name: _found(event, place) for name, place in places.items()}
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in found.items()
        if value is not None and not isinstance(value, bytes)
    }


def _content(event: Event, place: str) -> str | bytes:
    value = _found(event, place)
    if value == _UNAVAILABLE:
        raise InvalidEnvelope(
            f"content: {place} was not logged with this change; ALTER TABLE … REPLICA IDENTITY FULL makes it so"
        )
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, indent=1)
    raise InvalidEnvelope(f"content: at {place} stands {_kind(value)}, not a text")


def _version(event: Event, place: str | None) -> int:
    if place is None:
        return event.version
    value = _found(event, place)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        is_number = value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS
        return int(value) if is_number else ordered(parse_time(value, "version"), 0)
    raise InvalidEnvelope(f"version: at {place} stands {_kind(value)}, not a number or a time")


def _kind(value: Json | bytes) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
