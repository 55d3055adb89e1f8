"""All that is held about documents, read from every place: topics, store, claims and the audit log."""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from freki.client.kafka import Record
from freki.infra.audit import read_chains
from freki.infra.claims import ClaimStore
from freki.infra.kafka import Reader
from freki.infra.keys import cipher_of
from freki.infra.registry import RegistryClient
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.schemas import (
    AuditEntry,
    ContextExpansion,
    ContextHit,
    ContextQuery,
    ContextResult,
    Coverage,
    DocumentChange,
    DocumentId,
    DocumentReport,
    Duplicate,
    IndexOutcome,
    Judgement,
    ListedDocument,
    TenantId,
)
from freki.schemas.avro import Codec, DamagedError, UndecodableError
from freki.schemas.errors import InfraError
from freki.streams.deliver.dead_letters import NotADeadLetter, from_record, opened
from freki.streams.documents.view import view_of
from freki.streams.privacy.erasure import undecided_of
from freki.streams.topics import Topic
from freki.streams.wire.audit import audit_directory
from freki.streams.wire.cases import read_cases
from freki.streams.wire.connect import open_generations
from freki.streams.wire.erasing.places import Places
from freki.streams.wire.erasing.topics import Content, judged_document, present, searched_topics
from freki.streams.wire.from_settings import topics_of

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex

Item = Mapping[str, Any]
"""One thing that is held, as JSON: `what` it is, the document, and its content."""
_ANSWERS: tuple[type[Any], ...] = (ContextResult, DocumentReport)
_NEVER_SEARCHED = (
    "ledgers of sources, use of limits, groups, and requests and reports of erasures: ids, and attributes in requests",
    "archives of `freki export`",
    "sets of `freki questions make`, and reports of evaluations",
    "backups and files that broker and store have not removed yet",
    "log files, and traces with content",
    "caches in the memory of workers",
    "answers that services keep",
)


