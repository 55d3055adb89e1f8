"""Topics, store and claims as places of content: satisfies DocumentPlaces of `streams.ports`."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from freki.client.kafka import Record
from freki.infra.claims import ClaimStore
from freki.infra.kafka import Reader
from freki.infra.registry import RegistryClient
from freki.infra.settings import Settings
from freki.operators.identify import record_key, root_id
from freki.schemas import Coverage, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.findings import (
    CoveredDocuments,
    Findings,
    KnownDocument,
    LastRecord,
    Removal,
    UndecodableChanges,
    UnreadRecords,
)
from freki.schemas.index import Root, answering
from freki.schemas.names import document_of_key
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import version_in
from freki.streams.ports.erasure import StillFree
from freki.streams.topics import Topic
from freki.streams.wire.connect import open_generations
from freki.streams.wire.erasing.consumers import Consumers
from freki.streams.wire.erasing.remove import Remover
from freki.streams.wire.erasing.topics import (
    ChangeReader,
    Content,
    ReadChange,
    Unreadable,
    names_claim,
    present,
    searched_topics,
)
from freki.streams.wire.from_settings import topics_of

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex

ROOTS_TOGETHER = 400
"""Documents whose roots are read in one call."""
_LOWEST_VERSION = 1
"""Of a document that is neither indexed nor on the topic but for changes that cannot be decoded."""


class _Found:
    """What a search has found on topics."""

    def __init__(
        self,
        claimed: dict[str, set[DocumentId]],
        versions: Mapping[DocumentId, int],
        keys: Mapping[bytes, DocumentId],
        *,
        superseded: bool,
    ) -> None:
        """Begin; claimed: addresses that are known, with their documents; the others: what is looked for."""
        self.records: defaultdict[tuple[str, int], list[tuple[int, frozenset[DocumentId]]]] = defaultdict(list)
        self.claimed = claimed
        self.latest_ms = Timestamp(0)
        self._named: defaultdict[str, dict[tuple[TenantId, DocumentId], int]] = defaultdict(dict)
        """Of each address: the other documents whose changes name it, with the highest version of those."""
        self._deleted: dict[tuple[TenantId, DocumentId], int] = {}
        """The highest version at which each document was deleted."""
        self._versions = versions
        self._keys = keys
        self._ends: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._superseded = superseded
        self._lasts: dict[tuple[str, int, bytes], LastRecord] = {}
        self._undecodable: defaultdict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)

    def add(self, stored: Record, holders: frozenset[DocumentId], change: ReadChange) -> None:
        """Add a record, the documents whose content it is, and the change in it."""
        if holders or stored.key in self._keys:
            self._ends[stored.topic][stored.partition] = stored.offset
        if isinstance(change, Unreadable) and holders:
            self._undecodable[stored.topic, stored.partition].append((stored.offset, change.reason))
        if holders:
            self.records[stored.topic, stored.partition].append((stored.offset, holders))
            self.latest_ms = Timestamp(max(self.latest_ms, stored.timestamp_ms))
        if isinstance(change, DocumentChange) and change.claim is not None:
            if holders:
                self.claimed.setdefault(change.claim.uri, set()).update(holders)
            else:
                named, document = self._named[change.claim.uri], (change.tenant, change.document_id)
                named[document] = max(change.version, named.get(document, change.version))

    def add_deletion(self, stored: Record, change: ReadChange) -> None:
        """Add a record of the topic of documents if it deletes a document at a version."""
        document, version = _deletion_in(stored, change)
        if document is not None:
            self._deleted[document] = max(version, self._deleted.get(document, version))

    def add_last(self, stored: Record, holders: frozenset[DocumentId], change: ReadChange, *, versioned: bool) -> None:
        """Add a record of a compacted topic; versioned: whether its null values state a version."""
        place = stored.topic, stored.partition, stored.key or b""
        self._lasts.pop(place, None)
        for name in holders:
            version: int | None = self._versions[name] if versioned else 0
            if versioned and self._superseded and (version == 0 or isinstance(change, Unreadable)):
                # A null value without a version would delete what stays.
                version = None
            if versioned and self._keys.get(stored.key or b"") != name:
                # It would delete the document whose key this is.
                version = None
            self._lasts[place] = LastRecord(
                topic=stored.topic,
                partition=stored.partition,
                offset=stored.offset,
                key=stored.key or b"",
                document_id=name,
                version=version,
            )

    def is_named(self, uri: str) -> bool:
        """Return whether a change names an address, or it was known before."""
        return uri in self.claimed or uri in self._named

    @property
    def shared(self) -> set[str]:
        """The addresses that other documents name in a version at which they are not deleted.

        A deletion wins over its own version, which may still be read: on the topic until compaction, and in a dead
        letter. If it counted, of two documents that are erased one after the other each would leave the content.
        """
        return {
            uri
            for uri, named in self._named.items()
            if any(
                document not in self._deleted or version > self._deleted[document]
                for document, version in named.items()
            )
        }

    @property
    def lasts(self) -> list[LastRecord]:
        """The records that no other of their key follows in their partition."""
        return list(self._lasts.values())

    @property
    def undecodable(self) -> list[UndecodableChanges]:
        """The changes whose claims are not known."""
        return [
            UndecodableChanges(
                topic=topic, partition=partition, records=len(some), last=some[-1][0], reason=some[-1][1]
            )
            for (topic, partition), some in sorted(self._undecodable.items())
        ]

    def ends_in(self, topic: str) -> Mapping[int, int]:
        """Return the offset of the last record about the documents in each partition of a topic, also of deletions."""
        return self._ends[topic]


class _Known:
    """The versions of documents that are known, with their attributes."""

    def __init__(self) -> None:
        self.versions: dict[DocumentId, int] = {}
        """The highest of each."""
        self._attributes: defaultdict[DocumentId, list[Mapping[str, str]]] = defaultdict(list)
        self._alive: defaultdict[DocumentId, list[tuple[int, Mapping[str, str]]]] = defaultdict(list)
        self._deleted: defaultdict[DocumentId, set[int]] = defaultdict(set)

    def add(
        self, name: DocumentId, version: int, attributes: Mapping[str, str] | None = None, *, deleted: bool = False
    ) -> None:
        """Add a version; attributes: None: nobody knows them."""
        self.versions[name] = max(self.versions.get(name, 0), version)
        if attributes is not None:
            self._attributes[name].append(attributes)
            # A deletion has none of the document's, and nothing that it says.
            if deleted:
                self._deleted[name].add(version)
            else:
                self._alive[name].append((version, attributes))

    def covered(self, covers: Coverage) -> list[KnownDocument]:
        """Return the documents that are covered, in the order of their ids."""
        # Thousands may be named, and compared with every document.
        named, otherwise = frozenset(covers.documents), replace(covers, documents=())
        return [
            KnownDocument(
                document_id=name,
                version=self.versions[name],
                attributes=tuple(self._attributes[name]),
                only=None if name in named else self._only(name, otherwise),
            )
            for name in sorted(self.versions)
            if name in named or any(otherwise.has(name, each) for each in self._attributes[name] or [{}])
        ]

    def _only(self, name: DocumentId, covers: Coverage) -> frozenset[int] | None:
        """Return the versions of a document that have the attributes of a coverage; None: it needs none.

        Of versions of which compaction has left no change nobody knows whom they were about.
        """
        if not covers.attributes:
            return None
        others = {version for version, attributes in self._alive[name] if not covers.has(name, attributes)}
        of_nobody = set() if others else self._deleted[name]
        return frozenset({version for version, _ in self._alive[name]} | of_nobody) - others


class Places:
    """All places of content that the settings name."""

    def __init__(
        self,
        settings: Settings,
        *,
        index: "MilvusIndex",
        registry: RegistryClient | None,
        outbox: Outbox,
        patience_s: float,
    ) -> None:
        """Set what is searched; patience_s: how long workers may take to commit that they have read a topic."""
        self._settings = settings
        self.index = index
        self._registry = registry
        self._changes = ChangeReader(settings, registry)
        self._claims = ClaimStore(settings.claims)
        self._consumers = Consumers(settings, self._generations, patience_s=patience_s)
        self._alone = asyncio.Lock()
        self._remover = Remover(settings, outbox, self._consumers)

    async def covered(self, tenant: TenantId, covers: Coverage) -> CoveredDocuments:
        """Return the documents that are covered, by the index and by the topic.

        Of a change that cannot be decoded the key names the document.

        Raises Unavailable where a change names a claim and the claims are out of reach.
        """
        known, has_claims = _Known(), False
        unreadable: dict[DocumentId, str] = {}
        async for stored, change in self._changes.changes():
            has_claims |= isinstance(change, DocumentChange) and names_claim(change, self._claims)
            whose, name, version = _named_by(stored, change)
            if whose != tenant:
                continue
            if isinstance(change, DocumentChange):
                known.add(name, version, change.attributes, deleted=change.operation is Operation.DELETE)
            else:
                known.add(name, version)
            if isinstance(change, Unreadable):
                unreadable[name] = change.reason
        async for root in self._roots(tenant, covers):
            known.add(root.document_id, root.version, root.attributes, deleted=root.deleted)
        if has_claims:
            await self._claims.check()
        others = {root_id(tenant, name): name for name in set(covers.documents) - known.versions.keys()}
        for key, written in (await self._claims.versions_of(others)).items():
            if written:
                known.add(others[key], max(written.values()))
        documents = known.covered(covers)
        certain = {each.document_id for each in documents}
        undecided = {name: why for name, why in sorted(unreadable.items()) if covers.attributes and name not in certain}
        return CoveredDocuments(documents=documents, undecided=undecided)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Keep other erasures of this process from finding and removing meanwhile."""
        async with self._alone:
            yield

    async def find(
        self,
        tenant: TenantId,
        versions: Mapping[DocumentId, int],
        *,
        claims: Mapping[str, frozenset[DocumentId]] | None = None,
        before_ms: Timestamp | None = None,
        waits: bool = False,
    ) -> Findings:
        """Search topics, store and claims. Raises Unavailable where one of them does not answer."""
        if not versions:
            return Findings()
        content = Content(self._settings, tenant, versions, before_ms=before_ms, registry=self._registry)
        topics, superseded = topics_of(self._settings), before_ms is not None
        generations, rows = await self._rows(tenant, versions, superseded=superseded)
        compacted = {topics.documents.name, topics.judgements.name}
        known = {uri: set(names) for uri, names in (claims or {}).items()}
        found = _Found(known, versions, content.keys, superseded=superseded)
        unread: list[UnreadRecords] = []
        # In the order in which workers copy content from one to the next.
        for topic in await present(self._settings, searched_topics(self._settings, generations, tenant)):
            async for stored, change in self._read(topic):
                holders = content.of(topic, stored, change)
                found.add(stored, holders, change)
                if topic.name == topics.documents.name:
                    found.add_deletion(stored, change)
                if topic.name in compacted:
                    found.add_last(stored, holders, change, versioned=topic.name == topics.documents.name)
            if waits and (ends := found.ends_in(topic.name)):
                unread += await self._consumers.behind(topic.name, ends)
        claimed, shared = found.claimed, found.shared
        if any(map(self._claims.owns, {*claimed, *shared})):
            await self._claims.check()
        written, later = await self._written(tenant, versions)
        for uri, name in written.items():
            claimed.setdefault(uri, set()).add(name)
        ours = [uri for uri in claimed if uri not in shared and self._claims.owns(uri)]
        return Findings(
            records=found.records,
            rows=rows,
            claims=[uri for uri in ours if uri in written or await self._claims.has(uri)],
            claimed={uri: frozenset(names) for uri, names in claimed.items()},
            shared=frozenset(shared & claimed.keys()),
            lasts=found.lasts,
            unread=unread,
            undecodable=found.undecodable,
            latest_ms=found.latest_ms,
            unpublished={} if superseded else {uri: each for uri, each in later.items() if not found.is_named(uri)},
        )

    async def _read(self, topic: Topic) -> AsyncIterator[tuple[Record, ReadChange]]:
        """Yield the records of a topic, with the change in each where the topic has changes."""
        topics = topics_of(self._settings)
        has_changes = topic.name in {topics.documents.name, topics.dead_letters.name}
        async with Reader(self._settings.kafka, topic.name, start="earliest", registry=self._registry) as reader:
            async for stored in reader.until_end():
                yield stored, await self._changes.change_of(stored) if has_changes else None
                # Many documents are compared with each answer: a worker must answer its broker meanwhile.
                await asyncio.sleep(0)

    async def remove(self, found: Findings, *, still_free: StillFree, superseded: bool = False) -> Removal:
        """Remove what was found of the documents that are still free."""
        return await self._remover.remove(found, still_free=still_free, superseded=superseded)

    async def destroy_keys(self, tenant: TenantId, documents: Collection[DocumentId]) -> int:
        """Destroy the data keys of deleted documents in all generations; return their number."""
        keys = [root_id(tenant, each) for each in documents]
        async with open_generations(self._settings) as log:
            return sum([await log.destroy_keys(name, keys) for name in await log.stored()])

    async def strip(self, tenant: TenantId, documents: Collection[DocumentId]) -> int:
        """Take names, readers, attributes and hashes from deleted roots; return their number. The fence stays."""
        if not documents:
            return 0
        every = await self.index.commits([root_id(tenant, each) for each in documents])
        bare = [_bare(root) for some in every.values() for root in some if root.deleted]
        await self.index.commit(bare, [])
        return len(bare)

    async def _generations(self) -> tuple[str, Collection[str]]:
        async with open_generations(self._settings) as log:
            answers = answering(await log.entries(), own=self._settings.milvus.generation)
            return answers, list(await log.stored())

    async def _roots(self, tenant: TenantId, covers: Coverage) -> AsyncIterator[Root]:
        """Yield the roots that may be covered, also deleted ones."""
        if covers.documents:
            for at in range(0, len(covers.documents), ROOTS_TOGETHER):
                keys = [root_id(tenant, each) for each in covers.documents[at : at + ROOTS_TOGETHER]]
                for root in (await self.index.roots(keys)).values():
                    yield root
        else:
            async for root in self.index.all_roots(tenant=tenant):
                yield root

    async def _written(
        self, tenant: TenantId, versions: Mapping[DocumentId, int]
    ) -> tuple[dict[str, DocumentId], dict[str, tuple[DocumentId, int]]]:
        """Return the addresses of claims of these versions, and those of later ones with their versions.

        Compaction may have removed the records that named them.
        """
        keys = {root_id(tenant, name): name for name in versions}
        ours: dict[str, DocumentId] = {}
        later: dict[str, tuple[DocumentId, int]] = {}
        for key, written in (await self._claims.versions_of(keys)).items():
            name = keys[key]
            ours |= {uri: name for uri, version in written.items() if version <= versions[name]}
            later |= {uri: (name, version) for uri, version in written.items() if version > versions[name]}
        return ours, later

    async def _rows(
        self, tenant: TenantId, documents: Collection[DocumentId], *, superseded: bool
    ) -> tuple[list[str], dict[str, int]]:
        """Return the stored generations, and the number of rows by collection; superseded ones of that in use only."""
        async with open_generations(self._settings) as log:
            generations, rows = list(await log.stored()), Counter[str]()
            if superseded:
                return generations, await self._superseded(tenant, documents)
            keys = [root_id(tenant, each) for each in documents]
            for name in generations:
                rows.update(await log.count_rows(name, keys))
        return generations, {collection: count for collection, count in rows.items() if count}

    async def _superseded(self, tenant: TenantId, documents: Collection[DocumentId]) -> dict[str, int]:
        """Count chunk rows that no live manifest names: of older versions, until they are swept."""
        keys = [root_id(tenant, each) for each in documents]
        roots, rows = await self.index.roots(keys), await self.index.rows_of(keys)
        pages = await self.index.pages([page for root in roots.values() for page in root.pages])
        live = {entry.row_id for page in pages.values() for entry in page.entries}
        count = sum(head.row_id not in live for heads in rows.values() for head in heads)
        return {"chunks": count} if count else {}


def _named_by(stored: Record, change: ReadChange) -> tuple[TenantId | None, DocumentId, int]:
    """Return tenant, document and version of a record on the topic of documents; None: it holds nothing of one."""
    if isinstance(change, DocumentChange):
        return change.tenant, change.document_id, change.version
    named = None if stored.value is None else document_of_key(stored.key)
    return (None, DocumentId(""), 0) if named is None else (*named, _LOWEST_VERSION)


def _deletion_in(stored: Record, change: ReadChange) -> tuple[tuple[TenantId, DocumentId] | None, int]:
    """Return the document that a record deletes, and its version; None: no document, or nobody knows which version."""
    if isinstance(change, DocumentChange):
        document = change.tenant, change.document_id
        # Under the key of another document it is rejected.
        deletes = change.operation is Operation.DELETE and stored.key == record_key(*document)
        return (document if deletes else None), change.version
    version = version_in(stored.headers) if stored.value is None else 0
    return (document_of_key(stored.key) if version else None), version


def _bare(root: Root) -> Root:
    return replace(
        root,
        content_hash="",
        metadata_hash="",
        name="",
        media_type="",
        language="",
        source_uri=None,
        principals=(),
        attributes={},
        characters=0,
    )
