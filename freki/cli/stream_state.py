"""What the documents topic says of each document: for commands that compare it with an index."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rich.progress import Progress

from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, Expected, expect
from freki.schemas import DocumentChange, DocumentId, RootId, TenantId, Timestamp
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.names import document_of_key
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.ingest.chunk import content_hash
from freki.streams.messages import Stored, recorded_at, version_in
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock

SCATTERED = (
    "all producers need one partitioner (docs/topics.md), and a topic of changes must not get further partitions;"
    " publish the document again, and delete the old records"
)
Version = tuple[TenantId, DocumentId, int]
"""A version of a document."""


@dataclass(slots=True)
class Stream:
    """What the documents topic says."""

    expected: dict[RootId, Expected] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    """Of the first record read, by name of a document."""
    scattered: dict[str, set[int]] = field(default_factory=dict)
    """All partitions of each document with records in several, by name."""
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

    @property
    def lost_before(self) -> Timestamp | None:
        """Time before which changes may have been lost, as the topic was created anew or records were deleted.

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
        """A difference for each document with records in several partitions, the same in whatever order they are read.

        Sorted by name.
        """
        return [
            Difference(name, f"has records in partitions {' and '.join(map(str, sorted(found)))}: {SCATTERED}")
            for name, found in sorted(self.scattered.items())
        ]

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


async def read_stream(settings: Settings, progress: Progress, *, rejected: Collection[Version] = frozenset()) -> Stream:
    """Return what the topic says; rejected: versions that do not count, because no index has them."""
    stream = Stream()
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
    if (first := stream.partitions.setdefault(name, stored.partition)) != stored.partition:
        stream.scattered.setdefault(name, {first}).add(stored.partition)
    is_outdated = stream.order.is_outdated(stored)
    try:
        change = None if stored.value is None else codec.decode(stored.value)
    except UndecodableError:
        if not is_outdated:
            stream.undecodable.add(name)
        return
    if not is_outdated:
        stream.undecodable.discard(name)
    # A change under a foreign key was rejected under the document id in that key.
    key = root_id(tenant, document_id)
    if change is not None and (tenant, document_id, change.version) in rejected:
        stream.rejected[key] = max(change.version, stream.rejected.get(key, 0))
    else:
        _expect(stream, key, name, change, stored)


def _expect(stream: Stream, key: RootId, name: str, change: DocumentChange | None, stored: Stored) -> None:
    """Set what is expected of a document after a change or a tombstone, in whatever order its partitions are read."""
    before, buried = stream.expected.get(key), version_in(stored.headers)
    recorded = recorded_at(stored.headers, Timestamp(stored.timestamp_ms))
    if change is None and not buried:
        # It deletes what was recorded before it, also on another partition that is read later.
        stream.bare[key] = max(recorded, stream.bare.get(key, recorded))
        if before is not None and not before.deleted and recorded < stream.recorded[key]:
            return
    after = expect(before, name, change, "" if change is None else _hash(change), buried=buried)
    if after is None or after is before:
        return
    if not after.deleted and recorded < stream.bare.get(key, 0):
        after = after._replace(deleted=True, content_hash="")
    stream.expected[key], stream.recorded[key] = after, recorded


def _hash(change: DocumentChange) -> str:
    if change.claim is not None:
        return change.claim.sha256.lower()
    return "" if change.content is None else content_hash(change.content)
