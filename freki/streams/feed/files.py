"""Publish files as documents: their identity, what is published already, and their versions."""

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from freki.client.versions import REMEMBERED_MS
from freki.operators.assign_ids import Assignment, IndexedSource, assign_ids
from freki.operators.errors import UnreadableContent
from freki.operators.identify import root_id
from freki.operators.recognise import recognise
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.index import Root
from freki.schemas.names import LARGEST_INTEGER, record
from freki.streams.feed.ledger import SourceLedger
from freki.streams.ingest.chunk import content_hash
from freki.streams.ports import IndexedDocuments, WholeIndex


@record
class FileDocument:
    """A file that is to be a document, without its content."""

    document_id: DocumentId
    """Id if the file is not indexed yet."""
    source_uri: str
    name: str
    """File name."""
    media_type: str | None
    """Media type by name; None where unknown."""
    modified_at: Timestamp


@record
class FileFields:
    """Common fields of the documents of files."""

    tenant: TenantId
    principals: tuple[str, ...]
    priority: int = 0
    title: str | None = None
    """Name of the document; None: the file name."""
    language: str | None = None
    media_type: str | None = None
    """None: by the name of each file."""
    attributes: Mapping[str, str] = field(default_factory=dict)


@record
class Publication:
    """Ledger entry of a document: what was published of it last, or was about to be."""

    version: int
    source_uri: str
    fingerprint: str
    """Hash of content and metadata."""


@dataclass
class FileReport:
    """What became of files."""

    new: int = 0
    changed: int = 0
    """Content or metadata changed, or were published by others."""
    again: int = 0
    """Unchanged, but not indexed so far, not known to the broker, or forced."""
    unchanged: int = 0
    """Published before and indexed: not published again."""


