"""Retention: documents that are due by rules are deleted or erased, unless a hold keeps them."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from freki.operators.held_by import held_by
from freki.operators.identify import root_id
from freki.operators.retain import Due, RetentionAction, RetentionRule, due_by
from freki.schemas import (
    OF_RETENTION,
    Coverage,
    DocumentId,
    ErasureReport,
    ErasureStatus,
    PlannedErasure,
    SignedReport,
    TenantId,
    Timestamp,
)
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.names import record
from freki.streams.batches import batched
from freki.streams.ports import DocumentIndex
from freki.streams.ports.erasure import Deletions, DocumentPlaces, HoldBook
from freki.streams.privacy.erasure import Erasure, ErasurePlan

TOGETHER = 50
"""Documents that go at once; before each such batch the holds are read again."""
CHECKED_TOGETHER = 1_000
"""Due documents whose holds are looked up at once: a hold by attributes has all changes on the topic read."""

RecordRule = Callable[[TenantId, str, Sequence[PlannedErasure]], Awaitable[None]]
"""Writes to the audit log which documents are to go by which rule."""
Keep = Callable[[ErasureReport], Awaitable[None]]
"""Puts the report of an erasure on its topic."""
Fits = Callable[[ErasureReport], bool]
"""Returns whether the report on an erasure that is begun will fit a record, also at its end."""
Begun = Callable[[str], Awaitable[Sequence[ErasureReport]]]
"""Returns the last reports of the erasures that are to go on, of those whose request id has a prefix."""
Last = Callable[[TenantId, str], Awaitable[ErasureReport | None]]
"""Returns the last report of an erasure by its request id; None where there is none."""


@record
class DueDocument:
    """A document that is due by a rule."""

    due: Due
    held: tuple[str, ...]
    """Holds that keep it; none: it goes at the next run."""
    attributes: tuple[Mapping[str, str], ...]
    """Those of the indexed version, and where a hold may be by attributes those of all versions that are known."""
    knows_all: bool
    """Whether they are those of all versions."""


@record
class RetentionRun:
    """What a run did."""

    deleted: int = 0
    erased: int = 0
    held: int = 0
    later: int = 0
    """Documents that got a later version meanwhile, and stay."""
    unanswered: int = 0
    """Deletions without a receipt in time: the next run looks again."""
    incomplete: int = 0
    """Documents of erasures of which something is left, or may still come: the next run goes on."""
    kept: int = 0
    """Documents of erasures that broke off, which their rule no longer erases: they were not deleted yet, and stay."""
    failures: tuple[str, ...] = ()
    """What could not be done, with the tenant: all else went on, and the next run tries it again."""


class Retention:
    """Applies rules to all documents of an index."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        index: DocumentIndex,
        places: DocumentPlaces,
        rules: Sequence[RetentionRule],
        holds: HoldBook,
        deletions: Deletions,
        *,
        erasure: Callable[[str], Erasure] | None,
        record: RecordRule,
        keep: Keep,
        fits: Fits,
        begun: Begun,
        last: Last,
        now: Callable[[], Timestamp],
    ) -> None:
        """Create one; erasure: returns an erasure for the name of a rule; None: no rule erases."""
        self._index = index
        self._places = places
        self._rules = rules
        self._holds = holds
        self._deletions = deletions
        self._erasure = erasure
        self._record = record
        self._keep = keep
        self._fits = fits
        self._begun = begun
        self._last = last
        self._now = now

    async def check(self, *, by: Timestamp | None = None) -> AsyncIterator[DueDocument]:
        """Yield what is due by a time, now if none is given, also what is held; nothing is changed."""
        by = self._now() if by is None else by
        dues = (due_by(root, self._rules, by=by) async for root in self._index.all_roots())
        async for batch in batched((due async for due in dues if due is not None), CHECKED_TOGETHER):
            for each in await self._checked(batch):
                yield each

    async def run(self) -> RetentionRun:
        """Delete and erase what is due and free. Each deletion has the indexed version: a later one stays.

        Erasures that broke off, are incomplete or met a hold go on first: their documents may be deleted already, and
        are due no more. What fails in one tenant keeps no other one waiting. Raises Misconfigured, and Unavailable
        where index or holds cannot be read.
        """
        waiting: defaultdict[tuple[TenantId, str], list[DueDocument]] = defaultdict(list)
        held, done, tenants = 0, RetentionRun(), _Tenants()
        if self._erasure is not None:
            for report in await self._begun(OF_RETENTION):
                done = _sum(done, await tenants.tried(report.tenant, partial(self._go_on, report)))
        async for each in self.check():
            if each.held:
                held += 1
                continue
            tenant = each.due.root.tenant
            batch = waiting[tenant, each.due.rule.name]
            batch.append(each)
            if len(batch) == TOGETHER:
                done = _sum(done, await tenants.tried(tenant, partial(self._go, tuple(batch))))
                batch.clear()
        for (tenant, _), batch in waiting.items():
            if batch:
                done = _sum(done, await tenants.tried(tenant, partial(self._go, batch)))
        return _sum(done, RetentionRun(held=held))

    async def _checked(self, batch: Sequence[Due]) -> list[DueDocument]:
        by_tenant: defaultdict[TenantId, list[DueDocument]] = defaultdict(list)
        for due in batch:
            unheld = DueDocument(due=due, held=(), attributes=(due.root.attributes,), knows_all=False)
            by_tenant[due.root.tenant].append(unheld)
        return [each for tenant, documents in by_tenant.items() for each in await self._with_holds(tenant, documents)]

    async def _with_holds(self, tenant: TenantId, documents: Sequence[DueDocument]) -> list[DueDocument]:
        """Return documents with the holds of now."""
        holds = await self._holds.of(tenant)
        if any(hold.covers.attributes for hold in holds) and not all(each.knows_all for each in documents):
            covers = Coverage(documents=tuple(each.due.root.document_id for each in documents))
            covered = (await self._places.covered(tenant, covers)).documents
            known = {each.document_id: each.attributes for each in covered}
            documents = [
                replace(
                    each,
                    attributes=(*each.attributes, *known.get(each.due.root.document_id, ())),
                    knows_all=True,
                )
                for each in documents
            ]
        return [
            replace(each, held=held_by(holds, tenant, each.due.root.document_id, each.attributes)) for each in documents
        ]

    async def _go(self, batch: Sequence[DueDocument]) -> RetentionRun:
        """Let documents of one tenant go by one rule, as far as no hold was placed meanwhile."""
        tenant, rule = batch[0].due.root.tenant, batch[0].due.rule
        free = [each.due.root for each in await self._with_holds(tenant, batch) if not each.held]
        versions = {root.document_id: root.version for root in free}
        held = RetentionRun(held=len(batch) - len(versions))
        if not versions:
            return held
        named = [PlannedErasure(document_id=name, version=version) for name, version in versions.items()]
        await self._record(tenant, rule.name, named)
        if rule.action is RetentionAction.ERASE:
            return _sum(held, await self._erase(tenant, rule.name, versions))
        gone = await self._deletions.delete(tenant, versions)
        deleted = sum(gone.values())
        return _sum(
            held,
            RetentionRun(deleted=deleted, later=len(gone) - deleted, unanswered=len(versions) - len(gone)),
        )

    async def _erase(self, tenant: TenantId, rule: str, versions: dict[DocumentId, int]) -> RetentionRun:
        covers = Coverage(documents=tuple(versions))
        plan = await self._erasure_for(rule).plan(tenant, covers, with_unpublished=False)
        # A later version on the topic is younger than the rule allows.
        ours = [each for each in plan.documents if each.version == versions[each.document_id]]
        later = RetentionRun(later=len(versions) - len(ours))
        if not ours:
            return later
        begun = ErasureReport(
            request_id=f"{OF_RETENTION}{rule}:{self._now()}",
            tenant=tenant,
            status=ErasureStatus.BEGUN,
            message="",
            covers=Coverage(documents=tuple(each.document_id for each in ours)),
            requested_by=f"{OF_RETENTION}{rule}",
            reason=f"rule {rule}",
            at=self._now(),
            documents=tuple(ours),
        )
        for part in self._parts(begun):
            shortened = await self._keep_fitting(part)
            later = _sum(_sum(later, shortened), await self._finish(part))
        return later

    def _parts(self, begun: ErasureReport) -> list[ErasureReport]:
        """Return an erasure in as many parts as it takes for the report on each to fit a record."""
        half = len(begun.documents) // 2
        if not half or self._fits(begun):
            return [begun]
        halves = (begun.documents[:half], begun.documents[half:])
        return [
            part
            for number, documents in enumerate(halves, start=1)
            for part in self._parts(
                replace(
                    begun,
                    request_id=f"{begun.request_id}.{number}",
                    covers=Coverage(documents=tuple(each.document_id for each in documents)),
                    documents=documents,
                )
            )
        ]

    async def _keep_fitting(self, report: ErasureReport) -> RetentionRun:
        """Keep a report, shortened as far as its topic wants, which it says: else each run would fail at it again."""
        forms = [report, *_shortened(report)]
        for form in forms[:-1]:
            with suppress(Rejected):
                await self._keep(form)
                return _noted(report, form)
        await self._keep(forms[-1])
        return _noted(report, forms[-1])

    async def _go_on(self, report: ErasureReport) -> RetentionRun:
        """Finish an erasure; of one that met holds what was deleted before, as the rules decide on the others."""
        if report.status is ErasureStatus.HELD:
            erasure = self._erasure_for(report.requested_by.removeprefix(OF_RETENTION))
            gone = await erasure.gone(report.tenant, report.held)
            report = replace(report, documents=tuple(each for each in report.documents if each.document_id in gone))
            return await self._finish(report) if report.documents else RetentionRun()
        still = await self._still_to_go(report)
        kept = RetentionRun(kept=len(report.documents) - len(still))
        if not kept.kept:
            return await self._finish(report)
        message = (
            f"{kept.kept} of {len(report.documents)} documents stay: they are indexed, and the rule erases them no more"
        )
        report = replace(report, documents=still, message=message, at=self._now())
        if still:
            return _sum(kept, await self._finish(report))
        ended = report if report.reports else replace(report, status=ErasureStatus.REJECTED)
        return _sum(kept, await self._keep_fitting(ended))

    async def _still_to_go(self, report: ErasureReport) -> tuple[PlannedErasure, ...]:
        """Return the documents of an erasure that broke off which are deleted already, or which its rule still erases.

        A deletion cannot be taken back: what is left of such a document is erased whatever the rules are by now. A
        later version is not erased, but named by the report.
        """
        keys = {each.document_id: root_id(report.tenant, each.document_id) for each in report.documents}
        roots, name, now = await self._index.roots(list(keys.values())), report.requested_by, self._now()
        rules = [
            rule
            for rule in self._rules
            if rule.action is RetentionAction.ERASE and f"{OF_RETENTION}{rule.name}" == name
        ]
        return tuple(
            each
            for each in report.documents
            for root in [roots.get(keys[each.document_id])]
            if root is None or root.deleted or root.version > each.version or due_by(root, rules, by=now) is not None
        )

    async def _finish(self, begun: ErasureReport) -> RetentionRun:
        """Erase the documents of a report, and keep the one on how it ended."""
        about = {"request_id": begun.request_id, "requested_by": begun.requested_by, "reason": begun.reason}
        plan = ErasurePlan(tenant=begun.tenant, documents=begun.documents)
        erasure = self._erasure_for(begun.requested_by.removeprefix(OF_RETENTION))
        erased = await erasure.run(plan, about=about)
        later = frozenset(erased.body.get("later_versions", ()))
        # Another process may have gone on with it at the same time, and its proof stays.
        before = await self._last(begun.tenant, begun.request_id) or begun
        shortened = await self._keep_fitting(
            replace(
                begun,
                status=erased.status,
                at=self._now(),
                held=tuple(sorted(erased.held)),
                # A later version stays: the next run is not to try it again.
                documents=tuple(each for each in begun.documents if each.document_id not in later),
                reports=_reports(before.reports, erased.report),
            )
        )
        # One that got a later version may have been held since.
        gone = len(begun.documents) - len(later.union(erased.held))
        done = RetentionRun(erased=gone) if erased.is_whole else RetentionRun(incomplete=gone)
        return _sum(_sum(done, shortened), RetentionRun(held=len(erased.held), later=len(later)))

    def _erasure_for(self, rule: str) -> Erasure:
        if self._erasure is None:
            raise ValueError(f"rule {rule} erases, and nothing does")
        return self._erasure(rule)


