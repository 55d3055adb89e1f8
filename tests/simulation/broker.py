"""A broker in memory: partitioned logs with transactions, compaction and retention. Requests to it are instantaneous;
`network.py` gives them their time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from aiokafka.partitioner import murmur2

from freki.streams.messages import Headers

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class Record:
    """A record of a partition; `transaction` is None outside of one, `marker` ends one."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    transaction: int | None = None
    marker: bool = False
    order: int = 0
    """Place in the order of all that was appended anywhere."""
    appended_s: float = 0.0
    compacted: bool = False


@dataclass(slots=True)
class Partition:
    """A log; `history` also holds what compaction and retention removed."""

    records: list[Record] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each transaction that has not ended."""
    aborted: set[int] = field(default_factory=set)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    """Offset by producer and sequence number, of producers that number their records."""

    @property
    def stable(self) -> int:
        """The offset below which every transaction has ended."""
        return min(self.open.values(), default=self.end)

    def read(self, offset: int, most: int, *, committed: bool) -> tuple[list[Record], int]:
        """Give records from an offset on, and the offset to go on from.

        committed: leave out what was aborted, and wait at what is open. Nobody gets a marker.
        """
        limit = self.stable if committed else self.end
        found: list[Record] = []
        following = max(offset, self.start)
        for record in self._from(following):
            if record.offset >= limit or len(found) == most:
                break
            following = record.offset + 1
            if not record.marker and not (committed and record.transaction in self.aborted):
                found.append(record)
        else:
            following = max(following, limit)
        return found, following

    def _from(self, offset: int) -> Iterable[Record]:
        low, high = 0, len(self.records)
        while low < high:
            middle = (low + high) // 2
            if self.records[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return self.records[low:]

    @property
    def committed(self) -> list[Record]:
        """All records that were ever committed, also those that are gone by now."""
        return [
            record
            for record in self.history
            if not record.marker and record.transaction not in self.aborted and record.transaction not in self.open
        ]


class Broker:
    """Topics by name, all with equally many partitions."""

    def __init__(self, clock_s: Callable[[], float], *, partitions: int, epoch_ms: int) -> None:
        self._clock_s = clock_s
        self._epoch_ms = epoch_ms
        self.partitions = partitions
        self.topics: dict[str, list[Partition]] = {}
        self._listeners: dict[Place, list[Callable[[], None]]] = {}
        self._order = 0
        self.note: Callable[..., None] | None = None
        """Is told of each record that is appended."""
        self._transactions = 0
        self._touched: dict[int, set[Place]] = {}

    @property
    def now_ms(self) -> int:
        """Give the broker's time."""
        return self._epoch_ms + int(self._clock_s() * 1000)

    def create(self, *topics: str) -> None:
        """Make topics."""
        for topic in topics:
            self.topics.setdefault(topic, [Partition() for _ in range(self.partitions)])

    def partition(self, place: Place) -> Partition:
        """Give a log."""
        return self.topics[place[0]][place[1]]

    def place(self, topic: str, key: bytes | None) -> Place:
        """Choose the partition of a key as Kafka's clients do; records without one go to the first."""
        return topic, 0 if key is None else _hashed(key) % self.partitions

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        *,
        timestamp_ms: int | None = None,
        transaction: int | None = None,
        sequence: tuple[int, int] | None = None,
    ) -> int:
        """Append a record and give its offset; one whose sequence is known already is not appended again.

        timestamp_ms: the producer's; None: the broker's own clock counts.
        """
        log = self.partition(place)
        if sequence is not None and sequence in log.sequences:
            return log.sequences[sequence]
        if transaction is not None:
            if transaction not in self._touched:
                raise ValueError("the transaction has ended")
            log.open.setdefault(transaction, log.end)
            self._touched[transaction].add(place)
        record = self._record(place, key, value, timestamp_ms)
        record.headers, record.transaction = headers, transaction
        if sequence is not None:
            log.sequences[sequence] = record.offset
        if self.note is not None:
            self.note("append", *place, record.offset, key, "null" if value is None else f"{len(value)} bytes")
        self._wake(place)
        return record.offset

    def _record(self, place: Place, key: bytes | None, value: bytes | None, timestamp_ms: int | None) -> Record:
        log = self.partition(place)
        self._order += 1
        at_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        record = Record(*place, log.end, at_ms, key, value, order=self._order, appended_s=self._clock_s())
        log.end += 1
        log.records.append(record)
        log.history.append(record)
        return record

    def begin(self) -> int:
        """Open a transaction."""
        self._transactions += 1
        self._touched[self._transactions] = set()
        return self._transactions

    def finish(self, transaction: int, *, commit: bool) -> None:
        """End a transaction; a second end changes nothing."""
        for place in sorted(self._touched.pop(transaction, ())):
            log = self.partition(place)
            del log.open[transaction]
            if not commit:
                log.aborted.add(transaction)
            marker = self._record(place, None, None, None)
            marker.marker, marker.transaction = True, transaction
            self._wake(place)

    @property
    def order(self) -> int:
        """How much was appended so far."""
        return self._order

    def listen(self, places: Iterable[Place], listener: Callable[[], None]) -> None:
        """Call back whenever there is more in one of these places."""
        for place in places:
            self._listeners.setdefault(place, []).append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call back no more."""
        for listeners in self._listeners.values():
            if listener in listeners:
                listeners.remove(listener)

    def _wake(self, place: Place) -> None:
        for listener in self._listeners.get(place, ()):
            listener()

    def compact(self, topic: str, *, dirty: int, tombstones_before_ms: int = 0) -> int:
        """Keep the newest record of each key below the last `dirty` offsets; return how many went.

        What was aborted goes, what is not yet stable stays. Tombstones go where they are older than the given time.
        """
        removed = 0
        for log in self.topics[topic]:
            head = min(max(log.start, log.end - dirty), log.stable)
            clean = [each for each in log.records if each.offset < head]
            aborted = log.aborted
            newest = {each.key: each.offset for each in clean if not each.marker and each.transaction not in aborted}
            kept = []
            for each in clean:
                is_old_tombstone = each.value is None and each.timestamp_ms < tombstones_before_ms
                if each.marker or (newest.get(each.key) == each.offset and not is_old_tombstone):
                    kept.append(each)
                else:
                    each.compacted = True
            removed += len(clean) - len(kept)
            log.records = kept + log.records[len(clean) :]
        return removed

    def retain(self, places: Mapping[Place, int]) -> None:
        """Move the start of logs to the given offsets."""
        for place, start in places.items():
            log = self.partition(place)
            log.start = max(log.start, min(start, log.stable))
            log.records = [record for record in log.records if record.offset >= log.start]

    def everything(self, topic: str) -> list[Record]:
        """Give all records that were ever committed to a topic, in the order in which they were appended."""
        records = [record for log in self.topics[topic] for record in log.committed]
        return sorted(records, key=lambda record: record.order)


@lru_cache(maxsize=10_000)
def _hashed(key: bytes) -> int:
    return int(murmur2(key)) & 0x7FFFFFFF
