"""Whether a document change keeps its contract."""

import re

from freki.operators.errors import InvalidChange
from freki.schemas import ClaimCheck, DocumentChange, Operation
from freki.schemas.names import (
    FORBIDDEN_IN_LINE,
    FORBIDDEN_IN_TEXT,
    LANGUAGE_CODE,
    LARGEST_INTEGER,
    MAX_ID_BYTES,
    YEAR_10000_MS,
    ambiguous_tenant_reason,
)
from freki.schemas.stored_attributes import MAX_ATTRIBUTES_BYTES, attributes_bytes

MAX_NAME_BYTES = 512
MAX_URI_BYTES = 2048
MAX_MEDIA_TYPE_BYTES = 128
MAX_PRINCIPALS = 256
MAX_PRINCIPAL_BYTES = 128
MAX_ATTRIBUTE_KEY_BYTES = 128

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
# A page that shows a source as a link would run these.
_UNSAFE_URI = re.compile(r"\s*(javascript|vbscript|data)\s*:", re.IGNORECASE)


def validate_change(change: DocumentChange, *, key: str) -> None:
    """Raise InvalidChange for the first broken rule, with the field, the limit and the fix.

    key: of the record that carried the change. Nothing is repaired: a change is indexed as given, or not at all.
    Lengths are bytes of UTF-8, which is what the store counts.
    """
    _identity(change, key)
    _description(change)
    _readers(change)
    _attributes(change)
    _content(change)


def _identity(change: DocumentChange, key: str) -> None:
    _line("tenant", change.tenant, MAX_ID_BYTES)
    if (reason := ambiguous_tenant_reason(change.tenant)) is not None:
        raise InvalidChange(f"tenant: {reason}")
    _line("document_id", change.document_id, MAX_ID_BYTES)
    expected = f"{change.tenant}/{change.document_id}"
    if key != expected:
        raise InvalidChange(
            f"key: {key[:MAX_ID_BYTES]!r} is not tenant/document_id; send the record with the key {expected!r}"
        )
    if not 1 <= change.version <= LARGEST_INTEGER:
        raise InvalidChange(f"version: {change.version} is outside 1..2^63-1; start at 1 and grow with each change")
    if not 0 <= change.occurred_at < YEAR_10000_MS:
        raise InvalidChange(f"occurred_at: {change.occurred_at} is no time in milliseconds since 1970")


def _description(change: DocumentChange) -> None:
    if change.name is not None:
        _line("name", change.name, MAX_NAME_BYTES)
    if change.source_uri is not None:
        _line("source_uri", change.source_uri, MAX_URI_BYTES)
        if _UNSAFE_URI.match(change.source_uri):
            raise InvalidChange("source_uri: a reader could not follow it safely; give an address such as https://…")
    if change.media_type is not None:
        _line("media_type", change.media_type, MAX_MEDIA_TYPE_BYTES)
        if not _MEDIA_TYPE.fullmatch(change.media_type):
            raise InvalidChange(f"media_type: {change.media_type!r} is not of the form type/subtype; leave it out?")
    if change.language is not None and not LANGUAGE_CODE.fullmatch(change.language):
        raise InvalidChange(
            f"language: {change.language[:16]!r} is no ISO 639-1 code such as 'de'; leave it out to detect it"
        )


def _readers(change: DocumentChange) -> None:
    if len(change.principals) > MAX_PRINCIPALS:
        raise InvalidChange(f"principals: {len(change.principals)} are more than {MAX_PRINCIPALS}; name groups instead")
    for principal in change.principals:
        _line("principals", principal, MAX_PRINCIPAL_BYTES)


def _attributes(change: DocumentChange) -> None:
    for key, value in change.attributes.items():
        _line("attributes", key, MAX_ATTRIBUTE_KEY_BYTES, of="the name of an attribute")
        if FORBIDDEN_IN_TEXT.search(value):
            raise InvalidChange(f"attributes: the value of {key!r} holds a NUL or a lone surrogate; remove it")
    if (size := attributes_bytes(change.attributes)) > MAX_ATTRIBUTES_BYTES:
        raise InvalidChange(
            f"attributes: {len(change.attributes)} of them take {size} bytes in the store, which has each name two or "
            f"three times, and takes {MAX_ATTRIBUTES_BYTES}; keep fewer, or shorten names and values"
        )


def _content(change: DocumentChange) -> None:
    given = (change.content is not None) + (change.claim is not None)
    if change.operation is Operation.DELETE:
        if given:
            raise InvalidChange("content: a DELETE has none; leave out content and claim")
        return
    if given != 1:
        raise InvalidChange(f"content: an UPSERT needs either content or claim; {'both' if given else 'neither'} given")
    if isinstance(change.content, str) and (found := FORBIDDEN_IN_TEXT.search(change.content)):
        raise InvalidChange(
            f"content: a NUL or lone surrogate stands at character {found.start()}, so this is no plain text; "
            "remove it, or send the file's bytes with their media_type"
        )
    if change.claim is not None:
        _claim(change.claim)


def _claim(claim: ClaimCheck) -> None:
    _line("claim.uri", claim.uri, MAX_URI_BYTES)
    if claim.size < 0:
        raise InvalidChange(f"claim.size: {claim.size} is negative; give the number of bytes")
    if not _SHA256.fullmatch(claim.sha256):
        raise InvalidChange("claim.sha256: give the digest of the bytes as 64 hexadecimal digits")


def _line(field: str, text: str, max_bytes: int, *, of: str = "it") -> None:
    """Refuse what is empty, too long or more than one line of plain text; of: what of the field the text is."""
    if not text.strip():
        raise InvalidChange(f"{field}: {of} is empty; give it 1 to {max_bytes} bytes")
    if found := FORBIDDEN_IN_LINE.search(text):
        character = f"control character U+{ord(found[0]):04X}"
        raise InvalidChange(f"{field}: {of} holds {character} at {found.start()}; remove it")
    if (size := len(text.encode())) > max_bytes:
        raise InvalidChange(f"{field}: {of} has {size} bytes, more than {max_bytes}; shorten it")