class _Tenants:
    """What is tried in some tenants, one after the other."""

    def __init__(self) -> None:
        self._out_of_reach: set[TenantId] = set()

    async def tried(self, tenant: TenantId, work: Callable[[], Awaitable[RetentionRun]]) -> RetentionRun:
        """Return what was done in a tenant, or why it could not be. Raises Misconfigured.

        Once something does not answer, the tenant is left out: each further wait would be as long.
        """
        if tenant in self._out_of_reach:
            return RetentionRun()
        try:
            return await work()
        except Misconfigured:
            raise
        except InfraError as error:
            if isinstance(error, Unavailable):
                self._out_of_reach.add(tenant)
            return RetentionRun(failures=(f"tenant {tenant}: {error}",))


def _reports(before: Sequence[SignedReport], last: SignedReport | None) -> tuple[SignedReport, ...]:
    """Return the signed reports of an erasure after another run, which may be the hundredth that finds the same left.

    A repetition that removed nothing, of no document but those of the last run, gives way to that: a record is of
    limited size, and one that is not taken would stop all retention.
    """
    if last is None:
        return tuple(before)
    first, repeated = before[:1], before[1:]
    if repeated:
        body = json.loads(repeated[-1].report)
        named = [each["id"] for each in json.loads(last.report)["documents"]]
        if not body["removed"] and all(each["id"] in named for each in body["documents"]):
            repeated = repeated[:-1]
    return (*first, *repeated, last)