class Access:
    """Reads out what is stored of documents."""

    def __init__(
        self, settings: Settings, *, index: "MilvusIndex", registry: RegistryClient | None, places: Places
    ) -> None:
        self._settings = settings
        self._index = index
        self._registry = registry
        self._places = places
        self._topics = topics_of(settings)
        self._claims = ClaimStore(settings.claims, cipher_of(settings.encryption))
        self._left_out: list[str] = []
        self._codecs: dict[type[Any], Codec[Any]] = {}
        self._covers = Coverage()
        self._only: dict[DocumentId, frozenset[int]] = {}
        """Versions that are read out, of documents of which not all are."""
        self._withheld = Counter[DocumentId]()
        self._undecodable: dict[str, str] = {}
        """Why records that may be about the documents cannot be decoded, by place."""

    async def read(self, tenant: TenantId, covers: Coverage, *, words: Collection[str] = ()) -> AsyncIterator[Item]:
        """Yield all that is stored of the covered documents, place by place; the last item says what was searched.

        words: queries with one of these in their text are part of it, as far as the topic has them.
        """
        covered = await self._places.covered(tenant, covers)
        known = {each.document_id: each.version for each in covered.documents}
        self._covers = covers
        self._only = {each.document_id: each.only for each in covered.documents if each.only is not None}
        if covered.undecided:
            self._undecodable["documents"] = undecided_of(covered.undecided)
        names = list(known)
        searched: list[str] = []
        async for item in self._of_index(tenant, names):
            yield item
        searched.append("index")
        # A case of somebody else may cover the same document by another version.
        attributes = {
            each.document_id: [
                some for some in each.attributes if each.only is None or covers.has(each.document_id, some)
            ]
            for each in covered.documents
        }
        async for item in self._of_cases(tenant, attributes):
            yield item
        async for item in self._of_claims(tenant, names):
            yield item
        searched.append("claims")
        content = Content(self._settings, tenant, known, registry=self._registry)
        async with open_generations(self._settings) as log:
            generations = await log.stored()
            for other in generations.keys() - {self._settings.milvus.generation}:
                if rows := sum((await log.count_rows(other, [root_id(tenant, name) for name in names])).values()):
                    self._left_out.append(
                        f"generation {other} (rows: {rows}); "
                        f"FREKI_MILVUS__GENERATION={other}, with the models of that generation, reads them"
                    )
        topics = searched_topics(self._settings, generations, tenant)
        for topic in await present(self._settings, [*topics, self._topics.outcomes, self._topics.queries]):
            async for item in self._of_topic(topic, tenant, content, words):
                yield item
            searched.append(topic.name)
        async for item in self._of_audit(tenant, set(names)):
            yield item
        yield {
            "what": "end",
            "tenant": tenant,
            "documents": len(names),
            "searched": searched,
            "undecodable": dict(self._undecodable),
            "withheld": dict(self._withheld),
            "not_searched": [*self._left_out, *_NEVER_SEARCHED],
        }

    async def _of_index(self, tenant: TenantId, names: Collection[DocumentId]) -> AsyncIterator[Item]:
        """Yield roots and chunks."""
        for name in names:
            key = root_id(tenant, name)
            root = (await self._index.roots([key])).get(key)
            if root is None or not self._may_tell(name, root.version):
                continue
            view = await view_of(self._index, root)
            # It may have been replaced meanwhile.
            if not self._may_tell(name, view.root.version):
                continue
            yield {"what": "document", **_plain(view.root)}
            for chunk in view.chunks:
                yield {"what": "chunk", "document_id": name, "version": view.root.version, **_plain(chunk)}

    async def _of_cases(
        self, tenant: TenantId, documents: Mapping[DocumentId, Sequence[Mapping[str, str]]]
    ) -> AsyncIterator[Item]:
        """Yield the holds and objections that cover the documents; documents: with the attributes of their versions."""
        cases = await read_cases(self._settings, tenant)
        for what, some in (("hold", cases.holds), ("objection", cases.objections)):
            for case in some.values():
                if any(case.covers.has(name, each) for name, known in documents.items() for each in known or [{}]):
                    ours, others = _apart(case.covers.documents, documents)
                    covers = replace(case.covers, documents=ours)
                    yield {"what": what, **_plain(replace(case, covers=covers)), "other_documents": others}

    async def _of_claims(self, tenant: TenantId, names: Collection[DocumentId]) -> AsyncIterator[Item]:
        """Yield what was written of the documents, also of versions that no record names any more."""
        keys = {root_id(tenant, name): name for name in names}
        for key, written in (await self._claims.versions_of(keys)).items():
            for uri, version in written.items():
                if not self._may_tell(keys[key], version):
                    continue
                item = {"what": "claim", "document_id": keys[key], "version": version, "uri": uri}
                yield {**item, **await self._content(uri, self._claims.read(uri))}

    async def _of_topic(
        self, topic: Topic, tenant: TenantId, content: Content, words: Collection[str]
    ) -> AsyncIterator[Item]:
        async with Reader(self._settings.kafka, topic.name, start="earliest", registry=self._registry) as reader:
            async for stored in reader.until_end():
                where = {"topic": topic.name, "partition": stored.partition, "offset": stored.offset}
                async for item in self._of_record(topic, stored, tenant, content, words):
                    yield {**item, **where, "recorded_ms": stored.timestamp_ms}

    async def _of_record(
        self, topic: Topic, stored: Record, tenant: TenantId, content: Content, words: Collection[str]
    ) -> AsyncIterator[Item]:
        """Yield what a record says of the documents."""
        if stored.value is None:
            return
        if topic.name == self._topics.queries.name:
            query = self._decoded(ContextQuery, stored, stored.value) if words else None
            if query is not None and is_asked_of(query, tenant, words):
                yield {"what": "query", **_plain(query)}
        elif topic.name == self._topics.judgements.name:
            if judged_document(stored.key, tenant) in content.keys.values():
                judgement = self._decoded(Judgement, stored, stored.value)
                yield {"what": "judgement", **({} if judgement is None else _plain(judgement))}
        elif topic.holds in _ANSWERS:
            for item in self._of_answer(topic, stored, tenant, content.of(topic, stored, None)):
                yield item
        elif (name := content.keys.get(stored.key or b"")) is not None:
            async for item in self._of_document(topic, stored, name):
                yield item

    async def _of_document(self, topic: Topic, stored: Record, name: DocumentId) -> AsyncIterator[Item]:
        """Yield what a record with the key of a document holds."""
        if topic.name == self._topics.dead_letters.name:
            if (found := await self._letter(stored, name)) is not None:
                yield {"what": "dead_letter", "document_id": name, **found}
            return
        kind = topic.holds
        value = None if kind is None or stored.value is None else self._decoded(kind, stored, stored.value)
        what = {DocumentChange: "version", IndexOutcome: "receipt"}.get(kind or object, "work_record")
        if value is None or not self._may_tell(name, version_of(value), attributes_of(value)):
            return
        claimed = await self._claimed(value) if isinstance(value, DocumentChange) else {}
        yield {"what": what, "document_id": name, **_plain(value), **claimed}

    def _of_answer(
        self, topic: Topic, stored: Record, tenant: TenantId, holders: Collection[DocumentId]
    ) -> Iterator[Item]:
        """Yield what an answer says of the documents; holders: those that its bytes name."""
        if not holders or topic.holds is None or stored.value is None:
            return
        found = self._decoded(topic.holds, stored, stored.value)
        if found is not None and (said := said_of(found, tenant, holders, may_tell=self._may_tell)) is not None:
            yield {"what": "answer", "documents": sorted(holders), **said}

    async def _claimed(self, change: DocumentChange) -> Item:
        """Return the content of a claim; where it cannot be read, why."""
        return {} if change.claim is None else await self._content(change.claim.uri, self._claims.get(change.claim))

    async def _content(self, uri: str, reading: Awaitable[bytes]) -> Item:
        try:
            return {"content": _text(await reading)}
        except InfraError as error:
            self._left_out.append(f"claim {uri}: {error.gist}")
            return {"content_missing": error.gist}

    async def _letter(self, stored: Record, name: DocumentId) -> Item | None:
        """Return what a dead letter holds; None where it is withheld."""
        try:
            letter = await opened(from_record(stored), cipher_of(self._settings.encryption))
        except NotADeadLetter:
            return {}
        except InfraError as error:
            self._left_out.append(f"dead letter {stored.partition}/{stored.offset}: {error.gist}")
            return {"content_missing": error.gist}
        is_change = letter.value is not None and letter.topic == self._topics.documents.name
        change = self._decoded(DocumentChange, stored, letter.value or b"") if is_change else None
        version, attributes = (None, {}) if change is None else (change.version, change.attributes)
        if not self._may_tell(name, version, attributes):
            return None
        value = _text(letter.value or b"") if change is None else _plain(change)
        return {"stage": letter.stage, "error": letter.message, "omitted": letter.omitted, "value": value}

    async def _of_audit(self, tenant: TenantId, names: Collection[DocumentId]) -> AsyncIterator[Item]:
        """Yield the entries of the audit log of this machine that name the documents."""
        if not self._settings.audit.enabled:
            self._left_out.append("audit log: FREKI_AUDIT__ENABLED is false here")
            return
        directory = audit_directory(self._settings)
        for _, entry in read_chains([directory]):
            if not isinstance(entry, AuditEntry) or entry.tenant != tenant:
                continue
            named = [each.document_id for each in entry.documents]
            ours, others = _apart(named, names)
            if ours:
                documents = tuple(each for each in entry.documents if each.document_id in ours)
                yield {"what": "audit_entry", **_plain(replace(entry, documents=documents)), "other_documents": others}
        self._left_out.append(f"audit log outside {directory}: search its topic by `freki audit search --document`")

    def _may_tell(self, name: DocumentId, version: int | None, attributes: Mapping[str, str] | None = None) -> bool:
        """Return whether a version may be read out, and count it where it may not; None: nobody knows which it is.

        A version with other attributes than those that were asked for may be about somebody else. attributes: those
        that are read with it, as compaction may have removed its change.
        """
        only = self._only.get(name)
        if only is None or version in only or (attributes and self._covers.has(name, attributes)):
            return True
        self._withheld[name] += 1
        return False

    def _codec(self, kind: type[Any]) -> Codec[Any]:
        if kind not in self._codecs:
            self._codecs[kind] = Codec(kind, registry=self._registry)
        return self._codecs[kind]

    def _decoded(self, kind: type[Any], stored: Record, value: bytes) -> Any:  # noqa: ANN401 - of that type
        try:
            return answer_in(value, kind, self._codec) if kind in _ANSWERS else self._codec(kind).decode(value)
        except UndecodableError as error:
            place = f"{stored.topic} {stored.partition}/{stored.offset}"
            if stored.topic != self._topics.queries.name:
                self._undecodable[place] = str(error)
            elif not isinstance(error, DamagedError):
                # Nothing says whose it is, and anybody may send one.
                self._left_out.append(f"{place}: {error}")
            return None


