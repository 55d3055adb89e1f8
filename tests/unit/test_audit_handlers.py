"""What stages write to the audit log, and what they do when it cannot be written."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from freki.infra.audit import create_chain
from freki.infra.signing import make_key
from freki.operators.audit_chain import Event
from freki.operators.identify import root_id
from freki.schemas import (
    AuditEntry,
    AuditKind,
    ContextQuery,
    DocumentId,
    Operation,
    ReportStatus,
    ResultStatus,
    RootId,
    TenantId,
)
from freki.schemas.errors import Unavailable
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.index import Root
from freki.streams.audit.events import changed
from freki.streams.audit.log import AuditLog, AuditRules, AuditUnwritable
from freki.streams.messages import Received
from freki.streams.topics import DAY_MS
from tests.rights.forging import FORGERIES
from tests.unit.pipelines import Pipeline
from tests.unit.test_authenticate import document, found, now, opened
from tests.unit.test_document_queries import Desk, asking
from tests.unit.test_document_queries import document as listed_document

REASONS = {
    "missing": RefusalReason.NO_TOKEN,
    "no JSON Web Token": RefusalReason.MALFORMED,
    "expired": RefusalReason.EXPIRED,
    "not valid yet": RefusalReason.NOT_YET_VALID,
    "for another audience": RefusalReason.AUDIENCE,
    "of another issuer": RefusalReason.ISSUER,
    "signed by another key": RefusalReason.SIGNATURE,
    "signed by a key of another kind": RefusalReason.UNKNOWN_KEY,
    "altered": RefusalReason.SIGNATURE,
    "unsigned": RefusalReason.ALGORITHM,
    "signed with the public key": RefusalReason.ALGORITHM,
    "of another tenant": RefusalReason.TENANT,
    "without a tenant": RefusalReason.INCOMPLETE,
    "used before": RefusalReason.REPLAYED,
}


class Written:
    """A topic of entries, which can be down."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.is_down = False

    async def send(self, entries: Sequence[AuditEntry]) -> None:
        if self.is_down:
            raise Unavailable("down")
        self.entries += entries

    def of(self, kind: AuditKind) -> list[AuditEntry]:
        return [entry for entry in self.entries if entry.kind is kind]


@asynccontextmanager
async def logged(folder: Path, *, plain_text: bool = False) -> AsyncIterator[tuple[AuditLog, Written]]:
    written = Written()
    rules = AuditRules(
        waits_for_topic=True,
        buffer_bytes=1 << 20,
        anchor_entries=100,
        anchor_s=60.0,
        rotation_ms=DAY_MS,
        plain_text=plain_text,
    )
    async with AuditLog(
        lambda: create_chain(folder / "log", "1-a"),
        written.send,
        signer=make_key(folder / "audit.key"),
        rules=rules,
        now=now,
        opened=Event(kind=AuditKind.OPENED),
    ) as audit:
        yield audit, written
        written.is_down = False


@pytest.mark.parametrize("plain", [False, True])
async def test_an_answer_is_recorded_with_who_got_what_and_its_text_only_if_allowed(
    tmp_path: Path, *, plain: bool
) -> None:
    async with opened(tmp_path) as freki, logged(tmp_path, plain_text=plain) as (audit, written):
        freki.pipeline.retrieving._audit = audit
        result = await freki.ask(freki.issuer.token(groups=["hr"]))
        await freki.ask(freki.issuer.token(exp=1), principals=("board",))

    (given,) = written.of(AuditKind.ASKED)
    assert {each.document_id for each in given.documents} == found(result) == {"of-ada", "of-hr", "of-all"}
    assert (given.tenant, given.asker, given.principals) == ("t", "ada", ("ada", "hr"))
    assert given.text == ("Wer entscheidet?" if plain else "")
    assert given.text_hash == audit.event(AuditKind.ASKED, text="Wer entscheidet?").text_hash
    (refused,) = written.of(AuditKind.REFUSED)
    assert (refused.reason, refused.tenant, refused.asker, refused.principals) == (RefusalReason.EXPIRED, "", "", ())


class UsedBefore:
    """Finds each token used."""

    async def check(self, received: Received[ContextQuery], identity: Identity) -> RefusalReason:  # noqa: ARG002
        return RefusalReason.REPLAYED


