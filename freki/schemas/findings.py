"""Where content of documents was found, what was removed, and what remains until when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from freki.schemas.names import DocumentId, Timestamp, record

FoundRecords = Mapping[tuple[str, int], Sequence[tuple[int, frozenset[DocumentId]]]]
"""Of each topic and partition: offset of each record with content, and the documents whose content it is."""


@record
class KnownDocument:
    """What is known of a document, in the index or on the topic of documents."""

    document_id: DocumentId
    version: int
    """The highest."""
    attributes: Sequence[Mapping[str, str]]
    """Of the version that is indexed, and of every version that is still on the topic and can be decoded."""
    only: frozenset[int] | None = None
    """The versions that are known to have the attributes by which it is covered; None: it is not covered by those."""


@record
class CoveredDocuments:
    """The documents that a coverage names."""

    documents: Sequence[KnownDocument]
    """In the order of their ids."""
    undecided: Mapping[DocumentId, str] = field(default_factory=dict)
    """Other documents with a version that cannot be decoded, and why: they may have the attributes that count."""


@record
class UndecodableChanges:
    """Changes that cannot be decoded: they are found by their key, but what they name elsewhere is not known."""

    topic: str
    partition: int
    records: int
    last: int
    reason: str
    """Why the last one cannot, with what mends it."""


@record
class UnreadRecords:
    """Records that a consumer group has not read: what it makes of them may hold content, and is not found yet."""

    topic: str
    partition: int
    group: str
    is_in_use: bool
    """Whether it fills the generation that answers."""


@record
class LastRecord:
    """A record on a compacted topic that no other of its key follows in its partition: only a null value removes it."""

    topic: str
    partition: int
    offset: int
    key: bytes
    document_id: DocumentId
    version: int | None
    """That the null value states, 0 where it states none; None: none may follow, as the record may be of a version that
    stays, or has the key of another document."""


@record
class Findings:
    """All places with content of some documents."""

    records: FoundRecords = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows by collection of the store."""
    claims: Collection[str] = ()
    """Addresses of content that is there."""
    claimed: Mapping[str, frozenset[DocumentId]] = field(default_factory=dict)
    """Addresses that records of the documents name, that were written for them, or that were known before."""
    shared: frozenset[str] = frozenset()
    """Those that other documents name too."""
    lasts: Sequence[LastRecord] = ()
    """Those of the records that compaction keeps."""
    unread: Sequence[UnreadRecords] = ()
    """Where workers were waited for in vain."""
    undecodable: Sequence[UndecodableChanges] = ()
    """Changes among the records whose claims are not known."""
    latest_ms: Timestamp = Timestamp(0)
    """When the broker stored the latest of the records."""
    unpublished: Mapping[str, tuple[DocumentId, int]] = field(default_factory=dict)
    """Addresses of what was written for later versions, which no record names, with document and version: their writer
    died, or is about to publish them."""

    def described(self) -> dict[str, Any]:
        """Return what a report says of it."""
        places = [
            {"topic": topic, "partition": partition, "records": len(found), "last": max(offset for offset, _ in found)}
            for (topic, partition), found in sorted(self.records.items())
        ]
        return {"records": places, "rows": dict(self.rows), "claims": sorted(self.claims)}

    def beyond(self, seen: "Findings") -> "Findings":
        """Return the records that are not among those of another search, and the last of their keys; nothing else."""
        records: dict[tuple[str, int], Sequence[tuple[int, frozenset[DocumentId]]]] = {}
        for place, found in self.records.items():
            known = {offset for offset, _ in seen.records.get(place, ())}
            if new := [each for each in found if each[0] not in known]:
                records[place] = new
        return Findings(records=records, lasts=self.lasts if records else ())

    def __bool__(self) -> bool:
        return bool(self.records or self.rows or self.claims)


@record
class Removal:
    """What was removed, and what remains."""

    removed: Sequence[Mapping[str, Any]] = ()
    """Topic, partition and records, or a claim, with the time."""
    remains: Sequence[Mapping[str, Any]] = ()
    """The same, with what ends it (`until`) and, where it is known, by when (`until_ms`)."""

    def and_then(self, later: "Removal") -> "Removal":
        """Return both as one."""
        more = [each for each in later.remains if each not in self.remains]
        return Removal(removed=[*self.removed, *later.removed], remains=[*self.remains, *more])
