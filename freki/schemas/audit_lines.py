"""Entries of the audit log as canonical JSON, which their hashes are of."""

import json
from dataclasses import asdict
from typing import Any

from freki.schemas.audit_entry import AuditedDocument, AuditEntry, AuditKind, ChainEnd


class NotAnEntry(ValueError):
    """A line is no entry of an audit log."""


def line_of(entry: AuditEntry) -> str:
    """Return an entry as one line of canonical JSON, without a line break."""
    return canonical(asdict(entry))


def canonical(fields: dict[str, Any]) -> str:
    """Return fields as canonical JSON: names in order, ASCII, no spaces; they hold no floats."""
    return json.dumps(fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def entry_of(line: str | bytes) -> AuditEntry:
    """Return the entry of a line. Raises NotAnEntry for one that is no canonical form of an entry."""
    try:
        fields: dict[str, Any] = json.loads(line)
        fields["kind"] = AuditKind(fields["kind"])
        fields["documents"] = tuple(AuditedDocument(**each) for each in fields["documents"])
        fields["continues"] = tuple(ChainEnd(**each) for each in fields["continues"])
        for name in ("principals", "principals_before"):
            fields[name] = tuple(fields[name])
        entry = AuditEntry(**fields)
        same = line_of(entry) == (line if isinstance(line, str) else line.decode())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotAnEntry(f"no entry of an audit log: {error}") from error
    if not same:
        # Otherwise a changed line could mean the same entry to us, and another one to other readers.
        raise NotAnEntry("an entry of an audit log that is not in its canonical form")
    return entry
