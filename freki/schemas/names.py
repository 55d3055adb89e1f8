"""Types shared by all records: ids, times, kinds and levels of chunks, and the record decorator."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from typing import Any, NewType, TypeVar, dataclass_transform

TenantId = NewType("TenantId", str)
DocumentId = NewType("DocumentId", str)
ChunkId = NewType("ChunkId", str)
"""128 bits of hash, as 32 hexadecimal digits; see `operators.identify`."""
RootId = NewType("RootId", str)
"""128 bits of hash of tenant and document id, as 32 hexadecimal digits: the key of a document in the store."""
QueryId = NewType("QueryId", str)
Timestamp = NewType("Timestamp", int)
"""Milliseconds since 1970-01-01T00:00:00Z."""
FIRST_YEAR_MS = 31_536_000_000
"""1971-01-01. Smaller numbers are no times: 0, a counter of a producer, files of an archive without dates."""
YEAR_10000_MS = 253_402_300_800_000
"""Numbers from here on are no times that readers of a record can show: years have four digits."""

LARGEST_INTEGER = 2**63 - 1
"""Largest integer that a record can hold."""
MAX_ID_BYTES = 512
"""Maximum size of the id of a document or tenant, in bytes of UTF-8."""
FORBIDDEN_IN_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that no id and no name has: controls, line separators, and surrogates, which UTF-8 cannot encode."""
FORBIDDEN_IN_TEXT = re.compile("[\x00\ud800-\udfff]")
"""Characters that no text has: the null character, and surrogates."""
LANGUAGE_CODE = re.compile("[a-z]{2,3}")
EVERYONE = "everyone"
"""The principal that every query of a tenant holds. A document without any principal is readable by nobody."""


def may_read(asker: Collection[str], readers: Collection[str]) -> bool:
    """Return whether somebody with these principals may read what names these readers."""
    return EVERYONE in readers or not set(asker).isdisjoint(readers)


def ambiguous_tenant_reason(tenant: str) -> str | None:
    """Return why a name of a tenant is ambiguous in keys of records and in settings; None if it is not.

    The key of the document `c` of a tenant `a/b` would be that of the document `b/c` of the tenant `a`, which its
    tombstone would delete. Settings name groups as `tenant/group`.
    """
    return f"{tenant!r} holds '/', which separates tenant and document in the key" if "/" in tenant else None


def record_key(tenant: TenantId, document_id: DocumentId) -> bytes:
    """Return the key of a document's records, which decides their partition."""
    return f"{tenant}/{document_id}".encode()


def document_of_key(key: bytes | None) -> tuple[TenantId, DocumentId] | None:
    """Return tenant and document that the key of a record names; None for a key of another form."""
    try:
        tenant, _, document_id = (key or b"").decode().partition("/")
    except UnicodeDecodeError:
        return None
    return (TenantId(tenant), DocumentId(document_id)) if tenant and document_id else None


def key_of_texts(*texts: str) -> bytes:
    """Return the key that is a JSON array of texts."""
    return json.dumps(texts, ensure_ascii=False).encode()


def texts_of_key(key: bytes, *names: str) -> list[str]:
    """Return the texts of a key that is a JSON array of them, one for each name. Raises ValueError for another key."""
    try:
        texts = json.loads(key)
    except RecursionError as error:
        # Whoever may write a record may nest its key as deep as it is long.
        raise ValueError("the key is nested too deep") from error
    if not (isinstance(texts, list) and len(texts) == len(names) and all(isinstance(text, str) for text in texts)):
        raise ValueError(f"the key must be a JSON array of {', '.join(names)}")
    return texts


def same_keys(keys: Iterable[bytes], key: bytes) -> list[bytes]:
    """Return those keys that are the same JSON array of texts as a key; this key alone where there are none.

    JSON writes an array in several ways, with or without spaces for example, and services write it in theirs. For a
    topic each is a key of its own: a record takes the place of another one under the same bytes only.
    """
    texts: list[str] = json.loads(key)

    def is_same(other: bytes) -> bool:
        try:
            return texts_of_key(other, *texts) == texts
        except ValueError:
            return False

    return [other for other in keys if is_same(other)] or [key]


def invalid_id_reason(document_id: str) -> str | None:
    """Return why an id made of the path of a file is invalid, and what to do; None if it is valid."""
    if found := FORBIDDEN_IN_LINE.search(document_id):
        is_surrogate = "\ud800" <= found[0] <= "\udfff"
        what = "is not UTF-8" if is_surrogate else f"holds control character U+{ord(found[0]):04X}"
        return f"the name {what}, so it can be no document id: rename the file"
    if (size := len(document_id.encode())) > MAX_ID_BYTES:
        return f"its document id would have {size} bytes, more than {MAX_ID_BYTES}: rename the file or its folders"
    return None


def root_id(tenant: TenantId, document_id: DocumentId) -> RootId:
    """Return the key of a document in the store, and of its folder of claims: 128 bits as 32 hexadecimal digits."""
    return RootId(digest_of("freki-root", [tenant, document_id]))


def digest_of(purpose: str, parts: list[object]) -> str:
    """Return a hash of parts, for one purpose: 128 bits as 32 hexadecimal digits."""
    # JSON delimits the parts, and its ASCII form can encode every character.
    return blake2b(json.dumps(parts).encode("ascii"), digest_size=16, person=purpose.encode("ascii")).hexdigest()


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """Return the class as a frozen, slotted, keyword-only dataclass."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def shown_time(milliseconds: int) -> Timestamp:
    """Return the nearest time from 1970 to 9999, which every reader can show: producers name any, also -1 for none."""
    return Timestamp(min(max(milliseconds, 0), YEAR_10000_MS - 1))


def is_known(time: Timestamp) -> bool:
    """Return whether a number is a time of a source."""
    return time >= FIRST_YEAR_MS


def extended(kind: type[T], value: Any, **added: Any) -> T:  # noqa: ANN401 - a record of any type
    """Return a richer record: the fields of `value`, and the added ones, which win."""
    return kind(**{name: getattr(value, name) for name in _names(value.__class__)} | added)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


class ChunkLevel:
    """Depth of a chunk in its document."""

    DOCUMENT = 0
    SECTION = 1
    PARAGRAPH = 2


class ChunkKind(StrEnum):
    """What a chunk holds. The text of a SUMMARY is made from its span; of all others it is the span."""

    PROSE = "PROSE"
    LIST = "LIST"
    TABLE = "TABLE"
    CODE = "CODE"
    SUMMARY = "SUMMARY"
