"""Retention takes what a rule says, when it says so, and never what is held."""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from freki.infra.settings import ErasureSettings, RetentionSettings, Settings
from freki.infra.settings import RetentionRule as RuleSettings
from freki.infra.signing import make_key
from freki.operators.identify import root_id
from freki.operators.retain import RetentionAction, RetentionClock, RetentionRule, due_by
from freki.schemas import (
    Coverage,
    DocumentId,
    ErasureReport,
    ErasureStatus,
    Hold,
    PlannedErasure,
    SignedReport,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.findings import CoveredDocuments, UnreadRecords
from freki.schemas.index import Generation, Root
from freki.schemas.index.roots import deleted
from freki.schemas.names import YEAR_10000_MS
from freki.streams.privacy.erasure import fits_record
from freki.streams.privacy.retention import Retention, RetentionRun, open_reports
from freki.streams.wire.erasing.retention import signer_of
from tests.contract.index_records import root
from tests.erasing import TENANT, Kept, World, hold
from tests.memory_index import MemoryIndex

pytestmark = pytest.mark.usefixtures("folder")

CODEC = Codec(ErasureReport)
DAY = 86_400_000
NOW = Timestamp(1_000 * DAY)
NAMES = [DocumentId(name) for name in "abcd"]
RULES = st.lists(
    st.builds(
        RetentionRule,
        name=st.sampled_from(["one", "two", "three"]),
        after_ms=st.integers(1, 20).map(lambda days: days * DAY),
        since=st.sampled_from(RetentionClock),
        action=st.sampled_from(RetentionAction),
        tenant=st.sampled_from([None, TENANT, TenantId("sales")]),
        prefix=st.sampled_from(["", "a", "b"]),
        source=st.sampled_from(["", "https://a", "https://b"]),
        media_type=st.sampled_from(["", "text/plain"]),
        attributes=st.sampled_from([{}, {"team": "x"}, {"team": "y"}]),
    ),
    max_size=3,
    unique_by=lambda rule: rule.name,
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "occurred": st.none() | st.integers(0, 30),
        "published": st.integers(0, 30),
        "team": st.sampled_from(["x", "y"]),
        "media_type": st.sampled_from(["text/plain", "text/html"]),
        "source_uri": st.sampled_from([None, "https://a/1", "https://b/1"]),
    }
)
HOLDS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(NAMES), min_size=1).map(lambda names: Coverage(documents=tuple(names))),
        st.sampled_from(["x", "y"]).map(lambda team: Coverage(attributes={"team": team})),
        st.just(Coverage(whole_tenant=True)),
    ),
    max_size=2,
)


def made(name: DocumentId, document: dict[str, object]) -> Root:
    """Make the root of a document; times in days before now."""
    occurred, published = document["occurred"], document["published"]
    return replace(
        root(root_id(TENANT, name)),
        tenant=TENANT,
        document_id=name,
        occurred_at=Timestamp(0 if occurred is None else NOW - int(str(occurred)) * DAY),
        recorded_at=Timestamp(NOW - int(str(published)) * DAY),
        attributes={"team": str(document["team"])},
        media_type=str(document["media_type"]),
        source_uri=None if document["source_uri"] is None else str(document["source_uri"]),
    )


