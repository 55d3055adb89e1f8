"""Where content of documents is on topics, in the store and in claims, and its removal."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from freki.infra.claims import ClaimStore
from freki.infra.kafka import Admin, Reader
from freki.infra.kafka.records import Record
from freki.infra.keys import cipher_of
from freki.infra.local.scrub import request_scrub, store_file
from freki.infra.local.state import read_stack
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import record_key, root_id
from freki.schemas import ChunkBatch, ContextualChunkBatch, DocumentChange, DocumentId, Operation, TenantId
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.index import Root
from freki.streams.deliver.dead_letters import NotADeadLetter, from_record, opened, replayed_by
from freki.streams.messages import Outgoing
from freki.streams.topics import DAY_MS, Topic
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import (
    group_of,
    ingest_sources,
    reply_topics_of,
    settings_named,
    topics_of,
    wall_clock,
)

_CLEANER_MS = 60 * 60 * 1000
"""Margin for what the broker does in the background: it looks for old segments every five minutes."""
_COMMIT_PAUSE_S = 0.5
_KEYED_BY_DOCUMENT = (ChunkBatch, ContextualChunkBatch)
_IN_MEMORY = "the broker stops: it neither compacts topics nor deletes records, and keeps them in memory only"


@dataclass(frozen=True, slots=True)
class Found:
    """Records of one partition with content of the documents."""

    topic: str
    partition: int
    records: int
    last: int
    """Offset of the last one."""


@dataclass(slots=True)
class Findings:
    """All places with content of the documents."""

    records: list[Found] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows by collection of the store."""
    claims: list[str] = field(default_factory=list)
    """Addresses of content that is there."""
    claimed: set[str] = field(default_factory=set, repr=False)
    """Addresses that records of the documents name."""
    shared: set[str] = field(default_factory=set, repr=False)
    """Those that other documents name too."""
    versions: dict[str, int] = field(default_factory=dict, repr=False)
    """Highest version on the topic, by document."""
    judgements: list[bytes] = field(default_factory=list, repr=False)
    """Keys of their judgements."""

    def described(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {"records": [asdict(each) for each in self.records], "rows": self.rows, "claims": sorted(self.claims)}

    def __bool__(self) -> bool:
        return bool(self.records or self.rows or self.claims)


async def find(  # noqa: C901, PLR0912 - one case for each kind of topic
    settings: Settings, tenant: TenantId, documents: Collection[str], *, claims: Collection[str] = ()
) -> Findings:
    """Search topics, store and claims; claims: known addresses besides those that records name.

    Raises Unavailable where one of them does not answer.
    """
    found = Findings(claimed=set(claims))
    keys = {record_key(tenant, DocumentId(each)): each for each in documents}
    marks = [mark for each in documents for mark in _marks(each)]
    topics, cipher = topics_of(settings), cipher_of(settings.encryption)
    async with MilvusGenerations(settings.milvus) as log:
        generations = list(await log.stored())
        for name in generations:
            for each in documents:
                for collection, rows in (await log.rows_of(name, root_id(tenant, DocumentId(each)))).items():
                    if rows:
                        found.rows[collection] = found.rows.get(collection, 0) + rows
    async with open_registry(settings) as registry:
        codec = Codec(DocumentChange, registry=registry)

        async def change_of(record: Record) -> DocumentChange | None:
            if registry is not None:
                await registry.prepare([record.value])
            value = record.value
            if record.topic == topics.dead_letters.name and value is not None:
                with suppress(NotADeadLetter):
                    value = (await opened(from_record(record), cipher)).value
            try:
                return None if value is None else codec.decode(value)
            except UndecodableError:
                return None

        for topic in await _present(settings, _searched(settings, generations, tenant)):
            offsets: defaultdict[int, list[int]] = defaultdict(list)
            async with Reader(settings.kafka, topic.name, start="earliest") as reader:
                async for record in reader.until_end():
                    holds = False
                    if topic.name in (topics.documents.name, topics.dead_letters.name):
                        change = await change_of(record)
                        holds = record.key in keys and bool(record.value)
                        if change is not None and change.claim is not None:
                            (found.claimed if record.key in keys else found.shared).add(change.claim.uri)
                        if change is not None and holds:
                            document = keys[record.key or b""]
                            found.versions[document] = max(found.versions.get(document, 0), change.version)
                            holds = change.operation is not Operation.DELETE
                    elif topic.name == topics.judgements.name:
                        holds = record.value is not None and _is_judged(record.key, tenant, documents)
                        if holds:
                            found.judgements.append(record.key or b"")
                    elif topic.holds in _KEYED_BY_DOCUMENT:
                        holds = record.key in keys and bool(record.value)
                    else:
                        holds = any(mark in (record.value or b"") for mark in marks)
                    if holds:
                        offsets[record.partition].append(record.offset)
            found.records += [
                Found(topic.name, number, len(some), max(some)) for number, some in sorted(offsets.items())
            ]
    store = ClaimStore(settings.claims)
    for uri in found.claimed - found.shared:
        if store.owns(uri) and await store.has(uri):
            found.claims.append(uri)
    return found


async def remove(  # noqa: C901 - one case for each kind of place
    settings: Settings, tenant: TenantId, documents: Collection[str], found: Findings, *, patience_s: float
) -> dict[str, Any]:
    """Remove what was found, after the documents are deleted; return what was removed, and what remains until when.

    patience_s: how long workers may take to commit that they have read records of work topics.
    """
    removed: list[dict[str, Any]] = []
    remains: list[dict[str, Any]] = []
    topics = topics_of(settings)
    store = ClaimStore(settings.claims)
    for uri in sorted(found.claimed):
        if uri in found.shared:
            remains.append({"claim": uri, "until": "the other documents with the same content are erased"})
        elif not store.owns(uri):
            remains.append({"claim": uri, "until": "its producer removes it: it is outside FREKI_CLAIMS__DIRECTORY"})
        elif await store.remove(uri):
            removed.append({"claim": uri, "at": wall_clock()})
    if found.judgements:
        async with open_outbox(settings) as (outbox, _):
            for key in sorted(set(found.judgements)):
                await outbox.send(Outgoing(topic=topics.judgements.name, key=key, value=None))
    compacted = {topics.documents.name, topics.judgements.name, topics.sources.name}
    async with Admin(settings.kafka) as admin:
        states = {each.name: each for each in await admin.describe(sorted({each.topic for each in found.records}))}
        # The local broker keeps records in memory, drops the connection of who deletes some, and does not compact.
        can_delete = settings.kafka.profile != "local"
        for each in found.records:
            place = {"topic": each.topic, "partition": each.partition, "records": each.records}
            config = states[each.topic].config
            if each.topic not in compacted and can_delete:
                if not await _is_read(settings, admin, each, patience_s=patience_s):
                    remains.append({**place, **_until(config, "its consumers have not read it")})
                    continue
                if each.topic == topics.dead_letters.name:
                    await _rewrite_letters(settings, tenant, documents, each)
                await admin.delete_records(each.topic, {each.partition: each.last + 1})
                removed.append({**place, "at": wall_clock()})
                remains.append({**place, **_until(config, "deleted for readers; segments on the broker's disk")})
            elif can_delete:
                remains.append({**place, **_until(config, "compaction after the null value")})
            else:
                remains.append({**place, "until": _IN_MEMORY, "until_ms": None})
    return {"removed": removed, "remains": [*remains, *files_of_store(settings)]}


def files_of_store(settings: Settings) -> list[dict[str, Any]]:
    """Return until when deleted rows remain in files of the store; the local one is told to drop them."""
    until = "the store compacts its segments and collects what they leave, by its own settings"
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    if stack is not None and stack.milvus_uri == settings.milvus.uri and request_scrub(store_file(stack.directory)):
        until = "the local stack is started again, which writes the file of its store anew"
    return [{"store": settings.milvus.uri, "until": until, "until_ms": None}]


async def destroy_keys(settings: Settings, tenant: TenantId, documents: Collection[str]) -> int:
    """Destroy the data keys of deleted documents in all generations; return their number."""
    keys = [root_id(tenant, DocumentId(each)) for each in documents]
    async with MilvusGenerations(settings.milvus) as log:
        return sum([await log.destroy_keys(name, keys) for name in await log.stored()])


async def strip(index: MilvusIndex, roots: Sequence[Root]) -> int:
    """Take names, readers, attributes and hashes from deleted roots; return their number. The fence stays."""
    every = await index.commits([root.root_id for root in roots])
    bare = [
        replace(
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
        for some in every.values()
        for root in some
        if root.deleted
    ]
    await index.commit(bare, [])
    return len(bare)


def _searched(settings: Settings, generations: Iterable[str], tenant: TenantId) -> list[Topic]:
    """Return the topics that may hold content, each once."""
    every = {topic.name: topic for topic in _of_documents(settings)}
    for name in generations:
        every |= {topic.name: topic for topic in _of_documents(settings_named(settings, name))}
    every |= {topic.name: topic for topic in reply_topics_of(settings, [tenant])}
    contexts = topics_of(settings).contexts
    every |= {name: replace(contexts, name=name) for name in settings.retrieval.reply_topics}
    return list(every.values())


def _of_documents(settings: Settings) -> list[Topic]:
    topics = topics_of(settings)
    return [
        topics.documents,
        *topics.chunks.values(),
        *topics.contextual_chunks.values(),
        topics.contexts,
        topics.document_reports,
        topics.judgements,
        topics.dead_letters,
    ]


async def _present(settings: Settings, topics: Sequence[Topic]) -> list[Topic]:
    async with Admin(settings.kafka) as admin:
        there = await admin.partitions([topic.name for topic in topics])
    return [topic for topic in topics if there[topic.name]]


def _marks(document: str) -> Sequence[bytes]:
    """Return what stands in a record that names a document: Avro writes the length before a text."""
    text = document.encode()
    number, length = 2 * len(text), bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits per byte
        length.append(number & 0x7F | 0x80)
        number >>= 7
    length.append(number)
    return bytes(length) + text, json.dumps(document).encode(), json.dumps(document, ensure_ascii=False).encode()


def _is_judged(key: bytes | None, tenant: TenantId, documents: Collection[str]) -> bool:
    try:
        names = json.loads(key or b"")
    except ValueError:
        return False
    return isinstance(names, list) and len(names) == 4 and names[0] == tenant and names[3] in documents  # noqa: PLR2004


async def _is_read(settings: Settings, admin: Admin, found: Found, *, patience_s: float) -> bool:
    """Wait until the groups that read a work topic have committed past what was found; true for other topics."""
    async with MilvusGenerations(settings.milvus) as log:
        generations = set(await log.stored()) | {settings.milvus.generation}
    groups = [
        group_of(named, source.group)
        for named in (settings_named(settings, name) for name in sorted(generations))
        for source in ingest_sources(named)
        if source.topic == found.topic
    ]
    for _ in range(max(1, round(patience_s / _COMMIT_PAUSE_S))):
        lags = [lag for group in groups for lag in await admin.lag(group, [found.topic])]
        if all((lag.committed or 0) > found.last for lag in lags if lag.partition == found.partition):
            return True
        await asyncio.sleep(_COMMIT_PAUSE_S)
    return False


async def _rewrite_letters(settings: Settings, tenant: TenantId, documents: Collection[str], until: Found) -> None:
    """Send the other dead letters of a partition again, so that the records up to the last of ours may go.

    Replayed ones and the notes of it are left out. If this is interrupted, a letter is there twice.
    """
    keys = {record_key(tenant, DocumentId(each)) for each in documents}
    async with Reader(settings.kafka, until.topic, start="earliest") as reader:
        records = [record async for record in reader.until_end()]
    replayed = {place for record in records if (place := replayed_by(record)) is not None}
    kept = [
        record
        for record in records
        if record.partition == until.partition
        and record.offset <= until.last
        and record.key not in keys
        and replayed_by(record) is None
        and (record.partition, record.offset) not in replayed
    ]
    async with open_outbox(settings) as (outbox, _):
        for record in kept:
            await outbox.send(Outgoing(topic=until.topic, key=record.key, value=record.value, headers=record.headers))


def _until(config: Mapping[str, str], how: str) -> dict[str, Any]:
    """Return the time by which the broker has removed a record from its disk.

    A segment closes at the first record after `segment.ms`; without one, retention closes it.
    """
    segment = int(config.get("segment.ms", 7 * DAY_MS))
    if config.get("cleanup.policy") == "compact":
        wait = segment + int(config.get("max.compaction.lag.ms", DAY_MS))
        how += ", if a later record comes to this partition after segment.ms"
    else:
        wait = segment + int(config.get("retention.ms", 7 * DAY_MS))
    return {"until": how, "until_ms": wall_clock() + wait + _CLEANER_MS}