async def test_each_token_that_must_not_count_is_refused_and_recorded_with_the_reason(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki, logged(tmp_path) as (audit, written):
        freki.pipeline.retrieving._audit = audit
        results = [await freki.ask(forge(freki.issuer, {"tenant": "t"})) for forge in FORGERIES.values()]
        freki.authenticator._replays = UsedBefore()
        results.append(await freki.ask(freki.issuer.token()))

    assert {result.status for result in results} == {ResultStatus.REJECTED}
    told = dict(
        zip([*FORGERIES, "used before"], [entry.reason for entry in written.of(AuditKind.REFUSED)], strict=True)
    )
    assert told == REASONS
    # Only who is proved is named.
    assert [entry.asker for entry in written.of(AuditKind.REFUSED) if entry.asker] == ["ada", "ada"]


async def test_an_answer_that_cannot_be_recorded_is_withheld(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki, logged(tmp_path) as (audit, written):
        freki.pipeline.retrieving._audit = audit
        written.is_down = True
        result = await freki.ask(freki.issuer.token())
        refused = await freki.ask(None)

    assert (result.status, result.hits, result.context) == (ResultStatus.EXPIRED, (), "")
    assert "audit log" in result.notices[0].message
    assert refused.status is ResultStatus.REJECTED


async def test_changes_are_recorded_before_they_are_committed_and_wait_for_the_log(tmp_path: Path) -> None:
    pipeline = Pipeline()
    states: list[tuple[AuditKind, bool]] = []

    async with logged(tmp_path) as (audit, written):

        async def record(roots: Sequence[Root], bases: Mapping[RootId, Root | None]) -> None:
            before = await pipeline.index.roots([root.root_id for root in roots])
            events = changed(roots, bases, generation="g1")
            assert all(before.get(root.root_id) == bases.get(root.root_id) for root in roots)
            states.extend((event.kind, bool(before)) for event in events)
            await audit.record(*events)

        pipeline.indexer._before_commit = record
        first = document("a", "Ada entscheidet.", "ada")
        await pipeline.publish(first)
        await pipeline.publish(first)
        await pipeline.publish(replace(first, version=2, principals=("hr",)))
        await pipeline.publish(replace(first, version=3, operation=Operation.DELETE, content=None))
        roots = list((await pipeline.index.roots([root_id(TenantId("t"), DocumentId("a"))])).values())
        written.is_down = True
        with pytest.raises(AuditUnwritable):
            await record(roots, {root.root_id: root for root in roots})

    assert states[:4] == [
        (AuditKind.PUBLISHED, False),
        (AuditKind.PUBLISHED, True),
        (AuditKind.RIGHTS, True),
        (AuditKind.DELETED, True),
    ]
    (rights,) = written.of(AuditKind.RIGHTS)
    assert (rights.principals_before, rights.principals) == (("ada",), ("hr",))
    assert [each.documents[0].version for each in written.of(AuditKind.PUBLISHED)] == [1, 2]
    assert written.of(AuditKind.DELETED)[0].documents[0].document_id == "a"


async def test_a_report_is_recorded_with_what_it_shows_or_withheld(tmp_path: Path) -> None:
    roots = (listed_document("a", principals=("staff",)), listed_document("b"), listed_document("c", principals=()))
    async with logged(tmp_path) as (audit, written), Desk(*roots) as desk:
        desk.handler._audit = audit
        shown = await desk.ask(asking(principals=("staff",)))
        await desk.ask(asking(limit=0))
        written.is_down = True
        withheld = await desk.ask(asking(principals=("staff",)))

    given, *_ = written.of(AuditKind.REPORTED)
    assert (
        [each.document_id for each in shown.documents] == [each.document_id for each in given.documents] == ["a", "b"]
    )
    assert (given.principals, given.reason) == (("staff",), "LIST FOUND")
    assert [entry.reason for entry in written.of(AuditKind.REFUSED)][:1] == ["validate: REJECTED"]
    assert (withheld.status, withheld.documents) == (ReportStatus.EXPIRED, ())
    assert "audit log" in withheld.message