def _noted(report: ErasureReport, kept: ErasureReport) -> RetentionRun:
    """Return what is to be told of a report that was kept, perhaps in a shorter form."""
    told = f"tenant {report.tenant}: {report.request_id}: {kept.message}"
    return RetentionRun(failures=() if kept is report else (told,))


def _shortened(report: ErasureReport) -> list[ErasureReport]:
    """Return shorter forms of a report that is too large for a record, the most complete first; each says so."""
    documents = tuple(replace(each, claims=()) for each in report.documents)
    forms = {
        "earlier signed reports": replace(report, reports=report.reports[-1:]),
        "earlier signed reports and addresses of claims": replace(
            report, reports=report.reports[-1:], documents=documents
        ),
        "all signed reports and addresses of claims": replace(report, reports=(), documents=documents),
    }
    note = "left out, since the report was too large for a record (FREKI_KAFKA__MAX_MESSAGE_BYTES)"
    return [
        replace(form, message="; ".join(filter(None, (report.message, f"{what}: {note}"))))
        for what, form in forms.items()
        if form != report
    ]


def _sum(first: RetentionRun, second: RetentionRun) -> RetentionRun:
    return RetentionRun(
        deleted=first.deleted + second.deleted,
        erased=first.erased + second.erased,
        held=first.held + second.held,
        later=first.later + second.later,
        unanswered=first.unanswered + second.unanswered,
        incomplete=first.incomplete + second.incomplete,
        kept=first.kept + second.kept,
        failures=first.failures + second.failures,
    )


def open_reports(reports: Iterable[ErasureReport]) -> list[ErasureReport]:
    """Return the reports of erasures that broke off, are incomplete or met holds, and have documents left to erase."""
    unfinished = {ErasureStatus.BEGUN, ErasureStatus.INCOMPLETE, ErasureStatus.HELD}
    return [each for each in reports if each.status in unfinished and each.documents]
