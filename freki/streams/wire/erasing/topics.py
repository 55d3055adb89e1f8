"""Which topics may hold content of documents, and whose content a record of them is."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from freki.client.kafka import Record
from freki.infra.claims import ClaimStore
from freki.infra.kafka import Reader
from freki.infra.kafka.admin import Admin
from freki.infra.keys import cipher_of
from freki.infra.registry import RegistryClient
from freki.infra.settings import Settings
from freki.operators.identify import record_key
from freki.schemas import (
    ChunkBatch,
    ContextualChunkBatch,
    DocumentChange,
    DocumentId,
    ErasureReport,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec, DamagedError, UndecodableError
from freki.schemas.names import record
from freki.streams.deliver.dead_letters import NotADeadLetter, from_record, opened
from freki.streams.retrieve.steps.judged import key_parts
from freki.streams.topics import Topic
from freki.streams.wire.from_settings import reply_topics_of, settings_named, topics_of, wall_clock

_KEYED_BY_DOCUMENT = (ChunkBatch, ContextualChunkBatch)
_CLOCKS_MS = 60 * 60 * 1000
"""Margin for times of records that are the clock of their producer."""


@record
class Unreadable:
    """A change that cannot be decoded here, although others may be able to."""

    reason: str
    """With what mends it."""


ReadChange = DocumentChange | Unreadable | None
"""None: there is no change, or one so damaged that nobody can have read it."""


class ChangeReader:
    """Reads the changes of the topic of documents, and those in dead letters."""

    def __init__(self, settings: Settings, registry: RegistryClient | None) -> None:
        self._settings = settings
        self._registry = registry
        self._topics = topics_of(settings)
        self._codec = Codec(DocumentChange, registry=registry)
        self._cipher = cipher_of(settings.encryption)

    async def change_of(self, stored: Record) -> ReadChange:
        """Return the change of a record."""
        if self._registry is not None:
            await self._registry.prepare([stored.value])
        if stored.topic != self._topics.dead_letters.name or stored.value is None:
            return self._decoded(stored.value)
        try:
            letter = await opened(from_record(stored), self._cipher)
        except NotADeadLetter:
            return self._decoded(stored.value)
        change = Unreadable(reason=letter.message) if letter.encrypted else self._decoded(letter.value)
        # Those of other topics hold no change.
        return change if isinstance(change, DocumentChange) or letter.topic == self._topics.documents.name else None

    def _decoded(self, value: bytes | None) -> ReadChange:
        try:
            return None if value is None else self._codec.decode(value)
        except DamagedError:
            return None
        except UndecodableError as error:
            return Unreadable(reason=str(error))

    async def changes(self, *, since_ms: Timestamp | None = None) -> AsyncGenerator[tuple[Record, ReadChange], None]:
        """Yield the records of the topic of documents with their changes; since_ms: those of before may come too."""
        topic = topics_of(self._settings).documents.name
        async with Reader(self._settings.kafka, topic, start="earliest" if since_ms is None else since_ms) as reader:
            async for stored in reader.until_end():
                yield stored, await self.change_of(stored)


class NamedClaims:
    """Whether changes on the topic of documents name content in the directory of claims; the topic is read once."""

    def __init__(self, changes: ChangeReader, claims: ClaimStore) -> None:
        self._changes = changes
        self._claims = claims
        self._named = False
        self._since_ms: Timestamp | None = None

    async def any(self) -> bool:
        """Return whether one does or may, or did when this was asked before. Raises Unavailable, Misconfigured."""
        if not self._named:
            begun_ms = wall_clock()
            async with aclosing(self._changes.changes(since_ms=self._since_ms)) as changes:
                async for _, change in changes:
                    if names_claim(change, self._claims):
                        self._named = True
                        break
            self._since_ms = Timestamp(begun_ms - _CLOCKS_MS)
        return self._named


def names_claim(change: ReadChange, claims: ClaimStore) -> bool:
    """Return whether a change names content in the directory of claims; of one that is not read nobody can tell."""
    if isinstance(change, DocumentChange):
        return change.claim is not None and claims.owns(change.claim.uri)
    return change is not None


class Content:
    """Whose content a record is, by topic.

    On topics of answers a document is found by its id, whatever its tenant.
    """

    def __init__(
        self,
        settings: Settings,
        tenant: TenantId,
        versions: Mapping[DocumentId, int],
        *,
        before_ms: Timestamp | None = None,
        registry: RegistryClient | None = None,
    ) -> None:
        """Look for versions; arguments as of `DocumentPlaces.find`; registry: of the schemas of answers."""
        self._reports = Codec(ErasureReport, registry=registry)
        self._topics = topics_of(settings)
        self._tenant = tenant
        self._versions = versions
        self._before_ms = before_ms
        self.keys = {record_key(tenant, each): each for each in versions}
        self._marks = {each: _marks(each) for each in versions}

    def of(self, topic: Topic, stored: Record, change: ReadChange) -> frozenset[DocumentId]:
        """Return the documents whose content a record is; change: the change in it, where it holds one."""
        if stored.value is None:
            return frozenset()
        if topic.name == self._topics.judgements.name:
            # A judgement is on a document, whatever its version: it stays if an older version goes.
            judged = None if self._before_ms is not None else judged_document(stored.key, self._tenant)
            return frozenset({judged} & self._versions.keys()) if judged is not None else frozenset()
        if topic.name in (self._topics.documents.name, self._topics.dead_letters.name):
            return self._of_change(topic, stored, change)
        if topic.holds in _KEYED_BY_DOCUMENT:
            found = {self.keys[stored.key]} if stored.key in self.keys and stored.value else set()
        else:
            value = stored.value
            found = {each for each, marks in self._marks.items() if any(mark in value for mark in marks)}
            if found and self._is_erasure_report(value):
                found = set()
        return frozenset(found) if self._is_meant(stored) else frozenset()

    def _of_change(self, topic: Topic, stored: Record, change: ReadChange) -> frozenset[DocumentId]:
        document = self._named_by(stored, change)
        if document is None or not stored.value:
            return frozenset()
        if not isinstance(change, DocumentChange):
            return frozenset({document}) if self._is_meant(stored) else frozenset()
        is_letter = topic.name == self._topics.dead_letters.name
        # A letter of a later version than the topic of documents has goes with its document.
        is_later = change.version > self._versions[document] and not (is_letter and self._before_ms is None)
        has_content = change.content is not None or change.claim is not None
        return frozenset({document}) if (has_content or is_letter) and not is_later else frozenset()

    def _named_by(self, stored: Record, change: ReadChange) -> DocumentId | None:
        """Return the document that a change is about; its key may be wrong, for which it is rejected, not removed."""
        if not isinstance(change, DocumentChange):
            return self.keys.get(stored.key or b"")
        is_ours = change.tenant == self._tenant and change.document_id in self._versions
        return change.document_id if is_ours else None

    def _is_erasure_report(self, value: bytes) -> bool:
        """Return whether a record on a reply topic is a report on an erasure, which names ids and is kept as proof."""
        try:
            self._reports.decode(value)
        except UndecodableError:
            return False
        return True

    def _is_meant(self, stored: Record) -> bool:
        return self._before_ms is None or stored.timestamp_ms <= self._before_ms


def searched_topics(settings: Settings, generations: Iterable[str], tenant: TenantId) -> list[Topic]:
    """Return the topics that may hold content, each once, in the order in which workers copy it: dead letters last."""
    every = {topic.name: topic for topic in _of_documents(settings)}
    for name in generations:
        every |= {topic.name: topic for topic in _of_documents(settings_named(settings, name))}
    every |= {topic.name: topic for topic in reply_topics_of(settings, [tenant])}
    contexts = topics_of(settings).contexts
    every |= {name: replace(contexts, name=name) for name in settings.retrieval.reply_topics}
    letters = every.pop(topics_of(settings).dead_letters.name)
    return [*every.values(), letters]


async def present(settings: Settings, topics: Sequence[Topic]) -> list[Topic]:
    """Return the topics that exist."""
    async with Admin(settings.kafka) as admin:
        there = await admin.partitions([topic.name for topic in topics])
    return [topic for topic in topics if there[topic.name]]


def judged_document(key: bytes | None, tenant: TenantId) -> DocumentId | None:
    """Return the document of the key of a judgement; None for another tenant and for another key."""
    try:
        whose, _, _, document = key_parts(key or b"")
    except ValueError:
        return None
    return DocumentId(document) if whose == tenant else None


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


def _marks(document: str) -> Sequence[bytes]:
    """Return what stands in a record that names a document: Avro writes the length before a text."""
    text = document.encode()
    number, length = 2 * len(text), bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits per byte
        length.append(number & 0x7F | 0x80)
        number >>= 7
    length.append(number)
    return bytes(length) + text, json.dumps(document).encode(), json.dumps(document, ensure_ascii=False).encode()
