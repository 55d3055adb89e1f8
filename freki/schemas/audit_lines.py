"""Entries of the audit log as canonical JSON, which their hashes are of."""

import json
from dataclasses import fields
from typing import Any

from freki.schemas.audit_entry import AuditedDocument, AuditEntry, AuditKind, ChainEnd
from freki.schemas.names import LARGEST_INTEGER

_NAMES = tuple(field.name for field in fields(AuditEntry))
_LISTS = frozenset({"principals", "principals_before", "documents", "continues"})


class NotAnEntry(ValueError):
    """A line is no entry of an audit log."""


def line_of(entry: AuditEntry) -> str:
    """Return an entry as one line of canonical JSON, without a line break."""
    return canonical(fields_of(entry))


def fields_of(entry: AuditEntry) -> dict[str, Any]:
    """Return all that an entry says, by name, for `canonical`.

    Not `dataclasses.asdict`, which copies every value and would take most of the time of a check.
    """
    said = {name: getattr(entry, name) for name in _NAMES}
    said["documents"] = [{"document_id": each.document_id, "version": each.version} for each in entry.documents]
    said["continues"] = [
        {"writer": each.writer, "sequence": each.sequence, "hash": each.hash} for each in entry.continues
    ]
    return said


def canonical(said: dict[str, Any]) -> str:
    """Return fields as canonical JSON: names in order, ASCII, no spaces; they hold no floats."""
    return json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def entry_of(line: str | bytes) -> AuditEntry:
    """Return the entry of a line. Raises NotAnEntry for one that is no canonical form of an entry."""
    try:
        said: dict[str, Any] = json.loads(line)
        said["kind"] = AuditKind(said["kind"])
        said["documents"] = tuple(AuditedDocument(**each) for each in said["documents"])
        said["continues"] = tuple(ChainEnd(**each) for each in said["continues"])
        for name in ("principals", "principals_before"):
            said[name] = tuple(said[name])
        entry = AuditEntry(**said)
        _check_types(entry)
        same = line_of(entry) == (line if isinstance(line, str) else line.decode())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotAnEntry(f"no entry of an audit log: {error}") from error
    if not same:
        # Otherwise a changed line could mean the same entry to us, and another one to other readers.
        raise NotAnEntry("an entry of an audit log that is not in its canonical form")
    return entry


def _check_types(entry: AuditEntry) -> None:
    """Raise TypeError or ValueError unless every field is a text or an integer, as its topic can have it."""
    texts: list[Any] = [*entry.principals, *entry.principals_before]
    numbers: list[Any] = [entry.sequence, entry.at]
    texts += [getattr(entry, name) for name in _NAMES if name not in _LISTS and name not in {"sequence", "at"}]
    for document in entry.documents:
        texts.append(document.document_id)
        numbers.append(document.version)
    for end in entry.continues:
        texts += [end.writer, end.hash]
        numbers.append(end.sequence)
    # Surrogates, which UTF-8 cannot have, are a ValueError.
    "".join(texts).encode()
    if not all(type(number) is int and abs(number) <= LARGEST_INTEGER for number in numbers):
        raise ValueError("a number is no integer of 64 bits")
