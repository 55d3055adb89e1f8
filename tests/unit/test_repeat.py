"""Stored changes that are sent again to reindex their versions, beside producers that go on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st

from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.streams.deliver.outbox import Outbox
from freki.streams.feed.repeat import CHANGED, NOT_STORED, SPENT, UNDECODABLE, ChangeRepeater
from freki.streams.messages import (
    LAST_EDITION,
    RECORDED_AT_HEADER,
    REINDEX_HEADER,
    VERSION_HEADER,
    Headers,
    Stored,
    edition_in,
    recorded_at,
)
from freki.streams.observe.tracing import UNTRACED
from tests.unit.deliveries import Event

CODEC = Codec(DocumentChange)
REQUEST = 1_732_385_959_000


def change(document: str, version: int, *, deleted: bool = False) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(document),
        operation=Operation.DELETE if deleted else Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(version),
        content=None if deleted else f"{document} {version}",
    )


def key(document: str) -> bytes:
    return f"t/{document}".encode()


@dataclass
class Topic:
    """One partition, and what a producer sends while somebody sends."""

    records: list[Event] = field(default_factory=list)
    meanwhile: Callable[["Topic"], None] = lambda _: None

    def put(self, document: str, version: int, *, deleted: bool = False) -> None:
        self._append(key(document), CODEC.encode(change(document, version, deleted=deleted)), ())

    def put_bytes(self, document: str, value: bytes) -> None:
        self._append(key(document), value, ())

    def bury(self, document: str, version: int) -> None:
        self._append(key(document), None, ((VERSION_HEADER, str(version).encode()),))

    def request(self, document: str, edition: int) -> None:
        """Send the last change again, as another `freki reindex` does."""
        last = self.last(document)
        first = str(recorded_at(last.headers, Timestamp(last.timestamp_ms))).encode()
        self._append(last.key, last.value, ((REINDEX_HEADER, str(edition).encode()), (RECORDED_AT_HEADER, first)))

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Awaitable[object]:
        assert (topic, partition) == ("documents", None)
        self.meanwhile(self)
        self._append(key, value, headers)
        return asyncio.sleep(0)

    def _append(self, name: bytes | None, value: bytes | None, headers: Headers) -> None:
        at = len(self.records)
        self.records.append(
            Event(
                topic="documents",
                partition=0,
                offset=at,
                timestamp_ms=1000 + at,
                key=name,
                value=value,
                headers=headers,
            )
        )

    @asynccontextmanager
    async def open(self, starts: Mapping[int, int]) -> AsyncIterator["Snapshot"]:
        yield Snapshot(self, starts.get(0, 0), {0: len(self.records)})

    def last(self, document: str) -> Event:
        """What compaction leaves of a document."""
        return next(each for each in reversed(self.records) if each.key == key(document))

    @property
    def requested(self) -> list[bytes | None]:
        return [each.key for each in self.records if edition_in(each.headers) == REQUEST]


@dataclass
class Snapshot:
    topic: Topic
    start: int
    ends: Mapping[int, int]

    async def until_end(self) -> AsyncIterator[Stored]:
        for each in self.topic.records[self.start : self.ends[0]]:
            yield each


async def repeat(
    topic: Topic, wanted: Mapping[bytes, int], *, above: Mapping[bytes, int] = MappingProxyType({})
) -> tuple[dict[bytes, str], list[tuple[str, int]]]:
    """Return the reasons, and documents and versions that were sent."""
    repeater = ChangeRepeater(
        topic.open,
        CODEC.decode,
        Outbox(topic, UNTRACED),
        "documents",
        requested_at=Timestamp(REQUEST),
        above=above or {},
    )
    reasons = await repeater.find(wanted, track=lambda _: lambda: None)
    expected: list[DocumentChange] = []
    async with aclosing(repeater.repeat(expected.append)) as windows:
        sent = [each async for window in windows for each in window]
    await repeater.settle()
    assert sent == expected
    return reasons, [(each.document_id, each.version) for each in sent]


async def test_a_version_is_sent_again_with_its_request_and_the_time_of_its_first_recording() -> None:
    topic = Topic()
    topic.put("a", 1)
    topic.put("a", 2)
    topic.put("b", 1)

    reasons, sent = await repeat(topic, {key("a"): 2})

    assert (reasons, sent) == ({}, [("a", 2)])
    again = topic.last("a")
    assert again.value == CODEC.encode(change("a", 2))
    assert dict(again.headers)[REINDEX_HEADER] == b"%d" % REQUEST
    assert recorded_at(again.headers, Timestamp(again.timestamp_ms)) == 1001


async def test_a_request_is_above_one_of_a_clock_that_was_ahead() -> None:
    topic = Topic()
    topic.put("a", 1)

    await repeat(topic, {key("a"): 1}, above={key("a"): 10 * REQUEST})

    assert edition_in(topic.last("a").headers) == 10 * REQUEST + 1


async def test_a_document_whose_producer_set_the_highest_edition_is_named_and_holds_up_no_other() -> None:
    topic = Topic()
    for document in ("spent", "last", "a"):
        topic.put(document, 1)

    reasons, sent = await repeat(
        topic,
        {key(document): 1 for document in ("spent", "last", "a")},
        above={key("spent"): LAST_EDITION, key("last"): LAST_EDITION - 1, key("a"): 1},
    )

    assert (reasons, sent) == ({key("spent"): SPENT}, [("last", 1), ("a", 1)])
    assert edition_in(topic.last("last").headers) == LAST_EDITION
    assert edition_in(topic.last("a").headers) == REQUEST


async def test_what_the_topic_does_not_have_or_has_newer_is_left_alone_and_said_why() -> None:
    topic = Topic()
    topic.put("newer", 1)
    topic.put("newer", 2)
    topic.put("deleted", 1)
    topic.put("deleted", 1, deleted=True)
    topic.put("buried", 1)
    topic.bury("buried", 3)
    topic.put("older", 1)

    reasons, sent = await repeat(
        topic, {key(name): 2 if name == "older" else 1 for name in ("newer", "deleted", "buried", "older", "unknown")}
    )

    assert sent == []
    assert reasons == {
        key("newer"): CHANGED,
        key("deleted"): CHANGED,
        key("buried"): CHANGED,
        key("older"): NOT_STORED,
        key("unknown"): NOT_STORED,
    }


async def test_a_version_is_not_put_behind_a_record_that_others_may_decode() -> None:
    topic = Topic()
    foreign = b"\x00" + (4_711).to_bytes(4, "big") + b"of a schema that only a registry knows"
    topic.put("before", 1)
    topic.put_bytes("before", foreign)
    topic.put_bytes("after", foreign)
    topic.put("after", 1)

    reasons, sent = await repeat(topic, {key("before"): 1, key("after"): 1})

    assert reasons == {key("before"): UNDECODABLE}
    assert sent == [("after", 1)]


async def test_a_change_that_comes_in_between_stays_the_last_of_its_document() -> None:
    def produce(topic: Topic) -> None:
        if len(topic.records) == 1:
            topic.put("a", 2)

    topic = Topic(meanwhile=produce)
    topic.put("a", 1)

    await repeat(topic, {key("a"): 1})

    assert topic.last("a").value == CODEC.encode(change("a", 2))
    assert recorded_at(topic.last("a").headers, Timestamp(topic.last("a").timestamp_ms)) == 1001


async def test_a_null_value_of_an_older_version_that_comes_in_between_is_no_later_change() -> None:
    """A rectification sends it to another partition, and sent again it would come to that of the version that stays."""
    topic = Topic(meanwhile=lambda topic: topic.bury("a", 1) if len(topic.records) == 2 else None)
    topic.put("a", 1)
    topic.put("a", 2)

    reasons, sent = await repeat(topic, {key("a"): 2})

    assert (reasons, sent) == ({}, [("a", 2)])
    assert [each.value for each in topic.records].count(None) == 1


async def test_a_change_that_comes_in_between_is_the_last_again_before_receipts_are_awaited() -> None:
    """Who waits for them may be killed."""
    topic = Topic(meanwhile=lambda topic: topic.put("a", 2) if len(topic.records) == 1 else None)
    topic.put("a", 1)

    repeater = ChangeRepeater(
        topic.open, CODEC.decode, Outbox(topic, UNTRACED), "documents", requested_at=Timestamp(REQUEST), above={}
    )
    await repeater.find({key("a"): 1}, track=lambda _: lambda: None)
    async with aclosing(repeater.repeat(lambda _: None)) as windows:
        await anext(windows)
        assert topic.last("a").value == CODEC.encode(change("a", 2))


async def test_a_request_by_somebody_else_is_no_later_change() -> None:
    def ask(topic: Topic) -> None:
        if len(topic.records) in {100, 101}:
            topic.request("0", REQUEST + 1)
            topic.request("99", REQUEST + 1)

    topic = Topic(meanwhile=ask)
    for number in range(100):
        topic.put(str(number), 1)

    reasons, sent = await repeat(topic, {key(str(number)): 1 for number in range(100)})

    assert (reasons, len(sent)) == ({}, 100)
    assert len(topic.records) == 202


@settings(max_examples=200, deadline=None)
@given(
    documents=st.integers(1, 150),
    produced=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 149), st.integers(0, 3)), max_size=12),
)
async def test_whatever_producers_send_meanwhile_the_topic_ends_with_their_last_record(
    documents: int, produced: list[tuple[int, int, int]]
) -> None:
    due = sorted(produced)
    newest: dict[str, bytes | None] = {}

    def produce(topic: Topic) -> None:
        while due and due[0][0] + documents <= len(topic.records):
            _, number, kind = due.pop(0)
            version, name = 2 + len(topic.records), str(number % documents)
            if kind == 3:
                topic.request(name, REQUEST + 1)
                continue
            if kind == 0:
                topic.bury(name, version)
            else:
                topic.put(name, version, deleted=kind == 1)
            newest[name] = topic.records[-1].value

    topic = Topic(meanwhile=produce)
    for number in range(documents):
        topic.put(str(number), 1)

    await repeat(topic, {key(str(number)): 1 for number in range(documents)})

    for number in range(documents):
        name = str(number)
        expected = newest.get(name, CODEC.encode(change(name, 1)))
        assert topic.last(name).value == expected
    assert len(topic.requested) == len(set(topic.requested))
