"""Retention: documents that are due by rules are deleted or erased, unless a hold keeps them."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from freki.operators.held_by import held_by
from freki.operators.retain import Due, RetentionAction, RetentionRule, due_by
from freki.schemas import Coverage, DocumentId, ErasureReport, PlannedErasure, TenantId, Timestamp
from freki.schemas.index import Root
from freki.schemas.names import record
from freki.streams.ports import WholeIndex
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


@record
class DueDocument:
    """A document that is due by a rule."""

    due: Due
    held: tuple[str, ...]
    """Holds that keep it; none: it goes at the next run."""


@record
class Retained:
    """What a run did."""

    deleted: int = 0
    erased: int = 0
    held: int = 0
    later: int = 0
    """Documents that got a later version meanwhile, and stay."""
    unanswered: int = 0
    """Deletions without a receipt in time: the next run looks again."""


class Retention:
    """Applies rules to all documents of an index."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        index: WholeIndex,
        places: DocumentPlaces,
        rules: Sequence[RetentionRule],
        holds: HoldBook,
        deletions: Deletions,
        *,
        erasure: Callable[[str], Erasure] | None,
        record: RecordRule,
        keep: Keep,
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
        self._now = now

    async def check(self, *, by: Timestamp | None = None) -> AsyncIterator[DueDocument]:
        """Yield what is due by a time, now if none is given, also what is held; nothing is changed."""
        by, batch = self._now() if by is None else by, list[Due]()
        async for root in self._index.all_roots():
            if (due := due_by(root, self._rules, by=by)) is not None:
                batch.append(due)
            if len(batch) == CHECKED_TOGETHER:
                for each in await self._checked(batch):
                    yield each
                batch.clear()
        for each in await self._checked(batch):
            yield each

    async def run(self) -> Retained:
        """Delete and erase what is due and free. Each deletion has the indexed version: a later one stays."""
        waiting: defaultdict[tuple[TenantId, str], list[Due]] = defaultdict(list)
        held, done = 0, Retained()
        async for each in self.check():
            if each.held:
                held += 1
                continue
            batch = waiting[each.due.root.tenant, each.due.rule.name]
            batch.append(each.due)
            if len(batch) == TOGETHER:
                done = _sum(done, await self._go(batch))
                batch.clear()
        for batch in waiting.values():
            if batch:
                done = _sum(done, await self._go(batch))
        return _sum(done, Retained(held=held))

    async def _checked(self, batch: Sequence[Due]) -> list[DueDocument]:
        roots: defaultdict[TenantId, list[Root]] = defaultdict(list)
        for each in batch:
            roots[each.root.tenant].append(each.root)
        held = {tenant: await self._held(tenant, documents) for tenant, documents in roots.items()}
        return [DueDocument(due=each, held=held[each.root.tenant][each.root.document_id]) for each in batch]

    async def _held(self, tenant: TenantId, documents: Sequence[Root]) -> Mapping[DocumentId, tuple[str, ...]]:
        """Return the holds that keep each document, by the attributes of every version that is known."""
        holds = await self._holds.of(tenant)
        attributes = {root.document_id: [root.attributes] for root in documents}
        if any(hold.covers.attributes for hold in holds):
            for known in await self._places.covered(tenant, Coverage(documents=tuple(attributes))):
                attributes[known.document_id] += known.attributes
        return {name: held_by(holds, tenant, name, each) for name, each in attributes.items()}

    async def _go(self, batch: Sequence[Due]) -> Retained:
        """Let documents of one tenant go by one rule, as far as no hold was placed meanwhile."""
        tenant, rule = batch[0].root.tenant, batch[0].rule
        names = await self._held(tenant, [each.root for each in batch])
        versions = {each.root.document_id: each.root.version for each in batch if not names[each.root.document_id]}
        held = Retained(held=len(batch) - len(versions))
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
            Retained(deleted=deleted, later=len(gone) - deleted, unanswered=len(versions) - len(gone)),
        )

    async def _erase(self, tenant: TenantId, rule: str, versions: dict[DocumentId, int]) -> Retained:
        if self._erasure is None:
            raise ValueError(f"rule {rule} erases, and nothing does")
        erasure, covers = self._erasure(rule), Coverage(documents=tuple(versions))
        plan = await erasure.plan(tenant, covers)
        # A later version on the topic is younger than the rule allows.
        ours = [each for each in plan.documents if each.version == versions[each.document_id]]
        later = Retained(later=len(versions) - len(ours))
        if not ours:
            return later
        request_id = f"retention:{rule}:{self._now()}"
        about = {"request_id": request_id, "requested_by": f"retention:{rule}", "reason": f"rule {rule}"}
        erased = await erasure.run(ErasurePlan(tenant=tenant, documents=ours), about=about)
        await self._keep(
            ErasureReport(
                request_id=request_id,
                tenant=tenant,
                status=erased.status,
                message="",
                covers=Coverage(documents=tuple(each.document_id for each in ours)),
                requested_by=f"retention:{rule}",
                reason=f"rule {rule}",
                at=self._now(),
                documents=tuple(ours),
                held=tuple(sorted(erased.held)),
                reports=() if erased.report is None else (erased.report,),
            )
        )
        more_later = len(erased.body.get("later_versions", ()))
        gone = len(ours) - len(erased.held) - more_later
        return _sum(later, Retained(erased=gone, held=len(erased.held), later=more_later))


def _sum(first: Retained, second: Retained) -> Retained:
    return Retained(
        deleted=first.deleted + second.deleted,
        erased=first.erased + second.erased,
        held=first.held + second.held,
        later=first.later + second.later,
        unanswered=first.unanswered + second.unanswered,
    )