class Applied:
    """Retention in a small world."""

    def __init__(self, roots: Sequence[Root], rules: Sequence[RetentionRule], *, world: type[World] = World) -> None:
        self.roots = roots
        self.world = world({each.document_id: Kept(attributes=each.attributes) for each in roots})
        self.index = MemoryIndex(Generation(name="g1", embedder="e", dim=4, analyser="a"))
        self.recorded: list[tuple[str, DocumentId]] = []
        self.reports: dict[str, ErasureReport] = {}
        self.refused: dict[TenantId, InfraError] = {}
        """Tenants whose reports and entries of the audit log cannot be sent, and why."""
        self.rules = list(rules)
        self.room = 1_000_000
        """Maximum size of a report."""
        self.retention = Retention(
            self.index,
            self.world,
            self.rules,
            self.world.book,
            self.world,
            erasure=lambda _: self.world.erasure(),
            record=self._record,
            keep=self._keep,
            fits=lambda begun: fits_record(begun, size=len(CODEC.encode(begun)), most=self.room),
            begun=self._begun,
            last=self._last,
            now=lambda: NOW,
        )

    def place_at_look(self, number: int, placed: Hold) -> None:
        """Place a hold when holds are read for this time; the first is 1."""
        looked = 0

        def meanwhile(step: str) -> None:
            nonlocal looked
            looked += step == "holds"
            if looked == number and not self.world.holds:
                self.world.holds.append(placed)

        self.world.meanwhile = meanwhile

    async def _record(self, tenant: TenantId, rule: str, documents: Sequence[PlannedErasure]) -> None:
        if tenant in self.refused:
            raise self.refused[tenant]
        self.recorded += [(rule, each.document_id) for each in documents]

    async def _keep(self, report: ErasureReport) -> None:
        if report.tenant in self.refused:
            raise self.refused[report.tenant]
        if len(CODEC.encode(report)) > self.room:
            raise Rejected("the record is too large")
        self.reports[report.request_id] = report

    async def _begun(self, prefix: str) -> Sequence[ErasureReport]:
        return [report for report in open_reports(self.reports.values()) if report.request_id.startswith(prefix)]

    async def _last(self, _: TenantId, request_id: str) -> ErasureReport | None:
        return self.reports.get(request_id)

    @property
    def gone(self) -> set[DocumentId]:
        return {name for name, each in self.world.documents.items() if not each.indexed}


@given(rules=RULES, documents=st.tuples(*[DOCUMENTS] * len(NAMES)), holds=HOLDS)
async def test_what_is_due_and_free_goes_and_nothing_younger_or_held(
    rules: list[RetentionRule], documents: Sequence[dict[str, object]], holds: list[Coverage]
) -> None:
    roots = [made(name, document) for name, document in zip(NAMES, documents, strict=True)]
    applied = Applied(roots, rules)
    await applied.index.commit(roots, [])
    applied.world.holds = [hold(f"h{number}", covers) for number, covers in enumerate(holds)]

    done = await applied.retention.run()

    for each in roots:
        held = any(covers.has(each.document_id, each.attributes) for covers in holds)
        ages = {RetentionClock.OCCURRED: each.occurred_at, RetentionClock.PUBLISHED: each.recorded_at}
        due = [
            rule
            for rule in rules
            if rule.tenant in (None, TENANT)
            and each.document_id.startswith(rule.prefix)
            and (each.source_uri or "").startswith(rule.source)
            and rule.media_type in ("", each.media_type)
            and all(each.attributes.get(key) == value for key, value in rule.attributes.items())
            and ages[rule.since]
            and ages[rule.since] + rule.after_ms <= NOW
        ]
        assert (each.document_id in applied.gone) is (bool(due) and not held)
        erases = any(rule.action is RetentionAction.ERASE for rule in due)
        assert applied.world.documents[each.document_id].content is not (erases and not held)
    assert done.deleted + done.erased == len(applied.gone)
    assert {name for _, name in applied.recorded} == applied.gone
    assert all(report.status is ErasureStatus.ERASED for report in applied.reports.values())


@given(rules=RULES, document=DOCUMENTS, days=st.integers(0, 40))
def test_what_is_due_stays_due_and_says_since_when(
    rules: list[RetentionRule], document: dict[str, object], days: int
) -> None:
    one = made(NAMES[0], document)

    now, later = due_by(one, rules, by=NOW), due_by(one, rules, by=Timestamp(NOW + days * DAY))

    if now is not None:
        assert later is not None
        assert later.at == now.at <= NOW
        at_its_time = due_by(one, rules, by=now.at)
        assert at_its_time is not None
        assert due_by(one, rules, by=Timestamp(now.at - 1)) is None
    assert due_by(one, list(reversed(rules)), by=NOW) == now, "the order of rules does not matter"


