"""The Avro contracts of Freki: all versions of all records that cross a topic."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from fastavro.schema import fingerprint, to_parsing_canonical_form

from freki.schemas.audit_entry import AuditEntry
from freki.schemas.chunks import ChunkBatch, ContextualChunkBatch
from freki.schemas.context_query import ContextQuery
from freki.schemas.context_result import ContextResult
from freki.schemas.document_change import DocumentChange
from freki.schemas.document_query import DocumentQuery
from freki.schemas.document_report import DocumentReport
from freki.schemas.erasure import ErasureReport, ErasureRequest
from freki.schemas.group_membership import GroupMembership
from freki.schemas.hold import Hold, Objection
from freki.schemas.index_outcome import IndexOutcome
from freki.schemas.judgement import Judgement

TOPICS: Mapping[type, str] = {
    DocumentChange: "documents",
    ChunkBatch: "chunks",
    ContextualChunkBatch: "contextual-chunks",
    IndexOutcome: "outcomes",
    ContextQuery: "queries",
    ContextResult: "contexts",
    Judgement: "judgements",
    DocumentQuery: "document-queries",
    DocumentReport: "document-reports",
    GroupMembership: "groups",
    AuditEntry: "audit",
    Hold: "holds",
    Objection: "objections",
    ErasureRequest: "erasure-requests",
    ErasureReport: "erasure-reports",
}
"""Each record that crosses a topic, and the middle part of that topic's name."""


class Compatibility(StrEnum):
    """Compatibility between versions of a record, with the names of schema registries."""

    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    """A version reads data of all earlier ones."""
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    """A version reads data of all others, earlier or later."""


COMPATIBILITY: Mapping[type, Compatibility] = {
    DocumentChange: Compatibility.BACKWARD_TRANSITIVE,
    ChunkBatch: Compatibility.FULL_TRANSITIVE,
    ContextualChunkBatch: Compatibility.FULL_TRANSITIVE,
    IndexOutcome: Compatibility.FULL_TRANSITIVE,
    ContextQuery: Compatibility.BACKWARD_TRANSITIVE,
    ContextResult: Compatibility.FULL_TRANSITIVE,
    Judgement: Compatibility.BACKWARD_TRANSITIVE,
    DocumentQuery: Compatibility.BACKWARD_TRANSITIVE,
    DocumentReport: Compatibility.FULL_TRANSITIVE,
    GroupMembership: Compatibility.BACKWARD_TRANSITIVE,
    # A reader that took a kind of entry for another one would call a whole chain altered.
    AuditEntry: Compatibility.BACKWARD_TRANSITIVE,
    Hold: Compatibility.BACKWARD_TRANSITIVE,
    Objection: Compatibility.BACKWARD_TRANSITIVE,
    ErasureRequest: Compatibility.BACKWARD_TRANSITIVE,
    ErasureReport: Compatibility.FULL_TRANSITIVE,
}
"""Guaranteed compatibility of each record.

FULL_TRANSITIVE for records written by Freki: workers of two releases, and services updated later, read them.
BACKWARD_TRANSITIVE for records written by others: they may contain an operation, filter or kind of request that an
earlier Freki must reject instead of mistaking it for another one.
"""


class Contract:
    """One version of the Avro schema of one record."""

    def __init__(self, text: str) -> None:
        self.text = text
        """Original text as JSON."""
        self.schema: dict[str, Any] = json.loads(text)
        self.record: str = self.schema["name"]
        self.fingerprint = fingerprint_of(self.schema)

    def differs_from(self, other: "Contract") -> bool:
        """Return whether anything except docs differs, including parts outside of the fingerprint, such as defaults."""
        return bool(without_key(self.schema, "doc") != without_key(other.schema, "doc"))


class Contracts:
    """All versions of a set of records, oldest first; the last one is current."""

    def __init__(self, versions: Mapping[str, Iterable[Contract]]) -> None:
        self._versions = {record: tuple(contracts) for record, contracts in versions.items()}
        self._by_fingerprint = {
            contract.fingerprint: contract for contracts in self._versions.values() for contract in contracts
        }

    def current(self, record: str) -> Contract:
        """Return the current version."""
        return self._versions[record][-1]

    def versions(self, record: str) -> tuple[Contract, ...]:
        """Return all versions, oldest first."""
        return self._versions[record]

    def written_with(self, fingerprint: bytes) -> Contract | None:
        """Return the version of any record with this fingerprint; None where there is none."""
        return self._by_fingerprint.get(fingerprint)


class SchemaEntry(NamedTuple):
    """Entry of a record in `freki schemas list`."""

    record: str
    topic: str
    """Middle part of the name of the topic."""
    fingerprint: str
    """CRC-64-AVRO in hexadecimal, in the byte order of the frame."""
    version: int
    """Version, 1-based."""
    sha256: str
    """Digest of the frozen file of this version, in hexadecimal."""


def fingerprint_of(schema: dict[str, Any]) -> bytes:
    """Return CRC-64-AVRO of the canonical form as 8 bytes, little endian, as in single-object encoding."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def read_contracts(directory: Traversable, records: Iterable[str]) -> Contracts:
    """Read `versions/<record>/<n>.avsc` and `<record>.avsc` below a directory.

    `<record>.avsc` stands for the last version: its docs may be newer.
    """
    return Contracts({record: _versions_of(record, directory) for record in records})


def frozen_contracts(directory: Traversable, record: str) -> list[Contract]:
    """Read `versions/<record>/<n>.avsc` below a directory, oldest first; empty where there are none."""
    versions = directory / "versions" / record
    if not versions.is_dir():
        return []
    numbered = sorted((int(file.name.removesuffix(".avsc")), file) for file in versions.iterdir())
    return [Contract(file.read_text(encoding="utf-8")) for _, file in numbered]


@cache
def packaged_contracts() -> Contracts:
    """Return the contracts installed with Freki, read once."""
    return read_contracts(files(__package__), [record.__name__ for record in TOPICS])


def list_schemas() -> list[SchemaEntry]:
    """Return topic, version, fingerprint and digest of each record."""
    return [_entry(record.__name__, topic) for record, topic in TOPICS.items()]


def export_schemas(directory: Path) -> list[Path]:
    """Write the current contracts as `<record>.avsc` for programs in other languages; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for record in TOPICS:
        path = directory / f"{record.__name__}.avsc"
        path.write_text(packaged_contracts().current(record.__name__).text, encoding="utf-8")
        written.append(path)
    return written


def _entry(record: str, topic: str) -> SchemaEntry:
    versions = packaged_contracts().versions(record)
    frozen = files(__package__) / "versions" / record / f"{len(versions)}.avsc"
    digest = hashlib.sha256(frozen.read_bytes()).hexdigest()
    return SchemaEntry(record, topic, versions[-1].fingerprint.hex(), len(versions), digest)


def _versions_of(record: str, directory: Traversable) -> list[Contract]:
    current = Contract((directory / f"{record}.avsc").read_text(encoding="utf-8"))
    return [*frozen_contracts(directory, record)[:-1], current]


def without_key(schema: Any, name: str) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema without a key, at any depth."""
    match schema:
        case dict():
            return {key: without_key(part, name) for key, part in schema.items() if key != name}
        case list():
            return [without_key(part, name) for part in schema]
        case _:
            return schema