class FileSource:
    """Maker of the changes of files.

    A file keeps the document id under which it was published. Versions are the time of publishing, but greater than all
    that are known of the document: so a restored older file counts as newer, whatever its time and the clocks say. A
    file with the content and metadata of its ledger entry makes no change if the index has that version; if the index
    does not have it, the same change is made again, which has no effect where the first one is under way.
    """

    def __init__(
        self,
        fields: FileFields,
        ledger: SourceLedger[Publication],
        *,
        now: Callable[[], Timestamp],
        is_missing: Callable[[str], bool],
        chosen: bool = False,
        force: bool = False,
    ) -> None:
        """Create a source.

        is_missing: whether a source does not exist any more; chosen: whether the user chose the ids; force: publish
        what is unchanged too, with a new version.
        """
        self.report = FileReport()
        self._fields = fields
        self._ledger = ledger
        self._now = now
        self._is_missing = is_missing
        self._chosen = chosen
        self._force = force
        self._ids: dict[str, DocumentId] = {}
        self._indexed: dict[DocumentId, Root] = {}
        self._entries: dict[DocumentId, Publication] = {}
        """Entries of changes that were made and not recorded yet."""
        self._versions: dict[DocumentId, int] = {}
        """Last versions made, in the order of making: a ledger has none of deleted documents. Forgotten after a day."""

    async def look_up(self, files: Sequence[FileDocument], index: IndexedDocuments) -> None:
        """Learn from the index which documents files have, and their versions."""
        sources = {file.source_uri for file in files}
        found = [root for root in await index.roots_from(sources) if root.tenant == self._fields.tenant]
        self._learn(found)
        ids = {file.document_id for file in files} | self._published_from(sources)
        ids |= {self._ids[source] for source in sources & self._ids.keys()}
        keys = {root_id(self._fields.tenant, each) for each in ids} - {root.root_id for root in found}
        self._learn((await index.roots(sorted(keys))).values())

    def assign(self, files: Sequence[FileDocument]) -> Assignment:
        """Assign ids to files, by the index as far as it was looked up, and by the ledger.

        Returns the assignment; files with a conflict must not be published.
        """
        wanted = {file.source_uri: file.document_id for file in files}
        known = {*wanted.values(), *self._published_from(wanted)}
        known |= {document_id for document_id, root in self._indexed.items() if root.source_uri in wanted}
        documents = [each for each in map(self._live, sorted(known)) if each is not None]
        others = {each.source_uri for each in documents if each.source_uri is not None} - wanted.keys()
        missing = {source for source in others if self._is_missing(source)}
        assignment = assign_ids(wanted, documents, chosen=self._chosen, missing=missing)
        refused = {conflict.source_uri for conflict in assignment.conflicts}
        taken = {document_id for source, document_id in assignment.ids.items() if source not in refused}
        for source in missing:
            # Otherwise its removal, which may be told later, would delete the document of another file.
            if self._ids.get(source) in taken:
                del self._ids[source]
        # One that is refused may have a document all the same, that of before.
        owned = {each.source_uri: each.document_id for each in documents}
        self._ids.update(
            {
                source: each
                for source, each in assignment.ids.items()
                if source not in refused or owned.get(source) == each
            }
        )
        return assignment

    def _live(self, document_id: DocumentId) -> IndexedSource | None:
        """Return a document with its source; None if it is deleted or unknown."""
        entry, root = self._entry(document_id), self._indexed.get(document_id)
        if entry is not None and (root is None or root.version < entry.version):
            return IndexedSource(document_id, entry.source_uri, entry.version)
        return None if root is None or root.deleted else IndexedSource(document_id, root.source_uri, root.version)

    def _published_from(self, sources: Container[str]) -> set[DocumentId]:
        return {DocumentId(each) for each, entry in self._ledger if entry.source_uri in sources}

    async def documents_below(self, homes: tuple[str, ...], index: WholeIndex) -> dict[DocumentId, str]:
        """Return the documents whose source begins with one of these addresses, with it; also those not indexed yet."""
        published = {DocumentId(each) for each, entry in self._ledger if entry.source_uri.startswith(homes)}
        roots = [
            root
            async for root in index.all_roots(tenant=self._fields.tenant)
            if root.document_id in published or (root.source_uri or "").startswith(homes)
        ]
        self._learn(roots)
        documents = map(self._live, published | {root.document_id for root in roots})
        return {
            each.document_id: each.source_uri
            for each in documents
            if each and each.source_uri and each.source_uri.startswith(homes)
        }

    def _learn(self, roots: Iterable[Root]) -> None:
        self._indexed.update({root.document_id: root for root in roots})

    def document_id(self, file: FileDocument) -> DocumentId:
        """Return the document id of a file."""
        return self.known_id(file) or file.document_id

    def known_id(self, file: FileDocument) -> DocumentId | None:
        """Return the document id of a file that was looked up or published; None for any other."""
        return self._ids.get(file.source_uri)

    def own_id(self, file: FileDocument) -> DocumentId | None:
        """Return the id of `known_id`; None if the document is that of another file by now, published by any source."""
        document_id = self.known_id(file)
        live = None if document_id is None else self._live(document_id)
        return document_id if live is None or live.source_uri == file.source_uri else None

    def upsert(self, file: FileDocument, content: bytes) -> DocumentChange | None:
        """Return the change that publishes a file; None if it is published with this content and metadata.

        Raises Rejected if no later version is possible.
        """
        document_id = self.document_id(file)
        change = DocumentChange(
            tenant=self._fields.tenant,
            document_id=document_id,
            operation=Operation.UPSERT,
            version=self._next_version(document_id),
            # Times before 1970 are invalid.
            occurred_at=Timestamp(max(0, file.modified_at)),
            name=self._fields.title or file.name,
            media_type=self._media_type(file, content),
            language=self._fields.language,
            source_uri=file.source_uri,
            principals=self._fields.principals,
            attributes=self._fields.attributes,
            priority=self._fields.priority,
            content=content,
        )
        entry = Publication(version=change.version, source_uri=file.source_uri, fingerprint=_fingerprint(change))
        before, indexed = self._entry(document_id), self._indexed.get(document_id)
        # A deletion since then has a later version, which the ledger does not have.
        is_last = before is not None and before.version >= self._versions.get(document_id, 0)
        if before is not None and is_last and before.fingerprint == entry.fingerprint and not self._force:
            if indexed is None or indexed.version < before.version:
                entry = before
            elif indexed.version == before.version and not indexed.deleted:
                self.report.unchanged += 1
                return None
        self._count(entry, before, indexed, content)
        self._ids[file.source_uri] = document_id
        self._entries[document_id] = entry
        self._note_version(document_id, entry.version)
        return replace(change, version=entry.version)

    def _count(self, entry: Publication, before: Publication | None, indexed: Root | None, content: bytes) -> None:
        """Count why a file is published."""
        if indexed is None or indexed.version < (0 if before is None else before.version):
            is_new, is_same = before is None, before is not None and before.fingerprint == entry.fingerprint
        else:
            is_new, is_same = indexed.deleted, indexed.content_hash == content_hash(content)
            is_same = is_same and (before is None or before.fingerprint == entry.fingerprint)
        if is_new:
            self.report.new += 1
        elif is_same:
            self.report.again += 1
        else:
            self.report.changed += 1

    def delete(self, document_id: DocumentId) -> DocumentChange:
        """Return the deletion of a document. Raises Rejected if no later version is possible."""
        version = self._next_version(document_id)
        self._note_version(document_id, version)
        self._forget(document_id)
        return DocumentChange(
            tenant=self._fields.tenant,
            document_id=document_id,
            operation=Operation.DELETE,
            version=version,
            occurred_at=self._now(),
            priority=self._fields.priority,
        )

    def _forget(self, document_id: DocumentId) -> None:
        """Forget a deleted document: where files come and go, a source that runs for long would keep them all."""
        for known in (self._entry(document_id), self._indexed.pop(document_id, None)):
            # By now the file may have another document.
            if known and known.source_uri and self._ids.get(known.source_uri) == document_id:
                del self._ids[known.source_uri]

    def _note_version(self, document_id: DocumentId, version: int) -> None:
        self._versions.pop(document_id, None)
        # By then the index has the deletion.
        while self._versions and self._versions[first := next(iter(self._versions))] < self._now() - REMEMBERED_MS:
            del self._versions[first]
        self._versions[document_id] = version

    def _media_type(self, file: FileDocument, content: bytes) -> str | None:
        stated = self._fields.media_type or file.media_type
        if stated is not None or self._fields.title is None:
            return stated
        # Without a media type, a worker recognises the format by the name, which is no file name here.
        with suppress(UnreadableContent):
            found = recognise(file.name, None, content)
            return f"text/x-{found.language}" if found.language else found.media_type
        return None

    async def record(self, changes: Sequence[DocumentChange]) -> None:
        """Write the ledger entries of changes. Call it before they are published.

        After a crash in between, an entry stands for a version that the index does not have: it is published again.
        """
        entries: dict[str, Publication | None] = {}
        for change in changes:
            if change.operation is Operation.DELETE:
                entries[change.document_id] = None
            elif change.document_id in self._entries:
                entries[change.document_id] = self._entries.pop(change.document_id)
        await self._ledger.write(entries)

    def _entry(self, document_id: DocumentId) -> Publication | None:
        return self._entries.get(document_id) or self._ledger[document_id]

    def _next_version(self, document_id: DocumentId) -> int:
        before, indexed = self._entry(document_id), self._indexed.get(document_id)
        known = [each.version for each in (before, indexed) if each is not None]
        version = max(self._now(), 1 + max([*known, self._versions.get(document_id, 0)]))
        if version > LARGEST_INTEGER:
            raise Rejected(
                f"{document_id} has had the largest version, {LARGEST_INTEGER}, which none can follow: give its file"
                " another id with --name or --root"
            )
        return version


def _fingerprint(change: DocumentChange) -> str:
    """Return a hash of content and metadata: 128 bits as 32 hexadecimal digits."""
    parts = [
        content_hash(change.content or b""),
        change.name,
        change.media_type,
        change.language,
        change.source_uri,
        sorted(set(change.principals)),
        sorted(change.attributes.items()),
    ]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