@pytest.mark.parametrize("counter", [1, 42, 1_700_000_000])
def test_a_counter_or_seconds_are_no_time_of_a_source_so_that_nothing_is_due_by_it(counter: int) -> None:
    rule = RetentionRule(name="old", after_ms=DAY, since=RetentionClock.OCCURRED, action=RetentionAction.ERASE)
    one = made(NAMES[0], {"occurred": 0, "published": 0, "team": "x", "media_type": "", "source_uri": None})

    assert due_by(replace(one, occurred_at=Timestamp(counter)), [rule], by=NOW) is None


@given(
    recorded=st.integers(0, 400 * DAY) | st.integers(990 * DAY, 1_100 * DAY) | st.integers(0, YEAR_10000_MS - 1),
    days=st.integers(1, 60),
    action=st.sampled_from(RetentionAction),
)
def test_whatever_time_a_producer_gives_its_record_the_document_goes_at_most_twice_as_late(
    recorded: int, days: int, action: RetentionAction
) -> None:
    """With `CreateTime` a record's time is its producer's: 0, or one that is far ahead, kept it for ever."""
    rule = RetentionRule(name="old", after_ms=days * DAY, since=RetentionClock.PUBLISHED, action=action)
    plain = made(NAMES[0], {"occurred": 0, "published": 0, "team": "x", "media_type": "", "source_uri": None})
    one = replace(plain, recorded_at=Timestamp(recorded), searchable_at=NOW)

    once, twice = (due_by(one, [rule], by=Timestamp(NOW + times * rule.after_ms)) for times in (1, 2))

    assert once is not None or twice is not None
    if recorded >= NOW:
        assert due_by(one, [rule], by=Timestamp(NOW + rule.after_ms - 1)) is None


async def test_a_hold_that_is_placed_while_rules_are_applied_counts() -> None:
    roots = [
        made(name, {"occurred": 1, "published": 9, "team": "x", "media_type": "m", "source_uri": None})
        for name in NAMES
    ]
    rule = RetentionRule(name="r", after_ms=DAY, since=RetentionClock.PUBLISHED, action=RetentionAction.DELETE)
    applied = Applied(roots, [rule])
    await applied.index.commit(roots, [])
    applied.place_at_look(2, hold("h", Coverage(documents=(NAMES[1],))))
    done = await applied.retention.run()

    assert applied.gone == {*NAMES} - {NAMES[1]}
    assert (done.deleted, done.held) == (3, 1)


@pytest.mark.parametrize("action", RetentionAction)
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "while rules are applied"])
async def test_a_hold_on_attributes_of_a_version_that_is_still_on_the_topic_keeps_the_document(
    action: RetentionAction, *, is_late: bool
) -> None:
    roots = [
        made(name, {"occurred": 1, "published": 9, "team": "x", "media_type": "m", "source_uri": None})
        for name in NAMES
    ]
    rule = RetentionRule(name="r", after_ms=DAY, since=RetentionClock.PUBLISHED, action=action)
    applied = Applied(roots, [rule])
    await applied.index.commit(roots, [])
    applied.world.documents[NAMES[0]].attributes = {"subject": "4711"}
    applied.place_at_look(1 + is_late, hold("h", Coverage(attributes={"subject": "4711"})))
    done = await applied.retention.run()

    assert applied.gone == {*NAMES} - {NAMES[0]}
    assert (done.deleted + done.erased, done.held) == (3, 1)
    shown = {each.due.root.document_id: each.held async for each in applied.retention.check()}
    assert shown == {name: ("h",) if name == NAMES[0] else () for name in NAMES}