def answer_in(
    value: bytes, expected: type[Any], codec_of: Callable[[type[Any]], Codec[Any]] = Codec
) -> ContextResult | DocumentReport:
    """Return the answer in a record; those who ask may have both kinds sent to one topic.

    Raises UndecodableError, as of the expected kind.
    """
    try:
        return _answer(codec_of(expected), value)
    except UndecodableError:
        for kind in _ANSWERS:
            if kind is not expected:
                with suppress(UndecodableError):
                    return _answer(codec_of(kind), value)
        raise


def _answer(codec: Codec[Any], value: bytes) -> ContextResult | DocumentReport:
    found: ContextResult | DocumentReport = codec.decode(value)
    return found


def is_asked_of(query: ContextQuery, tenant: TenantId, words: Collection[str]) -> bool:
    """Return whether a query in a tenant has one of these words; blank ones are in all queries, and no reason."""
    return query.tenant == tenant and any(word in query.text for word in words if word.strip())


def version_of(value: Any) -> int:  # noqa: ANN401 - a record with the key of a document
    """Return the version that a change, a receipt or a record between stages is of."""
    version: int = value.version if isinstance(value, DocumentChange | IndexOutcome) else value.revision.version
    return version


def attributes_of(value: Any) -> Mapping[str, str] | None:  # noqa: ANN401 - a record with the key of a document
    """Return the attributes in a change or a record between stages; None where it has none, as a receipt."""
    if isinstance(value, IndexOutcome):
        return None
    attributes: Mapping[str, str] = (value if isinstance(value, DocumentChange) else value.revision).attributes
    return attributes


