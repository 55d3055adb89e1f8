"""Document queries, from the record on the topic to the report."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.identify import record_key, root_id
from freki.operators.validate_query import MAX_ITEMS
from freki.schemas import (
    EVERYONE,
    DocumentChange,
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    ReportStatus,
    TenantId,
    Timestamp,
    may_read,
)
from freki.schemas.avro import Codec
from freki.schemas.avro.contracts import packaged_contracts
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.identity import Refusal, RefusalReason
from freki.schemas.index import (
    Attempt,
    IndexedChunk,
    ManifestPage,
    Root,
    deleted,
)
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.intake import required
from freki.streams.deliver.outbox import Sink
from freki.streams.deliver.replies import Replies, with_message
from freki.streams.documents.handler import DEADLINE_MS, Admit, DocumentHandler, ReportRules, reject_with_report
from freki.streams.documents.view import view_of
from freki.streams.messages import Received, Stored
from tests.avro_values import values_of, write
from tests.contract.index_records import GENERATION, any_vectors, chunk, page, root
from tests.memory_index import MemoryIndex
from tests.unit.deliveries import Bench, Event
from tests.unit.questions import Broken
from tests.unit.receipts import a_receipt

NOW = Timestamp(1_000_000)
TENANT = TenantId("acme")
REPORTS = "document-reports"
CONTRACT = packaged_contracts().current("DocumentQuery").schema


def document(name: str, **changes: Any) -> Root:
    return root(root_id(TENANT, DocumentId(name)), document_id=DocumentId(name), **changes)


def asking(kind: DocumentQueryKind = DocumentQueryKind.LIST, **fields: Any) -> DocumentQuery:
    return DocumentQuery(
        **{
            "query_id": QueryId("q"),
            "tenant": TENANT,
            "kind": kind,
            "asked_at": NOW,
            "principals": ("staff",),
            **fields,
        }
    )


def about(name: str, kind: DocumentQueryKind, **fields: Any) -> DocumentQuery:
    return asking(kind, document_id=DocumentId(name), **fields)


class Records:
    """The topics of one document."""

    def __init__(self, *, key: bytes = b"", error: Exception | None = None) -> None:
        self.key = key
        self.error = error
        self.stuck = False
        self.letter = DeadLetterQueue(Bench().outbox, "dead-letters", clock=lambda: 0.03).letter(
            Event(key=key), Misconfigured("no model"), stage="embed", attempts=1
        )

    async def changes(self, key: bytes) -> AsyncIterator[tuple[Stored, DocumentChange | None]]:
        if self.stuck:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        for version in (1, 2) if key == self.key else ():
            change = DocumentChange(
                tenant=TENANT,
                document_id=DocumentId("a"),
                operation=Operation.UPSERT,
                version=version,
                occurred_at=Timestamp(0),
                content="Text",
            )
            yield Event(timestamp_ms=10 * version), change

    async def receipts(self, key: bytes) -> AsyncIterator[tuple[Stored, IndexOutcome | None]]:
        if key == self.key:
            yield Event(timestamp_ms=15), a_receipt(OutcomeStatus.INDEXED)

    async def letters(self, key: bytes) -> AsyncIterator[tuple[Stored, DeadLetter]]:
        if key == self.key:
            yield Event(partition=1, offset=5), self.letter


class Desk:
    """Answers questions about what an index holds."""

    def __init__(
        self,
        *roots: Root,
        max_bytes: int = 900_000,
        records: Records | None = None,
        admit: Admit | None = None,
        index: Any = None,
    ) -> None:
        self.index = index or MemoryIndex(GENERATION)
        self.bench = Bench()
        self.records = records or Records()
        self.sink = Sink(self.bench.outbox, REPORTS, Codec(DocumentReport).encode)
        self.handler = DocumentHandler(
            self.index,
            self.records,
            rules=ReportRules(
                generation="g1", current=frozenset({"f1"}), max_bytes=max_bytes, reply_topics=("team.reports",)
            ),
            replies=Replies(self.sink, noted=with_message),
            encode=self.sink.encode,
            now=lambda: NOW,
            admit=admit,
        )
        self._roots = roots

    async def __aenter__(self) -> Self:
        await self.index.commit(self._roots, [])
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def deliver(self, value: bytes, key: bytes = b"q", *more: bytes) -> Sequence[tuple[str, DocumentReport]]:
        """Deliver a record as a stage does, with more in one batch; return topic and report of what it sends."""
        delivery = self.bench.delivery(
            decode=required(Codec(DocumentQuery).decode),
            handle=self.handler.handle,
            on_dead_letter=reject_with_report(self.sink),
        )
        events = [Event(offset=offset, key=key, value=each) for offset, each in enumerate((value, *more))]
        await delivery.deliver(events, group="g")
        decode = Codec(DocumentReport).decode
        return [
            (sent.topic, decode(sent.value or b"")) for sent in self.bench.producer.sent if sent.topic != "dead-letters"
        ]

    async def ask(self, query: DocumentQuery) -> DocumentReport:
        self.bench.producer.sent.clear()
        ((topic, report),) = await self.deliver(Codec(DocumentQuery).encode(query), query.query_id.encode())
        assert topic == (query.reply_to or REPORTS) or report.status is ReportStatus.REJECTED
        return report


async def test_a_report_is_sent_once_though_another_query_of_its_batch_meets_a_defect() -> None:
    async with Desk(document("a"), records=Records(error=TypeError("a defect"))) as desk:
        good, bad = asking(query_id=QueryId("good")), about("a", DocumentQueryKind.HISTORY, query_id=QueryId("bad"))

        sent = await desk.deliver(Codec(DocumentQuery).encode(good), b"q", Codec(DocumentQuery).encode(bad))

    assert [report.status for _, report in sent] == [ReportStatus.FOUND, ReportStatus.REJECTED]


READERS = st.lists(st.sampled_from(["staff", "board", EVERYONE]), max_size=2, unique=True)


@given(
    documents=st.dictionaries(st.text("ab/ä", min_size=1, max_size=4), READERS, max_size=8),
    asker=st.lists(st.sampled_from(["staff", "board"]), max_size=2),
    limit=st.integers(1, 5),
    bulk=st.integers(0, 900),
)
async def test_pages_list_what_the_asker_may_read_once_in_order_and_none_is_too_large(
    documents: dict[str, list[str]], asker: list[str], limit: int, bulk: int
) -> None:
    roots = (
        document(name, principals=tuple(readers), attributes={"text": "x" * bulk})
        for name, readers in documents.items()
    )
    max_bytes = 1_500
    async with Desk(*roots, max_bytes=max_bytes) as desk:
        shown: list[str] = []
        cursor: str | None = None
        while True:
            report = await desk.ask(asking(principals=tuple(asker), limit=limit, cursor=cursor))
            assert report.status is ReportStatus.FOUND
            assert len(desk.sink.encode(report)) <= max_bytes
            assert len(report.documents) <= limit
            shown += [each.document_id for each in report.documents]
            if (cursor := report.next) is None:
                break

    assert shown == sorted(name for name, readers in documents.items() if may_read(asker, readers))
    assert report.total == len(shown)


async def test_conditions_are_those_of_the_command_line() -> None:
    gone = deleted(document("gone"), tombstoned_at=Timestamp(0))
    roots = (
        document("a/1", language="en", source_uri="file:///wiki/1"),
        document("a/2", attributes={"team": "people"}, principals=("staff",)),
        document("b/1", fingerprint="older"),
        root("other", tenant=TenantId("other")),
        gone,
    )

    async def listed(**conditions: Any) -> list[str]:
        async with Desk(*roots) as desk:
            return [each.document_id for each in (await desk.ask(asking(**conditions))).documents]

    assert await listed() == ["a/1", "a/2", "b/1"]
    assert await listed(prefix="a/") == ["a/1", "a/2"]
    assert await listed(source="file:///wiki") == ["a/1"]
    assert await listed(language="en") == ["a/1"]
    assert await listed(readers=("staff",)) == ["a/2"]
    assert await listed(attributes={"team": "people"}) == ["a/2"]
    assert await listed(made_otherwise=True) == ["b/1"]
    assert await listed(deleted=True) == ["gone"]


@given(limit=st.integers(1, 12), max_bytes=st.integers(1_500, 6_000))
async def test_pages_show_every_chunk_once_in_order(limit: int, max_bytes: int) -> None:
    shown_root = document("a", chunks=7)
    pages = [page(shown_root.root_id, 1, part, 4 if part == 0 else 3) for part in range(2)]
    entries = [entry for each in pages for entry in each.entries]
    rows = [
        chunk(entry.chunk_id, row_id=entry.row_id, root_id=shown_root.root_id, text=f"{place} " + "x" * 90 * place)
        for place, entry in enumerate(entries)
    ]
    lost = entries[2].row_id
    async with Desk(document("a", chunks=7, pages=tuple(each.page_id for each in pages)), max_bytes=max_bytes) as desk:
        await desk.index.write_pages(pages)
        await desk.index.insert(rows, any_vectors(len(rows)))
        await desk.index.delete([lost])
        shown: list[str] = []
        cursor: str | None = None
        while True:
            report = await desk.ask(about("a", DocumentQueryKind.SHOW, limit=limit, cursor=cursor))
            assert len(desk.sink.encode(report)) <= max_bytes
            shown += [each.text.partition(" ")[0] for each in report.chunks]
            if (cursor := report.next) is None:
                break

    assert shown == ["0", "1", "3", "4", "5", "6"]
    assert report.counts is not None
    assert (dict(report.counts.kinds), report.counts.missing, report.total) == ({"PROSE": 6}, 1, 7)
    assert [each.document_id for each in report.documents] == ["a"]


@pytest.mark.parametrize("moment", ["pages", "stored", "fetch"])
@pytest.mark.parametrize("change", ["edit", "delete", "close"])
async def test_a_document_that_is_replaced_while_it_is_read_is_shown_as_it_is_then(moment: str, change: str) -> None:
    key = root_id(TENANT, DocumentId("a"))
    old, new = (page(key, version, 0, entries=2, attempt=Attempt(f"a{version}")) for version in (1, 2))
    gone = change == "delete"
    committed = document(
        "a",
        version=2,
        attempt=Attempt("a2"),
        chunks=0 if gone else 2,
        pages=() if gone else (new.page_id,),
        deleted=gone,
        principals=("board",) if change == "close" else ("staff",),
    )

    def rows(of: ManifestPage, text: str) -> list[IndexedChunk]:
        return [chunk(each.chunk_id, row_id=each.row_id, root_id=of.root_id, text=text) for each in of.entries]

    index = MemoryIndex(GENERATION)

    async def replace() -> None:
        await index.write_pages([new])
        await index.insert(rows(new, "neu"), any_vectors(2))
        await index.commit([committed], [])
        await index.delete([each.row_id for each in old.entries])

    live = document("a", chunks=2, attempt=Attempt("a1"), pages=(old.page_id,), principals=("staff",))
    async with Desk(live, index=Broken(index, before={moment: replace})) as desk:
        await index.write_pages([old])
        await index.insert(rows(old, "alt"), any_vectors(2))
        report = await desk.ask(about("a", DocumentQueryKind.SHOW))

    if change == "close":
        assert (report.status, report.documents, report.chunks) == (ReportStatus.NOT_FOUND, (), ())
    else:
        assert [each.version for each in report.documents] == [2]
        assert [each.text for each in report.chunks] == ([] if gone else ["neu", "neu"])
        assert report.counts is not None
        assert report.counts.missing == 0


async def test_a_document_that_is_replaced_each_time_it_is_read_is_given_up() -> None:
    versions = count(2)

    class Restless(Broken):
        async def roots(self, root_ids: Any) -> Any:
            version = next(versions)
            await index.commit([document("a", version=version, attempt=Attempt(f"a{version}"))], [])
            return await index.roots(root_ids)

    index = MemoryIndex(GENERATION)
    with pytest.raises(Unavailable, match="'a' was replaced 10 times while it was read"):
        await view_of(Restless(index), document("a", attempt=Attempt("a1")))


async def test_a_history_has_changes_and_receipts_in_the_order_of_their_times() -> None:
    async with Desk(document("a"), records=Records(key=record_key(TENANT, DocumentId("a")))) as desk:
        first = await desk.ask(about("a", DocumentQueryKind.HISTORY, limit=2))
        second = await desk.ask(about("a", DocumentQueryKind.HISTORY, limit=2, cursor=first.next))

    events = [*first.events, *second.events]
    assert [event.what for event in events] == ["change", "indexed", "change", "dead letter"]
    assert [event.at for event in events] == [10, 15, 20, 30]
    assert events[-1].detail == "1/5: no model"
    assert (first.total, first.next, second.next) == (4, "2", None)


@pytest.mark.parametrize("kind", [DocumentQueryKind.SHOW, DocumentQueryKind.HISTORY])
async def test_a_document_that_the_asker_may_not_read_is_as_if_there_were_none(kind: DocumentQueryKind) -> None:
    for roots in ((), (document("a", principals=("board",)),), (document("a", principals=()),)):
        async with Desk(*roots, records=Records(key=record_key(TENANT, DocumentId("a")))) as desk:
            report = await desk.ask(about("a", kind))
        assert report.status is ReportStatus.NOT_FOUND
        assert (report.documents, report.events, report.message) == ((), (), "")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (asking(tenant=TenantId("")), "tenant"),
        (asking(limit=0), "limit"),
        (asking(limit=MAX_ITEMS + 1), "limit"),
        (asking(deadline_ms=0), "deadline_ms"),
        (asking(document_id=DocumentId("a")), "document_id"),
        (asking(reply_to="elsewhere"), "FREKI_RETRIEVAL__REPLY_TOPICS"),
        (asking(principals=("",)), "principals"),
        (asking(readers=("x" * 129,)), "readers"),
        (asking(prefix="a\n"), "prefix"),
        (asking(attributes={"": "x"}), "attributes"),
        (asking(DocumentQueryKind.SHOW), "document_id"),
        (about("a", DocumentQueryKind.SHOW, cursor="b"), "cursor"),
        (about("a", DocumentQueryKind.HISTORY, prefix="a"), "prefix"),
    ],
)
async def test_a_question_that_breaks_a_rule_is_told_which(query: DocumentQuery, field: str) -> None:
    async with Desk(document("a")) as desk:
        report = await desk.ask(query)

    assert report.status is ReportStatus.REJECTED
    assert field in report.message
    assert not desk.bench.dead


async def test_a_question_that_cannot_be_read_becomes_a_dead_letter_and_is_told_so() -> None:
    async with Desk() as desk:
        ((_, report),) = await desk.deliver(b"no record", b"my-question")

    assert (report.query_id, report.status) == ("my-question", ReportStatus.REJECTED)
    assert report.message
    assert len(desk.bench.dead) == 1


@given(
    value=st.one_of(
        st.binary(max_size=40), values_of(CONTRACT).map(lambda fields: write(CONTRACT, fields)), st.just(b"\xc3\x01")
    ),
    key=st.one_of(st.binary(max_size=12), st.just(b"q")),
)
async def test_every_record_is_answered_once_under_its_key_whatever_it_holds(value: bytes, key: bytes) -> None:
    async with Desk(document("a")) as desk:
        (sent,) = await desk.deliver(value, key)
        (record,) = desk.bench.producer.to(REPORTS)

    assert record.key == key
    assert sent[1].status in ReportStatus


async def test_a_question_without_time_is_expired_at_once_and_one_that_takes_too_long_in_time() -> None:
    records = Records()
    records.stuck = True
    async with Desk(document("a"), records=records) as desk:
        late = await desk.ask(asking(asked_at=Timestamp(NOW - DEADLINE_MS)))
        long = await desk.ask(about("a", DocumentQueryKind.HISTORY, deadline_ms=1))

    assert late.status is long.status is ReportStatus.EXPIRED
    assert "deadline_ms" in long.message


@pytest.mark.parametrize("asked_at", [-(2**63), 2**63 - 1])
async def test_a_report_has_times_that_every_reader_can_show_whatever_its_question_says(asked_at: int) -> None:
    async with Desk() as desk:
        report = await desk.ask(asking(asked_at=Timestamp(asked_at)))

    assert datetime.fromtimestamp(report.asked_at / 1000, UTC).year in {1970, 9999}


async def test_a_worker_without_the_right_to_read_histories_says_so_and_goes_on() -> None:
    async with Desk(document("a"), records=Records(error=Misconfigured("give the right"))) as desk:
        report = await desk.ask(about("a", DocumentQueryKind.HISTORY))

    assert report.status is ReportStatus.REJECTED
    assert "give the right" in report.message


@pytest.mark.parametrize("kind", DocumentQueryKind)
async def test_where_a_key_service_refuses_the_worker_the_question_is_answered_and_queries_go_on(
    kind: DocumentQueryKind,
) -> None:
    class Refused:
        """A store whose names cannot be decrypted."""

        def __getattr__(self, _: str) -> Any:
            raise Misconfigured("https://vault.internal answered 403: permission denied")

    desk = Desk(document("a"), index=Refused())
    report = await desk.ask(asking() if kind is DocumentQueryKind.LIST else about("a", kind))

    assert report.status is ReportStatus.EXPIRED
    assert "setting" in report.message
    assert "vault.internal" not in report.message


async def test_a_report_goes_where_its_question_says_and_to_all_if_that_is_closed() -> None:
    async with Desk(document("a")) as desk:
        assert (await desk.ask(asking(reply_to="team.reports"))).status is ReportStatus.FOUND
        desk.bench.producer.sent.clear()
        desk.bench.producer.failures.append(Unavailable("no such topic"))
        ((topic, report),) = await desk.deliver(Codec(DocumentQuery).encode(asking(reply_to="team.reports")))

    assert topic == REPORTS
    assert "team.reports does not take this answer" in report.message
    assert len(report.documents) == 1


async def test_an_item_that_fits_no_record_is_named_with_the_setting() -> None:
    async with Desk(document("a", attributes={"text": "x" * 3_000}), max_bytes=1_000) as desk:
        report = await desk.ask(asking())

    assert report.status is ReportStatus.REJECTED
    assert "FREKI_KAFKA__MAX_MESSAGE_BYTES" in report.message


async def test_a_question_without_a_token_that_allows_it_is_told_so_and_reads_nothing() -> None:
    async def refuse(received: Received[DocumentQuery]) -> Refusal:
        return Refusal(reason=RefusalReason.NO_TOKEN, query_id=received.value.query_id, identity=None)

    async with Desk(document("secret"), admit=refuse) as desk:
        report = await desk.ask(asking())

    assert (report.status, report.message) == (ReportStatus.REJECTED, "the query is refused: it has no token")
    assert (report.total, report.documents) == (0, ())


async def test_who_is_in_many_groups_may_ask_about_documents() -> None:
    groups = ("staff", *(f"g{number}" for number in range(300)))

    async def admit(received: Received[DocumentQuery]) -> Received[DocumentQuery]:
        return replace(received, value=replace(received.value, principals=groups))

    async with Desk(document("of-staff", principals=("staff",)), admit=admit) as desk:
        report = await desk.ask(asking())
    async with Desk(document("of-staff", principals=("staff",))) as desk:
        believed = await desk.ask(asking(principals=groups))

    assert [shown.document_id for shown in report.documents] == ["of-staff"]
    assert (believed.status, believed.message) == (
        ReportStatus.REJECTED,
        "principals: 301 are more than 256; give fewer",
    )