async def erased_by_rule(
    names: Sequence[DocumentId] = NAMES, *, world: type[World] = World
) -> tuple[Applied, list[Root]]:
    """Make retention with indexed documents that are due by a rule that erases; return it and their roots."""
    roots = [
        made(name, {"occurred": 1, "published": 9, "team": "x", "media_type": "m", "source_uri": None})
        for name in names
    ]
    rule = RetentionRule(name="r", after_ms=DAY, since=RetentionClock.PUBLISHED, action=RetentionAction.ERASE)
    applied = Applied(roots, [rule], world=world)
    await applied.index.commit(roots, [])
    return applied, roots


@pytest.mark.parametrize("step", ["find", "roots", "remove", "destroy_keys", "strip"])
async def test_an_erasure_that_broke_off_is_ended_by_the_next_run_although_its_documents_are_deleted(step: str) -> None:
    applied, roots = await erased_by_rule()

    def dies(name: str) -> None:
        if name == step:
            raise Unavailable("killed")

    applied.world.meanwhile = dies
    assert (await applied.retention.run()).failures == ("tenant hr: killed",)
    applied.world.meanwhile = lambda _: None
    gone = [deleted(each, tombstoned_at=Timestamp(0)) for each in roots if each.document_id in applied.gone]
    await applied.index.commit(gone, [])
    done = await applied.retention.run()

    assert applied.gone == {*NAMES}
    assert not any(each.content or each.key for each in applied.world.documents.values())
    assert done.erased == len(NAMES)
    (report,) = applied.reports.values()
    assert (report.status, report.requested_by) == (ErasureStatus.ERASED, "retention:r")
    assert [each.document_id for each in report.documents] == sorted(NAMES)


@pytest.mark.parametrize(
    "rule",
    [None, {"action": RetentionAction.DELETE, "prefix": "z"}, {"after_ms": 99 * DAY}, {"name": "other", "prefix": "z"}],
    ids=["gone", "deletes", "later", "renamed"],
)
async def test_an_erasure_that_broke_off_does_not_erase_what_its_rule_no_longer_means_unless_it_is_deleted(
    rule: dict[str, Any] | None,
) -> None:
    applied, roots = await erased_by_rule(NAMES[:2])

    def dies(step: str) -> None:
        if step == "delete":
            applied.world.documents[NAMES[0]].indexed = False
            raise Unavailable("killed")

    applied.world.meanwhile = dies
    await applied.retention.run()
    applied.world.meanwhile = lambda _: None
    await applied.index.commit([deleted(roots[0], tombstoned_at=Timestamp(0))], [])
    applied.rules[:] = [] if rule is None else [replace(applied.rules[0], **rule)]
    done = [await applied.retention.run() for _ in range(2)]

    assert applied.gone == {NAMES[0]}
    assert applied.world.documents[NAMES[1]].content
    assert done == [RetentionRun(erased=1, kept=1), RetentionRun()]
    (report,) = applied.reports.values()
    assert (report.status, [each.document_id for each in report.documents]) == (ErasureStatus.ERASED, [NAMES[0]])
    assert "1 of 2 documents stay" in report.message


async def test_an_erasure_that_broke_off_before_anything_was_deleted_ends_with_its_rule() -> None:
    applied, _ = await erased_by_rule(NAMES[:2])

    def dies(step: str) -> None:
        if step == "record":
            raise Unavailable("killed")

    applied.world.meanwhile = dies
    await applied.retention.run()
    applied.world.meanwhile = lambda _: None
    applied.rules.clear()
    done = [await applied.retention.run() for _ in range(2)]

    assert (applied.gone, done) == (set(), [RetentionRun(kept=2), RetentionRun()])
    assert [each.status for each in applied.reports.values()] == [ErasureStatus.REJECTED]


def begun(tenant: TenantId, planned: PlannedErasure, *, rule: str, **fields: Any) -> ErasureReport:
    """Make the report of an erasure by a rule that broke off."""
    return ErasureReport(
        request_id="retention:gone:1",
        tenant=tenant,
        status=ErasureStatus.BEGUN,
        message="",
        covers=Coverage(documents=(planned.document_id,)),
        requested_by=f"retention:{rule}",
        reason="",
        at=NOW,
        documents=(planned,),
        **fields,
    )


