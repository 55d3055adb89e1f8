"""Limits of tenants through the real chunk and retrieve stages, with several workers that share a topic of usage."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.settings import LimitSettings
from freki.operators.errors import OverLimit
from freki.operators.identify import root_id
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    ResultStatus,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Unavailable
from freki.schemas.limits import Admission, LimitKind, QueryCount, TenantLimits
from freki.streams.limits.changes import ChangeLimits, Proposal
from freki.streams.limits.queries import QueryLimits
from freki.streams.limits.tenant import TenantLedger
from freki.streams.limits.usage import MINUTE_MS, UsageLedger, written
from freki.streams.observe.meters import Meters
from freki.streams.topics import DAY_MS
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.limits import limits_of_tenant
from tests.unit.deliveries import Event
from tests.unit.pipelines import Pipeline
from tests.unit.receipts import a_receipt
from tests.unit.test_fence import root

T, OTHER = TenantId("t"), TenantId("other")
NOW = Timestamp(1_000)
"""As the records of `Pipeline` say."""


@dataclass
class Topic:
    """The topic `usage`: each worker reads what all wrote."""

    values: list[bytes] = field(default_factory=list)
    is_down: bool = False

    async def send(self, entry: Admission | QueryCount) -> None:
        if self.is_down:
            raise Unavailable("down")
        self.values.append(written(entry))

    def read_by(self, *ledgers: UsageLedger) -> None:
        for ledger in ledgers:
            for offset, value in enumerate(self.values):
                event = Event(topic="usage", offset=offset, key=b"t", value=value)
                if ledger.is_new(event):
                    ledger.take(event)


def ledger(writer: str, limits: TenantLimits, *, others: TenantLimits | None = None) -> UsageLedger:
    def limits_of(tenant: TenantId) -> TenantLimits:
        return limits if tenant == T else others or TenantLimits()

    return UsageLedger(limits_of, writer=writer, now=lambda: NOW)


class Answers(Meters):
    """Keeps the status of what counts as an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: list[ResultStatus] = []

    def count_result(self, result: ContextResult) -> None:
        self.statuses.append(result.status)


