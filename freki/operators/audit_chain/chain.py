"""Linking of entries by their hashes."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from freki.schemas.audit_entry import SIGNED, AuditedDocument, AuditEntry, AuditKind, ChainEnd
from freki.schemas.audit_lines import canonical, fields_of
from freki.schemas.names import DocumentId, TenantId, Timestamp, record

GENESIS = "0" * 64
"""What the first entry of a chain has as the hash of the one before."""

NAME_CHARS, TEXT_CHARS, NAMES_CHARS = 1_000, 16_000, 64_000
"""Most characters of one name, of a text, and of all names in a list: an entry that its topic does not take would stop
all others, and senders choose what is in it."""

Sign = Callable[[bytes], str]
"""Returns a signature in hexadecimal."""


@record
class Event:
    """What an entry says, before it has a place in a chain."""

    kind: AuditKind
    tenant: TenantId = TenantId("")
    asker: str = ""
    principals: tuple[str, ...] = ()
    principals_before: tuple[str, ...] = ()
    subject: str = ""
    documents: tuple[AuditedDocument, ...] = ()
    text: str = ""
    text_hash: str = ""
    reason: str = ""
    continues: tuple[ChainEnd, ...] = ()


def link(event: Event, *, writer: str, sequence: int, at: Timestamp, previous: str) -> AuditEntry:
    """Return the entry of an event after one with the hash `previous`, not yet signed."""
    entry = AuditEntry(
        writer=writer,
        sequence=sequence,
        at=at,
        kind=event.kind,
        tenant=TenantId(_bounded(event.tenant, NAME_CHARS)),
        asker=_bounded(event.asker, NAME_CHARS),
        principals=_names(event.principals),
        principals_before=_names(event.principals_before),
        subject=_bounded(event.subject, NAME_CHARS),
        documents=_documents(event.documents),
        text=_bounded(event.text, TEXT_CHARS),
        text_hash=event.text_hash,
        reason=_bounded(event.reason, NAME_CHARS),
        continues=event.continues,
        previous=previous,
        hash="",
        signature="",
    )
    return replace(entry, hash=hash_of(entry))


def signed(entry: AuditEntry, sign: Sign) -> AuditEntry:
    """Return an entry with its signature, where its kind has one."""
    return replace(entry, signature=sign(entry.hash.encode("ascii"))) if entry.kind in SIGNED else entry


def hash_of(entry: AuditEntry) -> str:
    """Return the hash that an entry must have."""
    said = fields_of(entry)
    del said["hash"], said["signature"]
    return hashlib.sha256(canonical(said).encode("ascii")).hexdigest()


def is_sound(entry: AuditEntry) -> bool:
    """Return whether an entry has the hash of what it says."""
    return entry.hash == hash_of(entry)


def _bounded(text: str, limit: int) -> str:
    """Return a text as UTF-8 can have it, and cut where it is longer than anybody needs, with the hash of the whole."""
    whole = text.encode(errors="backslashreplace").decode()
    return whole if len(whole) <= limit else f"{whole[:limit]}… {_rest(len(whole) - limit, 'characters', [whole])}"


def _names(names: Sequence[str]) -> tuple[str, ...]:
    bounded = [_bounded(name, NAME_CHARS) for name in names]
    kept = _that_fit(bounded)
    return tuple(bounded[:kept]) + ((f"… {_rest(len(names) - kept, 'names', names)}",) if kept < len(names) else ())


def _documents(documents: Sequence[AuditedDocument]) -> tuple[AuditedDocument, ...]:
    bounded = [replace(each, document_id=DocumentId(_bounded(each.document_id, NAME_CHARS))) for each in documents]
    kept = _that_fit([each.document_id for each in bounded])
    if kept == len(documents):
        return tuple(bounded)
    rest = _rest(len(documents) - kept, "documents", [f"{each.document_id}@{each.version}" for each in documents])
    return (*bounded[:kept], AuditedDocument(document_id=DocumentId(f"… {rest}"), version=0))


def _that_fit(names: Sequence[str]) -> int:
    lengths = accumulate(len(name) for name in names)
    return sum(length <= NAMES_CHARS for length in lengths)


def _rest(count: int, what: str, whole: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(whole).encode(errors="backslashreplace")).hexdigest()
    return f"{count} more {what}, SHA-256 of all {digest}"