@pytest.mark.parametrize(
    ("error", "times"), [(Rejected("the record is too large"), 2), (Unavailable("down"), 1)], ids=["refused", "down"]
)
async def test_what_fails_in_one_tenant_stops_no_other_and_is_told(error: InfraError, times: int) -> None:
    applied, roots = await erased_by_rule(NAMES[:2])
    tenant = TenantId("a")
    await applied.index.commit([replace(roots[1], tenant=tenant, root_id=root_id(tenant, NAMES[1]))], [])
    # Its rule has gone, so that only its report is to be sent.
    broken = begun(tenant, PlannedErasure(document_id=NAMES[1], version=roots[1].version), rule="gone")
    applied.reports[broken.request_id] = broken
    applied.refused[tenant] = error

    done = await applied.retention.run()

    assert applied.gone == {*NAMES[:2]}
    assert (done.erased, done.failures) == (2, (f"tenant a: {error}",) * times), "what does not answer is asked once"


async def test_an_erasure_whose_report_would_be_too_large_for_a_record_is_done_in_parts() -> None:
    names = [DocumentId(f"{n:0>200}") for n in range(40)]
    whole, _ = await erased_by_rule(names)
    await whole.retention.run()
    (largest,) = (len(CODEC.encode(report)) for report in whole.reports.values())
    applied, _ = await erased_by_rule(names)
    applied.room = largest - 1

    done = await applied.retention.run()

    assert (applied.gone, done) == ({*names}, RetentionRun(erased=len(names)))
    assert len(applied.reports) > 1
    named = [each.document_id for report in applied.reports.values() for each in report.documents]
    assert sorted(named) == names
    assert all((report.status, len(report.reports)) == (ErasureStatus.ERASED, 1) for report in applied.reports.values())
    assert not any(each.content for each in applied.world.documents.values())


@pytest.mark.parametrize("earlier", [0, 2])
async def test_a_report_that_is_too_large_for_a_record_is_shortened_and_says_so_and_retention_goes_on(
    earlier: int,
) -> None:
    applied, roots = await erased_by_rule(NAMES[:2])
    signed = SignedReport(report=json.dumps({"documents": [], "removed": ["x" * 2_000]}), signature="s")
    planned = PlannedErasure(document_id=NAMES[0], version=roots[0].version, claims=("s3://" + "x" * 2_000,))
    broken = begun(TENANT, planned, rule="old", reports=(signed,) * earlier)
    applied.reports[broken.request_id] = broken
    await applied.index.commit([deleted(roots[0], tombstoned_at=Timestamp(0))], [])
    applied.room = 3_000 if earlier else 1_200

    done = await applied.retention.run()

    kept = applied.reports[broken.request_id]
    assert kept.status is ErasureStatus.ERASED
    assert "left out, since the report was too large for a record" in kept.message
    assert [failure for failure in done.failures if broken.request_id in failure] == list(done.failures)
    assert len(done.failures) == 1
    assert open_reports(applied.reports.values()) == []
    assert applied.gone == {*NAMES[:2]}


async def test_an_erasure_that_is_incomplete_is_not_counted_as_one_and_is_ended_by_the_next_run() -> None:
    applied, roots = await erased_by_rule()
    applied.world.unread = (UnreadRecords(topic="chunks", partition=0, group="embed", is_in_use=True),)

    first = await applied.retention.run()
    gone = [deleted(each, tombstoned_at=Timestamp(0)) for each in roots]
    await applied.index.commit(gone, [])
    # The worker that stood still has copied what it had read before.
    applied.world.documents[NAMES[0]].content = True
    applied.world.unread = ()
    second, third = await applied.retention.run(), await applied.retention.run()

    assert (first.erased, first.incomplete) == (0, len(NAMES))
    assert (second.erased, second.incomplete) == (len(NAMES), 0)
    assert third == RetentionRun()
    assert not any(each.content for each in applied.world.documents.values())
    (report,) = applied.reports.values()
    assert (report.status, len(report.reports)) == (ErasureStatus.ERASED, 2)