class Counted(Meters):
    """Counts refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[LimitKind] = []

    def count_over_limit(self, kind: LimitKind) -> None:
        self.kinds.append(kind)


class Worker:
    """A pipeline whose chunk stage has limits."""

    def __init__(self, writer: str, limits: TenantLimits, topic: Topic, *, index: Pipeline | None = None) -> None:
        self.pipeline = Pipeline(index=None if index is None else index.index)
        self.ledger = ledger(writer, limits)
        self.refused = Counted()
        self.limits = ChangeLimits(self.ledger, self.pipeline.index, send=topic.send, meters=self.refused)
        self.pipeline.chunker._limits = self.limits
        self._settled = 0

    async def publish(self, *changes: DocumentChange) -> list[IndexOutcome]:
        """Publish one after the other; the receipts count before the next one comes."""
        found = []
        for change in changes:
            await self.pipeline.publish(change)
            found += (receipts := self.receipts())
            for receipt in receipts:
                self.ledger.settle(receipt, at=NOW)
        return found

    def receipts(self) -> list[IndexOutcome]:
        sent = self.pipeline.producer.to("outcomes")
        new, self._settled = sent[self._settled :], len(sent)
        return [Codec(IndexOutcome).decode(each.value or b"") for each in new]


def upsert(name: str, text: str = "Der Rat entscheidet.", *, version: int = 1, tenant: TenantId = T) -> DocumentChange:
    return DocumentChange(
        tenant=tenant,
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=NOW,
        principals=("everyone",),
        media_type="text/plain",
        content=text,
    )


def delete(name: str, *, version: int) -> DocumentChange:
    return replace(upsert(name, version=version), operation=Operation.DELETE, content=None)


def statuses(receipts: Sequence[IndexOutcome]) -> list[OutcomeStatus]:
    return [each.status for each in receipts]


INDEXED, REJECTED, DELETED = OutcomeStatus.INDEXED, OutcomeStatus.REJECTED, OutcomeStatus.DELETED


async def test_one_document_too_many_is_rejected_with_what_to_do_and_others_go_on() -> None:
    worker = Worker("a", TenantLimits(documents=2), Topic())

    receipts = await worker.publish(
        upsert("1"), upsert("2"), upsert("3"), upsert("1", "Anders.", version=2), upsert("3", tenant=OTHER)
    )

    assert statuses(receipts) == [INDEXED, INDEXED, REJECTED, INDEXED, INDEXED]
    assert receipts[2].reason == (
        "documents: limit: tenant t has used 2 of 2 documents: delete some, or have FREKI_LIMITS__DOCUMENTS raised"
    )


async def test_a_tenant_at_its_limit_has_no_change_of_another_parsed_twice() -> None:
    worker = Worker("a", TenantLimits(characters=100), Topic())
    await worker.publish(upsert("full", "a" * 100))
    before = len(worker.pipeline.producer.to("chunks"))
    batch = [upsert(str(number), f"Satz {number}.", tenant=tenant) for number in range(8) for tenant in (OTHER, T)]

    await worker.pipeline.publish(*batch)

    assert len(worker.pipeline.producer.to("chunks")) - before == 8
    assert statuses(worker.receipts()).count(REJECTED) == 8
    assert worker.refused.kinds == [LimitKind.CHARACTERS] * 8


async def test_a_deletion_makes_room_for_another_document() -> None:
    worker = Worker("a", TenantLimits(documents=1), Topic())

    receipts = await worker.publish(upsert("1"), upsert("2"), delete("1", version=2), upsert("2", version=3))

    assert statuses(receipts) == [INDEXED, REJECTED, DELETED, INDEXED]


async def test_characters_count_by_what_a_change_adds() -> None:
    worker = Worker("a", TenantLimits(characters=100), Topic())

    receipts = await worker.publish(
        upsert("1", "a" * 60),
        upsert("2", "b" * 60),
        upsert("1", "c" * 30, version=2),
        upsert("2", "b" * 60),
        upsert("1", "d" * 41, version=3),
    )

    assert statuses(receipts) == [INDEXED, REJECTED, INDEXED, INDEXED, REJECTED]


async def test_what_was_published_on_a_day_counts_for_that_day_whatever_became_of_it() -> None:
    worker = Worker("a", TenantLimits(published_bytes_per_day=50), Topic())
    receipts = await worker.publish(upsert("1", "ä" * 20), upsert("2", "b" * 11), upsert("3", "c" * 10))
    again = await worker.publish(upsert("1", "ä" * 20, version=2), delete("1", version=3))

    assert statuses(receipts) == [INDEXED, REJECTED, INDEXED]
    assert statuses(again) == [REJECTED, DELETED]


async def test_what_is_delivered_again_is_let_through_as_before() -> None:
    worker = Worker("a", TenantLimits(documents=1, published_bytes_per_day=12), Topic())
    change = upsert("1", "a" * 12)
    await worker.pipeline.publish(change)
    for _ in range(2):
        await worker.pipeline.publish(change)
    receipts = worker.receipts()
    for receipt in receipts:
        worker.ledger.settle(receipt, at=NOW)
    after_its_receipt = await worker.publish(change)

    assert statuses(receipts) == [INDEXED, OutcomeStatus.UNCHANGED, OutcomeStatus.UNCHANGED]
    assert statuses(after_its_receipt) == [OutcomeStatus.UNCHANGED]
    assert worker.ledger.of(T).use(at=NOW, now=NOW).published_bytes == 12


async def test_embedded_tokens_count_by_receipts_and_while_they_are_under_way_at_most() -> None:
    text = "eins zwei drei vier fünf sechs"
    worker = Worker("a", TenantLimits(embedded_tokens_per_day=10), Topic())
    first = await worker.publish(upsert("1", text))
    used = worker.ledger.of(T).use(at=NOW, now=NOW).tokens
    same = await worker.publish(upsert("1", text, version=2))
    more = await worker.publish(upsert("2", f"{text} {text} {text}"))
    worker.ledger.limits_of = lambda _: TenantLimits(embedded_tokens_per_day=first[0].tokens)
    at_limit = await worker.publish(upsert("1", text, version=3), upsert("3", "x"))

    assert first[0].tokens == used > 0
    assert same[0].status is OutcomeStatus.UNCHANGED
    assert statuses(at_limit) == [OutcomeStatus.UNCHANGED, REJECTED]
    assert more[0].status is REJECTED
    assert "tokens to embed" in more[0].reason


@pytest.mark.parametrize("hours", [-80, -5, 0, 5, 30, 80])
async def test_a_worker_whose_clock_is_wrong_does_not_switch_the_limit_of_published_bytes_off(hours: int) -> None:
    worker = Worker("a", TenantLimits(published_bytes_per_day=25), Topic())
    worker.ledger.now = lambda: Timestamp(NOW + hours * 60 * MINUTE_MS)

    receipts = await worker.publish(*[upsert(name, name * 10) for name in "abcd"])

    assert statuses(receipts) == [INDEXED, INDEXED, REJECTED, REJECTED]


async def test_what_waited_for_days_counts_for_the_day_on_which_it_was_published() -> None:
    worker = Worker("a", TenantLimits(published_bytes_per_day=25), Topic())
    after_outage = Timestamp(NOW + 3 * DAY_MS)
    worker.ledger.now = lambda: after_outage

    found = []
    for name in "abcd":
        await worker.pipeline.publish(upsert(name, name * 10))
        found += (receipts := worker.receipts())
        for receipt in receipts:
            worker.ledger.settle(receipt, at=after_outage)

    assert statuses(found) == [INDEXED, INDEXED, REJECTED, REJECTED]


@given(days=st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_days_on_which_nothing_is_published_any_more_are_forgotten(days: list[int]) -> None:
    of_tenant = TenantLedger(T)
    change = Admission(
        writer="a",
        tenant=T,
        document_id=DocumentId("d"),
        version=1,
        at=NOW,
        size=1,
        before=None,
        published_bytes=1,
        tokens=1,
    )
    for version, day in enumerate(days, start=1):
        of_tenant.admit(replace(change, version=version, at=Timestamp(day * DAY_MS)))
        of_tenant.forget(Timestamp(day * DAY_MS))
        used = of_tenant.use(at=Timestamp(day * DAY_MS), now=Timestamp(day * DAY_MS))
        assert used.published_bytes >= 1

    for later in (50, 51, 52):
        of_tenant.forget(Timestamp(later * DAY_MS))

    assert not any(
        of_tenant.use(at=Timestamp(day * DAY_MS), now=Timestamp(day * DAY_MS)).published_bytes for day in days
    )


async def test_at_midnight_the_tokens_of_the_new_day_are_there_for_what_is_published_on_it() -> None:
    spent = Timestamp(DAY_MS - 1)
    ledger_of = ledger("a", TenantLimits(embedded_tokens_per_day=10))
    limits = ChangeLimits(ledger_of, Worker("b", TenantLimits(), Topic()).pipeline.index, send=Topic().send)
    ledger_of.settle(a_receipt(INDEXED, tenant=T, tokens=10), at=spent)
    proposal = Proposal(tenant=T, document_id=DocumentId("d"), version=1, at=spent, size=5, tokens=5)

    ledger_of.now = lambda: spent
    with pytest.raises(OverLimit):
        await limits.check(proposal)
    ledger_of.now = lambda: Timestamp(DAY_MS)

    await limits.check(replace(proposal, at=Timestamp(DAY_MS)))


async def test_what_is_made_anew_on_request_is_never_refused() -> None:
    worker = Worker("a", TenantLimits(documents=0), Topic())

    await worker.pipeline.publish(upsert("1"), headers=(("freki-reindex", b"1700000000000"),))

    assert statuses(worker.receipts()) == [INDEXED]


async def test_documents_of_before_count_from_the_first_change_on() -> None:
    before = Pipeline()
    await before.publish(upsert("1"), upsert("2"), upsert("3", tenant=OTHER))
    worker = Worker("a", TenantLimits(documents=2), Topic(), index=before)

    assert statuses(await worker.publish(upsert("3"), upsert("2", "Neu.", version=2))) == [REJECTED, INDEXED]


async def test_two_workers_together_let_no_more_through_than_one_and_a_third_continues_for_both() -> None:
    topic, limits = Topic(), TenantLimits(documents=3)
    store = Pipeline()
    workers = [Worker(name, limits, topic, index=store) for name in "ab"]
    admitted = 0
    for number in range(6):
        worker = workers[number % 2]
        topic.read_by(*(each.ledger for each in workers))
        try:
            # No receipt comes: embed workers are behind.
            await worker.limits.admit(_proposal(f"{number}"))
            admitted += 1
        except OverLimit:
            pass
    third = Worker("c", limits, topic, index=store)
    topic.read_by(third.ledger)
    with pytest.raises(OverLimit):
        await third.limits.admit(_proposal("7"))
    # What the dead one let through already comes again to the third.
    await third.limits.admit(_proposal("0"))

    assert admitted == 3


def test_a_receipt_that_is_read_before_its_admission_settles_it_and_one_of_an_earlier_attempt_does_not() -> None:
    admission = Admission(
        writer="b",
        tenant=T,
        document_id=DocumentId("d"),
        version=1,
        at=NOW,
        size=10,
        before=None,
        published_bytes=1,
        tokens=1,
    )
    for settled_at, under_way in ((NOW + 5, False), (NOW - 5, True)):
        tenant = TenantLedger(T)
        tenant.settle(a_receipt(REJECTED, tenant=T), at=Timestamp(settled_at))
        tenant.admit(admission, reported_at=NOW)

        assert tenant.has(DocumentId("d"), 1) == under_way


async def test_what_no_other_worker_would_know_of_is_not_let_through() -> None:
    topic = Topic(is_down=True)
    worker = Worker("a", TenantLimits(documents=3), topic)

    with pytest.raises(Unavailable):
        await worker.limits.admit(_proposal("1"))
    assert worker.ledger.of(T).use(at=NOW, now=NOW).documents == 0


async def test_a_tenant_that_is_counted_holds_up_no_other() -> None:
    worker = Worker("a", TenantLimits(documents=3), Topic())
    worker.ledger.limits_of = lambda _: TenantLimits(documents=3)
    going, free = asyncio.Event(), asyncio.Event()
    count = worker.limits._count

    async def slow(tenant: TenantId, ledger: TenantLedger) -> None:
        if tenant == T:
            going.set()
            await free.wait()
        await count(tenant, ledger)

    worker.limits._count = slow  # type: ignore[method-assign]
    counting = asyncio.create_task(worker.limits.admit(_proposal("1")))
    await going.wait()
    await worker.limits.admit(_proposal("1", tenant=OTHER))

    assert not counting.done()
    free.set()
    await counting


def _proposal(name: str, *, tenant: TenantId = T) -> Proposal:
    return Proposal(tenant=tenant, document_id=DocumentId(name), version=1, at=NOW, size=10)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "delete", "receipt", "again", "count"]), st.integers(0, 2), st.integers(0, 40)
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
async def test_when_all_receipts_are_there_the_ledger_has_what_the_store_has(
    steps: Sequence[tuple[str, int, int]],
) -> None:
    store: dict[DocumentId, int] = {}
    waiting: list[Admission] = []
    known: list[Admission] = []
    tenant, version = TenantLedger(T), 0
    tenant.begin_count()
    tenant.end_count()
    for action, number, size in steps:
        document_id = DocumentId(f"d{number}")
        if action in ("publish", "delete"):
            version += 1
            before, _ = tenant.size_under_way(document_id) or (store.get(document_id), None)
            after = size if action == "publish" else None
            admission = Admission(
                writer="a",
                tenant=T,
                document_id=document_id,
                version=version,
                at=NOW,
                size=after,
                before=before,
                published_bytes=1,
                tokens=1,
            )
            waiting.append(admission)
            known.append(admission)
            tenant.admit(admission)
        elif action == "again" and waiting:
            tenant.admit(waiting[size % len(waiting)])
        elif action == "receipt":
            _commit(store, waiting, tenant)
        elif action == "count":
            await _count(store, waiting, tenant, commits=number)
        assert tenant.use(at=NOW, now=NOW).documents >= len(store)
    while waiting:
        _commit(store, waiting, tenant)
    used = tenant.use(at=NOW, now=NOW)

    assert (used.documents, used.characters) == (len(store), sum(store.values()))
    assert used.published_bytes == len(known)
    assert used.tokens == 2 * len(known)


def _commit(store: dict[DocumentId, int], waiting: list[Admission], tenant: TenantLedger) -> None:
    """Write the oldest change to the store, and send its receipt."""
    if not waiting:
        return
    change = waiting.pop(0)
    if change.size is None:
        store.pop(change.document_id, None)
    else:
        store[change.document_id] = change.size
    status = DELETED if change.size is None else INDEXED
    receipt = a_receipt(status, tenant=T, document_id=change.document_id, version=change.version, tokens=2)
    tenant.settle(receipt, at=NOW)


async def _count(store: dict[DocumentId, int], waiting: list[Admission], tenant: TenantLedger, *, commits: int) -> None:
    """Count the store in the order of ids, while changes are committed between two reads."""
    tenant.begin_count()
    read = ""
    while ahead := sorted((key, name) for name in store if (key := root_id(T, name)) > read):
        read, document_id = ahead[0]
        tenant.count(root(document_id=document_id, root_id=read, characters=store[document_id], version=0))
        if commits:
            commits -= 1
            _commit(store, waiting, tenant)
    tenant.end_count()


def limited(writer: str, most: int, topic: Topic) -> tuple[UsageLedger, QueryLimits]:
    of_worker = ledger(writer, TenantLimits(queries_per_minute=most))
    return of_worker, QueryLimits(of_worker, send=topic.send)


async def test_the_first_queries_of_each_minute_are_answered_and_others_are_told_when_to_ask_again() -> None:
    of_worker, limits = limited("a", 2, Topic())
    minute = NOW - NOW % MINUTE_MS
    of_worker.now = lambda: Timestamp(minute + 50_500)

    told = [limits.refusal(T, Timestamp(minute + 50_000)) for _ in range(3)]

    assert told == [None, None, "the tenant has asked its 2 queries of this minute: ask again in 10 s"]
    assert limits.refusal(T, Timestamp(minute + MINUTE_MS)) is None
    assert all(limits.refusal(OTHER, NOW) is None for _ in range(9))


@pytest.mark.parametrize("hours", [-4, 4])
async def test_a_process_whose_clock_is_hours_off_lets_nobody_wait_for_hours(hours: int) -> None:
    of_worker, limits = limited("a", 0, Topic())
    of_worker.now = lambda: Timestamp(NOW + hours * 60 * MINUTE_MS)

    told = limits.refusal(T, NOW) or ""

    assert 1 <= int(told.split()[-2]) <= 60


@given(st.integers(0, 20), st.integers(1, 4), st.randoms(use_true_random=False))
@settings(deadline=None)
async def test_workers_that_tell_each_other_answer_as_many_queries_as_one(
    most: int, workers: int, chance: random.Random
) -> None:
    topic = Topic()
    every = [limited(str(number), most, topic) for number in range(workers)]
    answered = 0
    for _ in range(2 * most + 3):
        _, limits = chance.choice(every)
        answered += limits.refusal(T, NOW) is None
        limits.tell()
        await asyncio.gather(*limits._sending)
        topic.read_by(*(each for each, _ in every))

    assert answered == most


@pytest.mark.parametrize("minutes", [-10_000, -2, 2, 10_000])
async def test_a_process_whose_clock_is_wrong_does_not_switch_the_limit_off(minutes: int) -> None:
    of_worker, limits = limited("a", 2, Topic())
    minute = 20_000
    of_worker.now = lambda: Timestamp(minute * MINUTE_MS)

    told = []
    for _ in range(4):
        of_worker.add_queries(T, minute + minutes, 1)
        told.append(limits.refusal(T, Timestamp(minute * MINUTE_MS)))

    assert [each is None for each in told] == [True, True, False, False]


def test_minutes_that_are_long_over_are_forgotten() -> None:
    of_worker, _ = limited("a", 2, Topic())
    of_worker.now = lambda: Timestamp(1_000 * MINUTE_MS)

    for minute in range(1_000):
        of_worker.add_queries(T, minute, 1)

    assert of_worker.queries_in(T, 998) == of_worker.queries_in(T, 999) == 1
    assert not any(of_worker.queries_in(T, minute) for minute in range(900))


async def test_who_counts_queries_alone_keeps_nothing_of_changes() -> None:
    topic = Topic()
    limits = TenantLimits(documents=5, queries_per_minute=5)
    of_queries = UsageLedger(lambda _: limits, writer="r", now=lambda: NOW, counts_changes=False)

    await Worker("c", limits, topic).publish(upsert("a"))
    topic.read_by(of_queries)

    assert topic.values
    assert not of_queries.tenants


async def test_what_could_not_be_told_is_told_with_the_next_query() -> None:
    topic = Topic(is_down=True)
    (_, limits), (other, _) = limited("a", 5, topic), limited("b", 5, topic)
    for _ in range(2):
        limits.refusal(T, NOW)
        limits.tell()
        await asyncio.gather(*limits._sending)
        topic.read_by(other)
        topic.is_down = False

    assert other.queries_in(T, NOW // MINUTE_MS) == 2


async def test_a_query_beyond_the_limit_is_not_searched_for_and_counts_for_nothing() -> None:
    pipeline, counted = Pipeline(), Answers()
    _, pipeline.retrieving._limits = limited("a", 1, Topic())
    pipeline.retrieving._meters = counted
    await pipeline.publish(upsert("1"))

    results = [
        await pipeline.ask(
            ContextQuery(query_id=QueryId("q"), tenant=T, text="Wer entscheidet?", asked_at=wall_clock())
        )
        for _ in range(2)
    ]

    assert [each.status for each in results] == [ResultStatus.COMPLETE, ResultStatus.EXPIRED]
    (notice,) = results[1].notices
    assert notice.stage == "limit"
    assert "ask again in" in notice.message
    # `freki.over_limit` has the other: as an answer it would be one of a service under too much load.
    assert counted.statuses == [ResultStatus.COMPLETE]


def test_records_that_are_read_again_or_make_no_sense_change_nothing() -> None:
    of_worker = ledger("a", TenantLimits(queries_per_minute=5))
    count = written(QueryCount(writer="b", tenant=T, minute=NOW // MINUTE_MS, queries=3))
    for offset, value in [
        (0, count),
        (1, b"no JSON"),
        (2, b'{"queries": "x"}'),
        (0, count),
        (3, b"[]"),
        (4, b"[" * 100_000),
    ]:
        event = Event(topic="usage", offset=offset, key=b"t", value=value)
        if of_worker.is_new(event):
            of_worker.take(event)

    assert of_worker.queries_in(T, NOW // MINUTE_MS) == 3
    # A broker that lost its topics starts over.
    of_worker.opened("usage", {0: 1})
    assert of_worker.is_new(Event(topic="usage", offset=0, key=b"t", value=count))


def test_limits_of_a_tenant_replace_those_for_all_one_by_one() -> None:
    given = LimitSettings.model_validate(
        {"documents": 10, "queries_per_minute": 60, "tenants": {"hr": {"documents": 1000, "queries_per_minute": None}}}
    )

    assert limits_of_tenant(given, TenantId("hr")) == TenantLimits(documents=1000)
    assert limits_of_tenant(given, TenantId("x")) == TenantLimits(documents=10, queries_per_minute=60)


@pytest.mark.usefixtures("folder")
def test_without_limits_the_command_names_the_settings() -> None:
    result = CliRunner().invoke(app, ["limits"], env={"COLUMNS": "200"})

    assert result.exit_code == 2
    assert "FREKI_LIMITS__DOCUMENTS" in result.output
