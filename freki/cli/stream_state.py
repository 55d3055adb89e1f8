"""What the documents topic says of each document: for commands that compare it with an index."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rich.progress import Progress

from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, Expected, RepairAction, expect
from freki.schemas import DocumentChange, DocumentId, Operation, RootId, TenantId, Timestamp
from freki.schemas.avro import Codec, DamagedError, UndecodableError
from freki.schemas.names import document_of_key
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.ingest.chunk import content_hash
from freki.streams.messages import Stored, has_unreadable_version, recorded_at, version_in
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock

SCATTERED = "compaction keeps the last record of each partition; all producers need one partitioner (docs/topics.md)"
Version = tuple[TenantId, DocumentId, int]
"""A version of a document."""
Lasts = frozenset[tuple[int, bool]]
"""The partitions of a document, each with whether its last record there has content, or cannot be decoded."""


@dataclass(slots=True)
class Stream:
    """What the documents topic says."""

    expected: dict[RootId, Expected] = field(default_factory=dict)
    lasts: dict[str, Lasts] = field(default_factory=dict)
    """Of each document, by name."""
    _equal: dict[Lasts, Lasts] = field(default_factory=dict)
    """One object for all that are equal: millions of documents have the same few."""
    watched: Collection[str] = ()
    """Documents whose last records are kept, by name."""
    contents: dict[str, dict[int, tuple[Stored, int | None]]] = field(default_factory=dict)
    """Last record with content, and its version, in each partition of each watched document that has one there."""
    order: KeyOrder = field(default_factory=KeyOrder)
    recorded: dict[RootId, Timestamp] = field(default_factory=dict)
    """When what is expected was recorded first."""
    bare: dict[RootId, Timestamp] = field(default_factory=dict)
    """When the last tombstone without a version was recorded."""
    undecodable: set[str] = field(default_factory=set)
    """Names of documents whose last record cannot be decoded."""
    rejected: dict[RootId, int] = field(default_factory=dict)
    """Highest rejected version."""
    starts: Mapping[int, int] = field(default_factory=dict)
    """Offset at which each partition starts: above 0 where records were deleted; compaction leaves it."""
    firsts: dict[int, tuple[int, Timestamp]] = field(default_factory=dict)
    """Offset and time of the first record of each partition that has any."""

    def note_last(self, name: str, stored: Stored, *, has_content: bool, version: int | None = None) -> None:
        """Note the last record of a document in its partition, so far; version: None: it cannot be decoded here."""
        others = (each for each in self.lasts.get(name, ()) if each[0] != stored.partition)
        lasts = frozenset([*others, (stored.partition, has_content)])
        self.lasts[name] = self._equal.setdefault(lasts, lasts)
        if name in self.watched:
            contents = self.contents.setdefault(name, {})
            contents.pop(stored.partition, None)
            if has_content:
                contents[stored.partition] = stored, version

    @property
    def lost_before(self) -> Timestamp | None:
        """Time before which changes may have been lost, as the topic was recreated or records were deleted.

        None if compaction alone explains what is not there. An empty partition lost its records just now. The last lost
        record may have the time of the first that is left: the broker gives a batch one time.
        """
        now = wall_clock()
        cut = [self.firsts[number][1] if number in self.firsts else now for number, at in self.starts.items() if at]
        if cut:
            return Timestamp(max(cut) + 1)
        # The very first records are there.
        is_new = not any(offset for offset, _ in self.firsts.values())
        return max((at for _, at in self.firsts.values()), default=now) if is_new else None

    @property
    def scattered_differences(self) -> list[Difference]:
        """A difference for each document of which compaction keeps superseded content, as it has several partitions.

        The same in whatever order they are read; sorted by name.
        """
        deleted = {document.name for document in self.expected.values() if document.deleted}
        differences = []
        for name, lasts in sorted(self.lasts.items()):
            found = sorted(partition for partition, has_content in lasts if has_content)
            if len(lasts) > 1 and len(found) > (name not in deleted):
                where = f"{'partitions' if len(found) > 1 else 'partition'} {' and '.join(map(str, found))}"
                state = "was deleted, but has content" if name in deleted else "has content"
                differences.append(Difference(name, f"{state} in {where}: {SCATTERED}", RepairAction.SEND_NULLS))
        return differences

    @property
    def deleted(self) -> set[RootId]:
        """Documents whose last change is a deletion."""
        return {key for key, document in self.expected.items() if document.deleted}

    @property
    def rejected_now(self) -> int:
        """Number of documents whose last change was rejected."""
        return sum(
            key not in self.expected or self.expected[key].version < version for key, version in self.rejected.items()
        )


async def read_stream(
    settings: Settings,
    progress: Progress,
    *,
    rejected: Collection[Version] = frozenset(),
    watched: Collection[str] = frozenset(),
) -> Stream:
    """Return what the topic says; rejected: versions that do not count, because no index has them."""
    stream = Stream(watched=watched)
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).documents.name, start="earliest", registry=registry) as reader,
    ):
        stream.starts = reader.starts
        codec = Codec(DocumentChange, registry=registry)
        bar = progress.add_task("changes read", total=sum(reader.ends.values()))
        async for stored in reader.until_end():
            progress.advance(bar)
            stream.firsts.setdefault(stored.partition, (stored.offset, Timestamp(stored.timestamp_ms)))
            take(stream, stored, codec, rejected)
    return stream


def take(stream: Stream, stored: Stored, codec: Codec[DocumentChange], rejected: Collection[Version]) -> None:
    """Add a record of the documents topic to what the stream says."""
    named = document_of_key(stored.key)
    if named is None:
        # It names no document, and was rejected.
        return
    tenant, document_id = named
    name = f"{tenant}/{document_id}"
    is_outdated = stream.order.is_outdated(stored)
    try:
        change = None if stored.value is None else codec.decode(stored.value)
    except UndecodableError as error:
        # Of a damaged record nobody can have read a version.
        stream.note_last(name, stored, has_content=True, version=0 if isinstance(error, DamagedError) else None)
        if not is_outdated:
            stream.undecodable.add(name)
        return
    if not is_outdated:
        stream.undecodable.discard(name)
    if change is None and has_unreadable_version(stored.headers):
        # It was rejected, and what compaction left of the document is no proof of what it is.
        stream.note_last(name, stored, has_content=False)
        if not is_outdated:
            stream.undecodable.add(name)
        return
    has_content = change is not None and change.operation is not Operation.DELETE
    stream.note_last(name, stored, has_content=has_content, version=None if change is None else change.version)
    # A change under a foreign key was rejected under the document id in that key.
    key = root_id(tenant, document_id)
    if change is not None and (tenant, document_id, change.version) in rejected:
        stream.rejected[key] = max(change.version, stream.rejected.get(key, 0))
    else:
        _expect(stream, key, name, change, stored)


def _expect(stream: Stream, key: RootId, name: str, change: DocumentChange | None, stored: Stored) -> None:
    """Set what is expected of a document after a change or a tombstone, in whatever order its partitions are read."""
    before, tombstone_version = stream.expected.get(key), version_in(stored.headers)
    recorded = recorded_at(stored.headers, Timestamp(stored.timestamp_ms))
    if change is None and not tombstone_version:
        # It deletes what was recorded before it, also on another partition that is read later.
        stream.bare[key] = max(recorded, stream.bare.get(key, recorded))
        if before is not None and not before.deleted and recorded < stream.recorded[key]:
            return
    after = expect(before, name, change, "" if change is None else _hash(change), tombstone_version=tombstone_version)
    if after is None or after is before:
        return
    if not after.deleted and recorded < stream.bare.get(key, 0):
        after = after._replace(deleted=True, content_hash="")
    stream.expected[key], stream.recorded[key] = after, recorded


def _hash(change: DocumentChange) -> str:
    if change.claim is not None:
        return change.claim.sha256.lower()
    return "" if change.content is None else content_hash(change.content)