async def test_what_was_deleted_before_a_hold_came_is_erased_by_the_next_run_after_it_ended() -> None:
    applied, roots = await erased_by_rule()

    def meanwhile(step: str) -> None:
        if step == "remove" and not applied.world.holds:
            applied.world.holds.append(hold("h", Coverage(documents=(NAMES[1],))))

    applied.world.meanwhile = meanwhile
    first = await applied.retention.run()
    applied.world.meanwhile = lambda _: None
    await applied.index.commit([deleted(each, tombstoned_at=Timestamp(0)) for each in roots], [])
    held = await applied.retention.run()
    kept = applied.world.documents[NAMES[1]]
    before = (kept.content, kept.key)
    applied.world.holds.clear()
    second, third = await applied.retention.run(), await applied.retention.run()

    assert (first.erased, first.held) == (3, 1)
    assert (held, before) == (RetentionRun(held=1), (True, True))
    assert (second, third) == (RetentionRun(erased=1), RetentionRun())
    assert not any(each.content or each.key for each in applied.world.documents.values())
    (report,) = applied.reports.values()
    assert (report.status, len(report.reports)) == (ErasureStatus.ERASED, 2)


async def test_a_held_document_that_is_still_indexed_goes_by_its_rule_alone() -> None:
    applied, roots = await erased_by_rule()
    applied.place_at_look(3, hold("h", Coverage(documents=(NAMES[1],))))
    await applied.retention.run()
    applied.world.holds.clear()
    # Its rule was taken back meanwhile.
    await applied.index.commit([deleted(each, tombstoned_at=Timestamp(0)) for each in roots], [])
    again = await applied.retention.run()

    assert applied.gone == {*NAMES} - {NAMES[1]}
    assert again == RetentionRun()


async def test_a_document_that_got_a_later_version_while_it_was_erased_is_left_alone_by_the_next_run() -> None:
    applied, roots = await erased_by_rule(NAMES[:2])

    def meanwhile(step: str) -> None:
        if step == "delete":
            applied.world.documents[NAMES[0]].version += 1

    applied.world.meanwhile = meanwhile
    first = await applied.retention.run()
    await applied.index.commit([deleted(each, tombstoned_at=Timestamp(0)) for each in roots], [])
    applied.recorded.clear()
    second = await applied.retention.run()

    assert (first.later, second.later) == (1, 0)
    assert [each.document_id for report in applied.reports.values() for each in report.documents] == [NAMES[1]]
    assert not applied.world.documents[NAMES[1]].content
    assert applied.world.documents[NAMES[0]].content


async def test_a_document_that_got_a_later_version_and_then_a_hold_is_counted_as_such_only() -> None:
    applied, _ = await erased_by_rule(NAMES[:2])

    def meanwhile(step: str) -> None:
        if step == "delete":
            applied.world.documents[NAMES[0]].version += 1
            applied.world.holds.append(hold("h", Coverage(documents=(NAMES[0],))))

    applied.world.meanwhile = meanwhile
    done = await applied.retention.run()

    assert done == RetentionRun(erased=1, held=1, later=1)


async def test_a_version_that_is_not_published_yet_keeps_no_document_from_its_rule_and_is_named() -> None:
    applied, roots = await erased_by_rule(NAMES[:1])
    applied.world.documents[NAMES[0]].unpublished = roots[0].version + 1

    done = await applied.retention.run()

    assert applied.gone == {NAMES[0]}
    assert (done.incomplete, done.later) == (1, 0)
    # It is younger than the rule allows.
    assert applied.world.documents[NAMES[0]].unpublished
    (report,) = applied.reports.values()
    assert [each["id"] for each in json.loads(report.reports[-1].report)["unpublished"]] == [NAMES[0]]


