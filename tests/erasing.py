"""A small world to erase in: documents with content on a topic and in claims, an index, holds, and reports."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from freki.operators.identify import root_id
from freki.schemas import (
    Coverage,
    DocumentId,
    ErasureReport,
    Hold,
    PlannedErasure,
    RootId,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.findings import (
    CoveredDocuments,
    Findings,
    FoundRecords,
    KnownDocument,
    LastRecord,
    Removal,
    UndecodableChanges,
    UnreadRecords,
)
from freki.schemas.index import Root
from freki.streams.ports.erasure import HoldBook, StillFree
from freki.streams.privacy.erasure import Erasure
from tests.contract.index_records import root
from tests.unit.deliveries import FakeProducer

TENANT = TenantId("hr")
REPORTS = "erasure-reports"
LETTERS = ("dead-letters", 0)
CODEC = Codec(ErasureReport)


@dataclass
class Kept:
    """A document."""

    version: int = 1
    attributes: Mapping[str, str] = field(default_factory=dict)
    indexed: bool = True
    content: bool = True
    """On the topic, and in a claim."""
    older: bool = False
    """Whether something of older versions is on the topic, and in a claim."""
    older_at: int = 1
    """When the broker stored that."""
    key: bool = True
    """Whether it has a data key."""
    letter: int | None = None
    """Offset of its dead letter."""
    unpublished: int | None = None
    """Version of a claim whose writer died before it published a change that names it."""


def hold(name: str, covers: Coverage, *, tenant: TenantId = TENANT) -> Hold:
    """Make a hold."""
    return Hold(tenant=tenant, name=name, covers=covers, reason="case", placed_by="test", placed_at=Timestamp(1))


def root_of(name: DocumentId, document: Kept) -> Root:
    """Make the root of a document."""
    return root(root_id(TENANT, name), document_id=name, version=document.version, deleted=not document.indexed)


@dataclass
class World:
    """Satisfies DocumentPlaces, IndexedRoots, Deletions and ReportBook, and has a HoldBook.

    Before each call `meanwhile` may change it.
    """

    documents: dict[DocumentId, Kept]
    holds: list[Hold] = field(default_factory=list)
    meanwhile: Callable[[str], None] = field(default=lambda _: None)
    recorded: list[DocumentId] = field(default_factory=list)
    producer: FakeProducer = field(default_factory=FakeProducer)
    silent: bool = False
    """Whether no worker answers deletions."""
    unread: Sequence[UnreadRecords] = ()
    """Where workers are waited for in vain."""
    undecodable: Sequence[UndecodableChanges] = ()
    """Changes that cannot be decoded."""
    lasts: Sequence[LastRecord] = ()
    """Records that compaction keeps."""
    undecided: Mapping[DocumentId, str] = field(default_factory=dict)
    """Documents that may have any attributes."""
    book: HoldBook = field(init=False)

    def __post_init__(self) -> None:
        """Open the book of holds."""
        self.book = _Book(self)
        self.lock = asyncio.Lock()

    def erasure(self, _by: str = "", _subject: str = "") -> Erasure:
        """Make an erasure in this world."""

        async def record(_: TenantId, documents: Sequence[PlannedErasure]) -> None:
            self.meanwhile("record")
            self.recorded += [each.document_id for each in documents]

        return Erasure(self, self, self, self.book, sign=lambda _: "signed", record=record, now=lambda: Timestamp(7))

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Return a lock."""
        return self.lock

    async def covered(self, tenant: TenantId, covers: Coverage) -> CoveredDocuments:
        """Return what is covered; attributes of a deleted document are known as long as its content is there."""
        self.meanwhile("covered")
        known = {name: each.attributes if each.indexed or each.content else {} for name, each in self.documents.items()}
        documents = [
            KnownDocument(document_id=name, version=self.documents[name].version, attributes=[attributes])
            for name, attributes in sorted(known.items())
            if tenant == TENANT and covers.has(name, attributes)
        ]
        return CoveredDocuments(documents=documents, undecided=self.undecided if covers.attributes else {})

    async def find(
        self,
        tenant: TenantId,
        versions: Mapping[DocumentId, int],
        *,
        claims: Mapping[str, frozenset[DocumentId]] | None = None,
        before_ms: Timestamp | None = None,
        waits: bool = False,
    ) -> Findings:
        """Find content."""
        assert tenant == TENANT
        await asyncio.sleep(0)
        self.meanwhile("find")
        if before_ms is not None:
            assert all(version == self.documents[name].version - 1 for name, version in versions.items())
            meant = [name for name in versions if self.documents[name].older_at <= before_ms]
            found = {f"older:{name}": frozenset({name}) for name in meant if self.documents[name].older}
            latest_ms = max((self.documents[name].older_at for names in found.values() for name in names), default=0)
            known = {**(claims or {}), **found}
            there = [uri for uri, names in known.items() if any(self.documents[name].older for name in names)]
            return Findings(
                records=self._letters(versions),
                claims=sorted(there),
                claimed=known,
                lasts=self.lasts,
                latest_ms=Timestamp(latest_ms),
            )
        # A later version stays.
        documents = {name: self.documents[name] for name in sorted(versions)}
        with_content = [name for name, each in documents.items() if each.content and each.version <= versions[name]]
        found = {f"claim:{name}:{documents[name].version}": frozenset({name}) for name in with_content}
        later = {
            f"unpublished:{name}": (name, each.unpublished) for name, each in documents.items() if each.unpublished
        }
        found |= {uri: frozenset({name}) for uri, (name, version) in later.items() if version <= versions[name]}
        place = [(sorted(self.documents).index(name), frozenset({name})) for name in with_content]
        return Findings(
            records={**({("documents", 0): place} if place else {}), **self._letters(versions)},
            rows={"chunks": rows} if (rows := sum(self.documents[name].indexed for name in versions)) else {},
            claims=sorted(found),
            claimed={**(claims or {}), **found},
            unread=self.unread if waits else (),
            undecodable=self.undecodable,
            lasts=self.lasts,
            unpublished={uri: each for uri, each in later.items() if uri not in found},
        )

    async def remove(self, found: Findings, *, still_free: StillFree, superseded: bool = False) -> Removal:
        """Remove content, one claim after the other."""
        removed = []
        assert self.lock.locked(), "what was found may not be where it was any more"
        await asyncio.sleep(0)
        for uri, names in sorted(found.claimed.items()):
            self.meanwhile("remove")
            if names <= set(await still_free()):
                if any(self.documents[name].content or self.documents[name].older for name in names):
                    removed.append({"claim": uri, "at": 7})
                for name in names:
                    if uri == f"unpublished:{name}":
                        self.documents[name].unpublished = None
                        continue
                    self.documents[name].older = False
                    # That of a later version is another claim.
                    self.documents[name].content &= superseded or not uri.endswith(f":{self.documents[name].version}")
        self.meanwhile("letters")
        free = set(await still_free())
        for offset, names in found.records.get(LETTERS, ()):
            for name in names & free:
                if self.documents[name].letter == offset:
                    self.documents[name].letter = None
        return Removal(removed=removed)

    def _letters(self, names: Collection[DocumentId]) -> FoundRecords:
        letters = [(at, frozenset({name})) for name in sorted(names) if (at := self.documents[name].letter) is not None]
        return {LETTERS: letters} if letters else {}

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Return the standing roots."""
        self.meanwhile("roots")
        known = {root_id(TENANT, name): (name, each) for name, each in self.documents.items()}
        return {key: root_of(*known[key]) for key in root_ids if key in known}

    async def destroy_keys(self, _tenant: TenantId, documents: Collection[DocumentId]) -> int:
        """Destroy data keys."""
        self.meanwhile("destroy_keys")
        had = sum(self.documents[name].key for name in documents)
        for name in documents:
            self.documents[name].key = False
        return had

    async def strip(self, _tenant: TenantId, documents: Collection[DocumentId]) -> int:
        """Strip fences."""
        self.meanwhile("strip")
        return len(documents)

    async def delete(self, _tenant: TenantId, versions: Mapping[DocumentId, int]) -> Mapping[DocumentId, bool]:
        """Delete; a later version stays."""
        self.meanwhile("delete")
        if self.silent:
            return {}
        for name, version in versions.items():
            if self.documents[name].version <= version:
                self.documents[name].indexed = False
        return {name: not self.documents[name].indexed for name in versions}

    async def of(self, tenant: TenantId, request_id: str) -> ErasureReport | None:
        """Return the last report on a request."""
        return self.reports().get((tenant, request_id))

    async def waiting(self) -> Sequence[ErasureReport]:
        """Return the reports on requests that wait."""
        return [report for report in self.reports().values() if report.held]

    def reports(self) -> dict[tuple[str, str], ErasureReport]:
        """Return the last report of each key that the topic keeps."""
        last = {sent.key: sent.value for sent in self.producer.to(REPORTS)}
        decoded = [CODEC.decode(value) for value in last.values() if value is not None]
        return {(report.tenant, report.request_id): report for report in decoded}

    def state(self) -> dict[DocumentId, Kept]:
        """Return a copy of all documents."""
        return {name: replace(each) for name, each in self.documents.items()}


class _Book:
    def __init__(self, world: World) -> None:
        self._world = world

    async def of(self, tenant: TenantId) -> Sequence[Hold]:
        self._world.meanwhile("holds")
        return [each for each in self._world.holds if each.tenant == tenant]
