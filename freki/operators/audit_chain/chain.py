"""Linking of entries by their hashes."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace

from freki.schemas.audit_entry import SIGNED, AuditedDocument, AuditEntry, AuditKind, ChainEnd
from freki.schemas.audit_lines import canonical
from freki.schemas.names import TenantId, Timestamp, record

GENESIS = "0" * 64
"""What the first entry of a chain has as the hash of the one before."""

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
        tenant=TenantId(_utf8(event.tenant)),
        asker=_utf8(event.asker),
        principals=tuple(map(_utf8, event.principals)),
        principals_before=tuple(map(_utf8, event.principals_before)),
        subject=_utf8(event.subject),
        documents=event.documents,
        text=_utf8(event.text),
        text_hash=event.text_hash,
        reason=_utf8(event.reason),
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
    fields = asdict(entry)
    del fields["hash"], fields["signature"]
    return hashlib.sha256(canonical(fields).encode("ascii")).hexdigest()


def is_sound(entry: AuditEntry) -> bool:
    """Return whether an entry has the hash of what it says."""
    return entry.hash == hash_of(entry)


def _utf8(text: str) -> str:
    """Escape lone surrogates, which neither Avro nor UTF-8 holds."""
    return text.encode(errors="backslashreplace").decode()