async def test_of_two_workers_that_apply_a_rule_at_once_none_replaces_the_proof_of_the_other() -> None:
    class Pausing(World):
        """A world in which an erasure that was begun is paused, once, until another worker is done with it."""

        is_paused = False

        async def covered(self, tenant: TenantId, covers: Coverage) -> CoveredDocuments:
            """Pause."""
            if applied.reports and not self.is_paused:
                self.is_paused = True
                await applied.index.commit([deleted(each, tombstoned_at=Timestamp(0)) for each in roots], [])
                await applied.retention.run()
            return await super().covered(tenant, covers)

    applied, roots = await erased_by_rule(world=Pausing)

    await applied.retention.run()

    (report,) = applied.reports.values()
    assert report.status is ErasureStatus.ERASED
    assert [bool(json.loads(each.report)["removed"]) for each in report.reports] == [True, False]


async def test_an_erasure_that_stays_incomplete_keeps_no_report_of_each_run_that_removed_nothing() -> None:
    applied, roots = await erased_by_rule(NAMES[:1])
    applied.world.unread = (UnreadRecords(topic="chunks", partition=0, group="embed", is_in_use=True),)

    await applied.retention.run()
    await applied.index.commit([deleted(each, tombstoned_at=Timestamp(0)) for each in roots], [])
    for _ in range(3):
        await applied.retention.run()
    applied.world.documents[NAMES[0]].content = True
    await applied.retention.run()
    applied.world.unread = ()
    await applied.retention.run()

    (report,) = applied.reports.values()
    removed = [len(json.loads(each.report)["removed"]) for each in report.reports]
    assert (report.status, removed) == (ErasureStatus.ERASED, [1, 1, 0]), "all that removed something, and the last"


@pytest.mark.parametrize("action", ["delete", "erase"])
def test_reports_can_be_signed_also_once_no_rule_erases_any_more(
    tmp_path: Path, action: Literal["delete", "erase"]
) -> None:
    """An erasure that broke off goes on, whatever the rules are by then."""
    rules = RetentionSettings(rules=(RuleSettings(name="r", after_days=1, action=action),))
    with_key = Settings(retention=rules, erasure=ErasureSettings(key_file=tmp_path / "key"))
    make_key(tmp_path / "key")

    assert signer_of(with_key) is not None
    without = Settings(retention=rules)
    if action == "delete":
        assert signer_of(without) is None
    else:
        with pytest.raises(Misconfigured, match="no key signs"):
            signer_of(without)


async def test_a_later_version_stays() -> None:
    old = made(NAMES[0], {"occurred": 1, "published": 9, "team": "x", "media_type": "m", "source_uri": None})
    for action in RetentionAction:
        rule = RetentionRule(name="r", after_ms=DAY, since=RetentionClock.PUBLISHED, action=action)
        applied = Applied([old], [rule])
        await applied.index.commit([old], [])
        applied.world.documents[NAMES[0]].version = 2

        done = await applied.retention.run()

        assert not applied.gone
        assert done.later == 1


def test_rules_that_contradict_each_other_are_refused_with_the_setting() -> None:
    rule = RuleSettings(name="r", after_days=1)
    with pytest.raises(ValidationError, match="two rules are named 'r'"):
        RetentionSettings(rules=(rule, rule))
    with pytest.raises(ValidationError, match="FREKI_RETENTION__RULES"):
        RetentionSettings(every_hours=1)
    with pytest.raises(ValidationError, match="FREKI_ERASURE__ENABLED=true"):
        Settings(retention=RetentionSettings(rules=(rule,), every_hours=1))
    with pytest.raises(ValidationError, match="FREKI_ERASURE__KEY_FILE"):
        Settings(erasure=ErasureSettings(enabled=True))


@pytest.mark.parametrize("days", [inf, 1e305])
def test_a_rule_of_days_beyond_all_times_is_refused(days: float) -> None:
    with pytest.raises(ValidationError, match="less than or equal to 1000000"):
        RuleSettings(name="r", after_days=days)
