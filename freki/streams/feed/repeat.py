"""Repetition of stored changes, with a request to reindex their versions.

The documents topic is compacted: the last record of a key stays, and every new generation of the index starts from it.
So no repeated change may stay behind a change that a producer sent meanwhile. A document that changed since the topic
was read is left alone: its new version is made by the settings in force. If a producer's record came in between all
the same, it is sent once more, with the time of its first recording, so that it is the last one again.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from freki.schemas import DocumentChange, Operation, Timestamp
from freki.schemas.avro import DamagedError, UndecodableError
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import (
    LAST_EDITION,
    RECORDED_AT_HEADER,
    REINDEX_HEADER,
    Outgoing,
    Stored,
    edition_in,
    recorded_at,
    version_in,
)

WINDOW = 64
"""Maximum changes that are sent before receipts are awaited: what producers send does not wait behind more."""
WINDOW_BYTES = 8_000_000
"""Maximum size of the values of a window."""

NOT_STORED = "its stored change is not on the topic any more: publish the document again"
CHANGED = "a later change of it is on the topic"
UNDECODABLE = (
    "its last record cannot be decoded; FREKI_REGISTRY__URL must name the schema registry that its producer uses, with"
    " all its schemas; or publish the document again"
)
SPENT = (
    f"its edition is the highest that there is: its producer sent the header {REINDEX_HEADER}, which only"
    " `freki reindex` sets; publish the document with a higher version"
)


class TopicReader(Protocol):
    """Reader of a topic, open."""

    ends: Mapping[int, int]
    """End offset of each partition when the reader was opened."""

    def until_end(self) -> AsyncIterator[Stored]:
        """Yield records up to these offsets, within a partition in order."""


OpenTopic = Callable[[Mapping[int, int]], AbstractAsyncContextManager[TopicReader]]
"""Opens the documents topic at offsets by partition; at the earliest in partitions without one."""
Decode = Callable[[bytes], DocumentChange]
Advance = Callable[[], None]
Track = Callable[[int], Advance]
"""Begins a progress display of so many records; the result is called for each of them."""
Place = tuple[int, int]
"""Partition and offset."""


class ChangeRepeater:
    """Finds the stored changes of versions, and sends them again with a request; may be used once."""

    def __init__(
        self,
        open_topic: OpenTopic,
        decode: Decode,
        outbox: Outbox,
        topic: str,
        *,
        requested_at: Timestamp,
        above: Mapping[bytes, int],
    ) -> None:
        """Create one; above: editions in the index by key, which earlier requests may have from a clock ahead."""
        self._open_topic = open_topic
        self._decode = decode
        self._outbox = outbox
        self._topic = topic
        self._requested_at = requested_at
        self._above = above
        self._wanted: Mapping[bytes, int] = {}
        self._places: Mapping[bytes, Place] = {}
        self._first: dict[bytes, Timestamp] = {}
        """When the found changes were recorded first."""
        self._ends: Mapping[int, int] = {}
        """Up to where the topic was read."""
        self._sent: set[bytes] = set()
        self._foreign: dict[bytes, Stored] = {}
        """Latest record by a producer since the topic was read; a request for the found change is none."""
        self._last: dict[bytes, Stored] = {}
        """Last record since the topic was read."""

    async def find(self, wanted: Mapping[bytes, int], *, track: Track) -> dict[bytes, str]:
        """Find the changes of the wanted versions, by key; return the reasons of those that cannot be repeated."""
        self._wanted, places = wanted, dict[bytes, Place]()
        reasons: dict[bytes, str] = {}
        async with self._open_topic({}) as reader:
            advance = track(sum(reader.ends.values()))
            async for stored in reader.until_end():
                advance()
                if stored.key is None or stored.key not in wanted:
                    continue
                match self._kind(stored, wanted[stored.key]):
                    case "wanted":
                        places[stored.key] = stored.partition, stored.offset
                        self._first[stored.key] = _recorded(stored)
                        if reasons.get(stored.key) == UNDECODABLE:
                            del reasons[stored.key]
                    case "later":
                        reasons[stored.key] = CHANGED
                    case "undecodable":
                        reasons.setdefault(stored.key, UNDECODABLE)
            self._ends = dict(reader.ends)
        reasons |= dict.fromkeys(wanted.keys() - places.keys() - reasons.keys(), NOT_STORED)
        spent = dict.fromkeys((key for key in wanted if self._edition(key) > LAST_EDITION), SPENT)
        reasons = spent | reasons
        self._places = {key: place for key, place in places.items() if key not in reasons}
        return reasons

    async def repeat(self, expect: Callable[[DocumentChange], None]) -> AsyncGenerator[Sequence[DocumentChange], None]:
        """Yield windows of found changes once the broker has them; the next is sent when the iteration goes on.

        expect: called with each change before it is sent. Call `settle` afterwards, however the iteration ends.
        """
        async for window in self._windows():
            await self._put_in_order()
            fresh = [(stored, change) for stored, change in window if stored.key not in self._foreign]
            for _, change in fresh:
                expect(change)
            await self._outbox.send(*(self._request(stored) for stored, _ in fresh))
            self._sent.update(stored.key or b"" for stored, _ in fresh)
            # At once: until then the loss of this process would leave an older change last.
            await self.settle()
            yield [change for _, change in fresh]

    async def settle(self) -> None:
        """Wait until the last record of each document is its producer's, where that sent one meanwhile."""
        while self._sent and not await self._put_in_order():
            pass

    def _edition(self, key: bytes) -> int:
        # Of each document by its own: the edition of one, which any producer can set, says nothing about the others.
        return max(int(self._requested_at), self._above.get(key, 0) + 1)

    def _kind(self, stored: Stored, version: int) -> str:
        if stored.value is None:
            # A null value without a version deletes what was recorded before it.
            return "later" if version_in(stored.headers) >= version else ""
        try:
            change = self._decode(stored.value)
        except DamagedError:
            return ""
        except UndecodableError:
            return "undecodable"
        if change.operation is Operation.DELETE:
            return "later" if change.version >= version else ""
        if change.version == version:
            return "wanted"
        return "later" if change.version > version else ""

    async def _windows(self) -> AsyncIterator[list[tuple[Stored, DocumentChange]]]:
        places = {place: key for key, place in self._places.items()}
        starts = dict(self._ends)
        for partition, offset in places:
            starts[partition] = min(starts[partition], offset)
        window: list[tuple[Stored, DocumentChange]] = []
        size = 0
        if not places:
            return
        async with self._open_topic(starts) as reader:
            async for stored in reader.until_end():
                if places.pop((stored.partition, stored.offset), None) is None or stored.value is None:
                    continue
                window.append((stored, self._decode(stored.value)))
                size += len(stored.value)
                if len(window) == WINDOW or size >= WINDOW_BYTES or not places:
                    yield window
                    window, size = [], 0
                if not places:
                    return
        if window:
            yield window

    def _request(self, stored: Stored) -> Outgoing:
        return Outgoing(
            topic=self._topic,
            key=stored.key,
            value=stored.value,
            headers=(
                (REINDEX_HEADER, str(self._edition(stored.key or b"")).encode()),
                (RECORDED_AT_HEADER, str(_recorded(stored)).encode()),
            ),
        )

    async def _put_in_order(self) -> bool:
        """Read on, and send producers' records again that are not the last ones of their keys; True: there are none."""
        async with self._open_topic(self._ends) as reader:
            async for stored in reader.until_end():
                if stored.key is None or stored.key not in self._places:
                    continue
                if stored.value is None and 0 < version_in(stored.headers) < self._wanted[stored.key]:
                    # It removes older versions from another partition.
                    continue
                self._last[stored.key] = stored
                before = self._foreign.get(stored.key)
                is_request = edition_in(stored.headers) and _recorded(stored) == self._first[stored.key]
                if not is_request and (before is None or _recorded(before) <= _recorded(stored)):
                    self._foreign[stored.key] = stored
            self._ends = dict(reader.ends)
        behind = [
            stored
            for key, stored in self._foreign.items()
            if key in self._sent and not _is_same(stored, self._last[key])
        ]
        if behind:
            await self._outbox.send(*(self._again(stored) for stored in behind))
        return not behind

    def _again(self, stored: Stored) -> Outgoing:
        kept = tuple((name, value) for name, value in stored.headers if name != RECORDED_AT_HEADER)
        first = (RECORDED_AT_HEADER, str(_recorded(stored)).encode())
        return Outgoing(topic=self._topic, key=stored.key, value=stored.value, headers=(*kept, first))


def _recorded(stored: Stored) -> Timestamp:
    return recorded_at(stored.headers, Timestamp(stored.timestamp_ms))


def _is_same(one: Stored, other: Stored) -> bool:
    """Return whether two records are the same one, perhaps sent again."""
    return (one.value, _recorded(one)) == (other.value, _recorded(other)) and edition_in(one.headers) == edition_in(
        other.headers
    )