def said_of(
    found: ContextResult | DocumentReport,
    tenant: TenantId,
    documents: Collection[DocumentId],
    *,
    may_tell: Callable[[DocumentId, int], bool] = lambda _name, _version: True,
) -> Item | None:
    """Return what an answer says of documents of a tenant; what it says of others is theirs. None: it is another's.

    Topics of answers have those to all tenants, and documents of two tenants may have the same id. may_tell: whether a
    version of a document may be disclosed.
    """
    if found.tenant != tenant:
        return None
    when = {"query_id": found.query_id, "answered_at": found.answered_at}

    def is_disclosed(each: ContextHit | Duplicate | ContextExpansion | ListedDocument) -> bool:
        return each.document_id in documents and may_tell(each.document_id, each.version)

    if isinstance(found, ContextResult):
        duplicates = {
            hit.chunk_id: [_plain(each) for each in hit.duplicates if is_disclosed(each)] for hit in found.hits
        }
        return {
            **when,
            "hits": [
                {**_plain(hit), "duplicates": duplicates[hit.chunk_id]} for hit in found.hits if is_disclosed(hit)
            ],
            "expansions": [_plain(more) for more in found.expansions if is_disclosed(more)],
            # Their text is that of a hit in another document.
            "duplicates": [
                each for hit in found.hits if hit.document_id not in documents for each in duplicates[hit.chunk_id]
            ],
        }
    listed = [_plain(each) for each in found.documents if is_disclosed(each)]
    # Chunks are those of the one document that is shown.
    return {**when, "listed": listed, "chunks": [_plain(chunk) for chunk in found.chunks] if listed else []}


def _apart(named: Sequence[DocumentId], documents: Collection[DocumentId]) -> tuple[tuple[DocumentId, ...], int]:
    """Return the documents that are among some, and the number of others, which may be those of other people."""
    ours = tuple(each for each in named if each in documents)
    return ours, len(named) - len(ours)


def _plain(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a record of any type
    """Return a record as JSON takes it."""
    plain = json.loads(json.dumps(asdict(value), default=_other))
    assert isinstance(plain, dict)  # noqa: S101 - a record is one
    return plain


def _other(value: object) -> object:
    if isinstance(value, bytes):
        return _text(value)
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def _text(content: bytes) -> str:
    """Return content as text; what is no text, such as a PDF, in base64 with the word before it."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"base64:{b64encode(content).decode('ascii')}"
